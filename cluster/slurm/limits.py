"""How much a site takes: sizes read from its configuration, limits learned from its refusals, errors told apart."""

from __future__ import annotations

import getpass
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from cluster.slurm.commands import Answer, Commands
from cluster.slurm.parse import config_values, key_values

MOST_QUEUED = 8000
"""Records of ours that the controller is ever asked to keep."""
LEARNED_FOR_S = 600.0
WITHOUT_ACCOUNTS = "this site keeps no accounts: states come from squeue and from our own end markers"


class Refused(Enum):
    """What kind of answer a failed ``sbatch`` gave."""

    UNCLEAR = "unclear"
    """It may have been accepted: look for it before trying again."""
    LIMIT = "limit"
    """Nothing was accepted; there will be room later."""
    NEVER = "never"
    """Nothing was accepted, and asking again cannot help."""


_LIMIT = re.compile(
    r"(QOS|Assoc)\w*Limit|violates accounting/QOS policy|job submit limit|Resource temporarily unavailable"
    r"|temporarily unable to accept|MaxJobCount|Job limit",
    re.IGNORECASE,
)
_UNCLEAR = re.compile(
    r"timed out|Unable to contact|connect failure|Connection (refused|reset)|communication (connection )?failure"
    r"|Socket|Zero Bytes|Transport endpoint|backup controller|try again|Slurmctld|No response|Network is unreachable"
    r"|Protocol authentication error|Expired credential",
    re.IGNORECASE,
)


def refused(answer: Answer) -> Refused:
    """Judge an ``sbatch`` that did not answer with an id."""
    if answer.code is None:
        return Refused.UNCLEAR
    if _LIMIT.search(answer.err):
        return Refused.LIMIT
    if answer.ok or _UNCLEAR.search(answer.err):
        return Refused.UNCLEAR
    return Refused.NEVER


def limit_name(answer: Answer) -> str:
    """The limit that a refusal speaks of, as the site calls it."""
    found = re.search(r"\b((QOS|Assoc)\w*Limit)\b", answer.err)
    return found[1] if found else answer.trouble


def is_array_refusal(answer: Answer) -> bool:
    """ "Invalid job array specification": an array that is too large, or (misleadingly) one beyond a submit limit."""
    return "Invalid job array specification" in answer.err


@dataclass(frozen=True, slots=True)
class Partition:
    """How long jobs may run in a partition (minutes; None: no limit, or nobody knows)."""

    name: str = ""
    most_minutes: int | None = None
    default_minutes: int | None = None
    """Of a job that names no limit; where the site sets none that is ``most_minutes``."""


def minutes_of(text: str) -> int | None:
    """Whole minutes of a duration as Slurm writes and reads it (``90``, ``1:30:00``, ``2-12``, ``7-00:00:00``);
    None for ``UNLIMITED``, ``NONE``, ``0`` and what is no duration."""
    found = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", text.strip())
    if found is None:
        return None
    days, first, second, third = (None if part is None else int(part) for part in found.groups())
    if days is not None:
        total = days * 1440 + (first or 0) * 60 + (second or 0) + bool(third)
    elif third is not None:
        total = (first or 0) * 60 + (second or 0) + bool(third)
    else:
        total = (first or 0) + bool(second)
    return total or None


def partitions(text: str) -> dict[str, Partition]:
    """From ``scontrol -o show partition``; the site's default partition also under ``""``."""
    found: dict[str, Partition] = {}
    for line in text.splitlines():
        values = key_values(line)
        name = values.get("PartitionName")
        if name is None:
            continue
        most = minutes_of(values.get("MaxTime", ""))
        found[name] = Partition(name, most, minutes_of(values.get("DefaultTime", "")) or most)
        if values.get("Default") == "YES" or "" not in found:
            found[""] = found[name]
    return found


class Limits:
    """What is known of a site's sizes.

    Args:
        most_queued: never have more jobs than this in the queue.
    """

    def __init__(
        self,
        commands: Commands,
        *,
        clock: Callable[[], float] = time.monotonic,
        most_queued: int = MOST_QUEUED,
    ) -> None:
        self._commands = commands
        self._clock = clock
        self._most = most_queued
        self._config: dict[str, str] | None = None
        self._partitions: dict[str, Partition] | None = None
        self._submit: int | None = None
        self._asked_submit = False
        self._learned: tuple[int, float] | None = None
        self.throttled = ""
        """Name of the limit that holds us back, as the site calls it; "" while none does."""

    def config(self) -> dict[str, str]:
        """``scontrol show config``, read once; empty while the controller does not answer."""
        if self._config is None and self._commands.orders.take():
            answer = self._commands("scontrol", "show", "config")
            if answer.ok:
                self._config = config_values(answer.out)
        return self._config or {}

    @property
    def told_without_accounts(self) -> bool:
        """The controller has said that the site keeps no accounts; asks nobody."""
        return (self._config or {}).get("AccountingStorageType", "").endswith("/none")

    def _number(self, key: str, default: int) -> int:
        found = re.match(r"\d+", self.config().get(key, ""))
        return int(found[0]) if found else default

    @property
    def array_size(self) -> int:
        """Elements that one array may have (indices are below ``MaxArraySize``)."""
        return max(1, self._number("MaxArraySize", 1001))

    @property
    def accounting(self) -> bool | None:
        """Whether the site keeps accounts; None where the controller does not say."""
        kind = self.config().get("AccountingStorageType")
        return None if kind is None else not kind.endswith("/none")

    def partition(self, names: str | None) -> Partition:
        """The partition a job asks for (None: the site's own choice; of several, ``a,b``, the strictest of each). Asked
        once; knows nothing while the controller does not answer."""
        if self._partitions is None and self._commands.orders.take():
            answer = self._commands("scontrol", "-o", "show", "partition")
            if answer.ok:
                self._partitions = partitions(answer.out)
        known = [found for name in (names or "").split(",") if (found := (self._partitions or {}).get(name.strip()))]
        if not known:
            return Partition()
        most = [one.most_minutes for one in known if one.most_minutes is not None]
        usual = [one.default_minutes for one in known if one.default_minutes is not None]
        return Partition(names or known[0].name, min(most, default=None), min(usual, default=None))

    def submit_limit(self) -> int | None:
        """Jobs that the site lets this user queue, as far as accounting tells (associations and QOS); None: no limit
        that we know of. Asked once."""
        if not self._asked_submit and self.accounting and self._commands.orders.take():
            self._asked_submit = True
            numbers: list[int] = []
            for what in (("assoc", f"user={getpass.getuser()}", "format=MaxSubmit,GrpSubmit"),):
                answer = self._commands("sacctmgr", "-n", "-P", "show", *what)
                if answer.ok:
                    numbers += [int(n) for n in re.findall(r"\d+", answer.out)]
            self._submit = min(numbers, default=None)
        return self._submit

    def learn(self, fits: int, name: str) -> None:
        """The site refused more than ``fits`` jobs of ours in its queue, for a limit it calls ``name``."""
        self._learned = (max(1, fits), self._clock() + LEARNED_FOR_S)
        self.throttled = name

    def fits(self, queued: int) -> None:
        """The site took jobs; ``queued`` of ours are there now. What was learned may be too strict (the limit may be
        shared, or the room was taken by others), so it is felt out again."""
        if self._learned is not None:
            self._learned = (max(self._learned[0], 2 * queued), self._learned[1])

    def ceiling(self) -> int:
        """Most jobs of ours that may be queued or running."""
        most = self._most
        if (known := self.submit_limit()) is not None:
            most = min(most, max(1, known))
        if self._learned is not None:
            if self._clock() < self._learned[1]:
                most = min(most, self._learned[0])
            else:
                self._learned, self.throttled = None, ""
        return most
