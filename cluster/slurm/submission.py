"""Handing a batch over as arrays: intent before effect, as few calls as limits allow, never twice what is there.

For every array a file ``array-<first>.json`` is linked into the batch's directory before ``sbatch`` and ``..id.json``
after its answer. An intent without an answer is looked up by name before it is tried again, and not before the
controller had time to show what it may have taken.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.backend import LaunchRequest, PermanentError, Resources, TemporaryError
from cluster.slurm import script
from cluster.slurm.batches import array_name, comment_of
from cluster.slurm.commands import Answer, Backoff, Commands
from cluster.slurm.limits import Limits, Refused, is_array_refusal, limit_name, refused
from cluster.slurm.profile import Profile
from cluster.slurm.time_limit import TimeLimit, time_limit

QUIET_S = 30.0
"""After an unclear answer nothing is submitted again for so long: a slow controller shows by then what it took."""

Render = Callable[[Path, dict[str, Any], str, Sequence[str]], str]
"""(folder, parameters, shell body, set-up lines) -> text of a batch script. Raises ValueError on a wrong parameter."""
LookUp = Callable[[str], str | None]
"""Name of an array -> id of the job that carries it, None where there is none. Raises TemporaryError."""


def _link(path: Path, value: dict[str, Any]) -> bool:
    """Write aside, fsync, link; False where the file was there already."""
    aside = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with open(aside, "xb") as file:
        file.write(json.dumps(value, sort_keys=True).encode())
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(aside, path)
        return True
    except FileExistsError:
        return False
    finally:
        os.unlink(aside)


@dataclass(frozen=True)
class Array:
    """Entries ``first`` to ``first + count - 1`` of a batch as one array. ``job`` None: no answer is known."""

    first: int
    count: int
    job: str | None = None
    tried: float = 0.0


def read_arrays(directory: Path) -> list[Array]:
    """What was tried of a batch so far, in order."""
    found = []
    for path in directory.glob("array-*.json"):
        if re.fullmatch(r"array-\d+\.json", path.name):
            record = json.loads(path.read_bytes())
            answer = path.with_name(path.stem + ".id.json")
            job = json.loads(answer.read_bytes())["id"] if answer.exists() else None
            found.append(Array(record["first"], record["count"], job, record["time"]))
    return sorted(found, key=lambda array: array.first)


class Submitter:
    """Submits for one backend.

    Args:
        look_up: finds an array by its name, for intents without an answer.
        render: makes the script's text.
        left_minutes: until a maintenance, None for none.
        clock: wall clock, seconds; ``steady``: monotonic seconds.
    """

    def __init__(
        self,
        commands: Commands,
        limits: Limits,
        profile: Profile,
        *,
        look_up: LookUp,
        render: Render,
        left_minutes: Callable[[], float | None] = lambda: None,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._commands = commands
        self._limits = limits
        self._profile = profile
        self._look_up = look_up
        self._render = render
        self._left_minutes = left_minutes
        self._clock = clock
        self._backoff = Backoff(5.0, 300.0, steady)
        self._throttles = Backoff(4.0, 60.0, steady)
        self.handed = 0
        """Jobs that the site has taken from us so far."""
        self.exclude: frozenset[str] = frozenset()
        """Nodes that jobs are to avoid."""

    def submit(self, directory: Path, requests: Sequence[LaunchRequest], queued: int) -> list[str]:
        """Ids ``<array>_<task>`` of every entry of the batch. ``queued``: jobs of ours that are in the queue.

        Raises:
            TemporaryError: part or all of it is not submitted now; what was, is remembered.
            PermanentError: it can never be submitted as it is.
        """
        ids: dict[int, str] = {}
        covered, before = 0, self.handed
        for array in read_arrays(directory):
            job = array.job if array.job is not None else self._settle(directory, array, requests)
            covered = array.first + array.count
            ids |= {array.first + task: f"{job}_{task}" for task in range(array.count)}
        while covered < len(requests):
            there = queued + self.handed - before
            room = self._limits.ceiling() - there
            if room <= 0 and there:
                self._throttle(len(ids), len(requests))
            array = self._next(directory, requests, covered, max(1, room), there)
            ids |= {array.first + task: f"{array.job}_{task}" for task in range(array.count)}
            covered = array.first + array.count
            self._limits.fits(queued + self.handed - before)
        return [ids[index] for index in range(len(requests))]

    def _settle(self, directory: Path, array: Array, requests: Sequence[LaunchRequest]) -> str:
        """The job of an intent that has no answer: found, or submitted again."""
        name = array_name(directory.name, array.first)
        job = self._look_up(name)
        if job is None:
            age = self._clock() - array.tried
            if 0 <= age < QUIET_S:
                raise TemporaryError(f"{name}: no answer yet, and no such job; looking again", QUIET_S - age)
            intent = directory / f"array-{array.first}.json"
            intent.unlink(missing_ok=True)
            self._intend(directory, array.first, array.count)
            answer = self._sbatch(directory, array.first, array.count, requests)
            job = self._id(answer)
            if job is None:
                raise self._failure(answer, directory, array.first)
            self.handed += array.count
        self._answered(directory, array.first, job)
        return job

    def _next(self, directory: Path, requests: Sequence[LaunchRequest], first: int, room: int, queued: int) -> Array:
        """Submit entries from ``first`` on, as many as the site takes in one array."""
        count = min(len(requests) - first, self._limits.array_size, room)
        while True:
            self._intend(directory, first, count)
            answer = self._sbatch(directory, first, count, requests)
            job = self._id(answer)
            if job is not None:
                self.handed += count
                self._answered(directory, first, job)
                return Array(first, count, job)
            kind = refused(answer)
            limited = kind is Refused.LIMIT or (is_array_refusal(answer) and count > 1)
            if not limited or count == 1:
                if kind is Refused.LIMIT:
                    self._limits.learn(queued, limit_name(answer))
                raise self._failure(answer, directory, first)
            (directory / f"array-{first}.json").unlink(missing_ok=True)  # refused whole: nothing of it exists
            count //= 2

    def _intend(self, directory: Path, first: int, count: int) -> None:
        record = {"first": first, "count": count, "name": array_name(directory.name, first), "time": self._clock()}
        if not _link(directory / f"array-{first}.json", record):
            raise TemporaryError(f"another orchestrator is submitting {directory.name}", QUIET_S)

    def _answered(self, directory: Path, first: int, job: str) -> None:
        _link(directory / f"array-{first}.id.json", {"id": job, "time": self._clock()})

    def _sbatch(self, directory: Path, first: int, count: int, requests: Sequence[LaunchRequest]) -> Answer:
        path = directory / f"array-{first}.sh"
        path.write_text(self.text(directory, first, count, requests))
        return self._commands.order("sbatch", "--parsable", str(path))

    def limit_of(self, resources: Resources) -> TimeLimit:
        """The time limit and the lead that a job of these resources is submitted with now."""
        names = dict(resources.extra).get("partition", self._profile.partition)
        return time_limit(resources, self._profile, self._limits.partition(names), self._left_minutes())

    def text(self, directory: Path, first: int, count: int, requests: Sequence[LaunchRequest]) -> str:
        """The batch script of one array.

        Raises:
            PermanentError: a parameter that submitit or we refuse.
        """
        resources = requests[first].resources
        profile = self._profile
        asked = script.parameters(resources, profile)
        limit = self.limit_of(resources)
        if limit.minutes is not None and "time" not in dict(resources.extra):
            asked["time"] = limit.minutes
        if self.exclude:
            own = [asked["exclude"]] if asked.get("exclude") else []
            asked["exclude"] = ",".join([*own, *sorted(self.exclude)])
        asked["job_name"] = array_name(directory.name, first)
        asked["comment"] = comment_of(directory)
        owned = script.own_options(directory, first, count, limit.lead_s)
        asked["additional_parameters"] = {**asked["additional_parameters"], **owned}
        shell = script.body(directory, first, resources, profile, requests[first].env)
        try:
            return self._render(directory, asked, shell, script.setup_lines(profile))
        except ValueError as error:
            raise PermanentError(str(error)) from error

    def _id(self, answer: Answer) -> str | None:
        """The id in ``sbatch --parsable``'s answer (``id`` or ``id;cluster``; sites may print more above it)."""
        if not answer.ok:
            return None
        lines = [line.strip() for line in answer.out.splitlines() if re.fullmatch(r"\d+(;\S+)?", line.strip())]
        if not lines:
            return None
        self._backoff.succeeded()
        self._throttles.succeeded()
        return lines[-1].partition(";")[0]

    def _failure(self, answer: Answer, directory: Path, first: int) -> Exception:
        """What to raise for a refusal. Where nothing was accepted, the intent is taken back."""
        kind = refused(answer)
        if kind is not Refused.UNCLEAR:
            with contextlib.suppress(FileNotFoundError):
                (directory / f"array-{first}.json").unlink()
        if kind is Refused.NEVER:
            return PermanentError(f"sbatch refused {directory.name}: {answer.err.strip() or answer.trouble}")
        if kind is Refused.LIMIT:
            name = limit_name(answer)
            return TemporaryError(f"throttled by the scheduler ({name}); the rest follows", self._throttles.failed())
        return TemporaryError(f"sbatch: {answer.trouble}", max(1.0, self._backoff.failed()))

    def _throttle(self, done: int, wanted: int) -> None:
        name = self._limits.throttled or "submit limit"
        raise TemporaryError(
            f"throttled by the scheduler ({name}): {done} of {wanted} jobs handed over", self._throttles.failed()
        )
