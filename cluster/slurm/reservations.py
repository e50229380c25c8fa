"""Maintenance: a job whose time limit reaches into it does not start before it. A shorter limit may fit under it, and a
run that is cut there goes on afterwards.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from cluster.backend import JobReport, JobState
from cluster.slurm.commands import Commands
from cluster.slurm.parse import key_values

LOOK_EVERY_S = 600.0
MARGIN_MINUTES = 5
LEAST_MINUTES = 15
"""A limit shorter than this is not worth a start; the job then waits until the maintenance is over."""

_RESERVED = re.compile(r"ReqNodeNotAvail|maint|^Reservation$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Maintenance:
    """A reservation flagged MAINT. Times are local and have no zone, as Slurm prints them."""

    name: str
    start: datetime
    end: str


def maintenances(text: str) -> Iterator[Maintenance]:
    """From ``scontrol -o show reservation``."""
    for line in text.splitlines():
        values = key_values(line)
        if "MAINT" not in values.get("Flags", ""):
            continue
        try:
            start = datetime.fromisoformat(values["StartTime"])
        except (KeyError, ValueError):
            continue
        yield Maintenance(values.get("ReservationName", ""), start, values.get("EndTime", "?"))


class Calendar:
    """Minutes until the next maintenance, asked for now and then."""

    def __init__(self, commands: Commands, clock: Callable[[], float] = time.monotonic) -> None:
        self._commands = commands
        self._clock = clock
        self._asked: float | None = None
        self._found: list[Maintenance] = []

    def left_minutes(self) -> float | None:
        """None: no maintenance is announced, or nobody answers."""
        now = self._clock()
        if (self._asked is None or now - self._asked > LOOK_EVERY_S) and self._commands.orders.take():
            self._asked = now
            answer = self._commands("scontrol", "-o", "show", "reservation")
            if answer.ok:
                self._found = list(maintenances(answer.out))
        found = self.next()
        return None if found is None else (found.start - datetime.now()).total_seconds() / 60

    def next(self) -> Maintenance | None:
        """The next maintenance that was heard of; asks nobody."""
        ahead = [found for found in self._found if found.start > datetime.now()]
        return min(ahead, key=lambda found: found.start, default=None)

    def explain(self, report: JobReport) -> JobReport:
        """A waiting job's report; where Slurm keeps it back because of a maintenance, with that one's name and times,
        and why its limit was not shortened to end before it."""
        said = str(report.details.get("slurm_reason", ""))
        if report.state is not JobState.QUEUED or not _RESERVED.search(said) or (ahead := self.next()) is None:
            return report
        times = f"{ahead.start:%Y-%m-%d %H:%M} to {ahead.end}"
        words = (
            f"its time limit reaches into the maintenance {ahead.name} ({times}) and was not shortened (a run's own "
            f"limit never is, and a checkpoint interval must fit): waits until it is over"
        )
        return replace(report, reason=words)
