"""What state is a run in? Derived from the records of its attempts; stored nowhere. Pure.

A run is ``completed`` by its first ``finished`` fact that counts, and never becomes anything else. Facts behind the
point at which an attempt was closed do not count (``Closed.facts_bytes``).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from jobs.facts import (
    Checkpointed,
    Claimed,
    Closed,
    Fact,
    FailureClass,
    Finished,
    Started,
    read_claimed,
    read_closed,
    read_facts,
)
from jobs.launch import Launch, read_launch
from jobs.workspace import AttemptDir


class RunState(StrEnum):
    PENDING = "pending"
    """Nothing is launched for it now: never, or what was (lost, preempted, a probe) says nothing against it."""
    QUEUED = "queued"
    """Launched, and no worker has claimed it yet."""
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class AttemptRecord:
    """What one attempt's directory says. ``facts`` are those that count, in the order they were written."""

    number: int
    members: tuple[str, ...]
    done: frozenset[str] = frozenset()
    claimed: Claimed | None = None
    facts: tuple[Fact, ...] = ()
    closed: Closed | None = None

    @staticmethod
    def of(launch: Launch, claimed: Claimed | None, facts: Sequence[Fact], closed: Closed | None) -> AttemptRecord:
        return AttemptRecord(
            launch.attempt,
            tuple(member.run for member in launch.members),
            frozenset(member.run for member in launch.members if member.done),
            claimed,
            tuple(facts),
            closed,
        )

    @property
    def failure(self) -> FailureClass | None:
        """The class that a retry policy goes by; None while the attempt is open or where all went well."""
        if self.closed is None or self.closed.outcome == "completed":
            return None
        defaults = {"preempted": FailureClass.PREEMPTED, "cancelled": FailureClass.CANCELLED, "lost": FailureClass.LOST}
        return self.closed.failure or defaults.get(self.closed.outcome, FailureClass.UNKNOWN)


@dataclass(frozen=True)
class RunStatus:
    """One run as it stands.

    Attributes:
        reason: why it is in this state, in words ("" where the state says it all).
        attempt: the attempt that the state comes from, 0 where there was none.
        step: the last step known to be on disk (start, checkpoint, finish).
        finished: the fact that ended it.
    """

    state: RunState
    reason: str = ""
    attempt: int = 0
    step: int = 0
    failure: FailureClass | None = None
    finished: Finished | None = None


def read_attempt(attempt: AttemptDir) -> AttemptRecord:
    """Read all records of one attempt (JobError where it was never launched)."""
    closed = read_closed(attempt.closed)
    facts, _ = read_facts(attempt.facts, limit=closed.facts_bytes if closed else None)
    return AttemptRecord.of(read_launch(attempt.launch), read_claimed(attempt.claimed), facts, closed)


def finished_facts(attempts: Sequence[AttemptRecord]) -> dict[str, Finished]:
    """Run -> the ``finished`` fact that stands: the first completed one, else the last failed one."""
    return {run: fact for run, (fact, _) in _standing(attempts).items()}


def _standing(attempts: Sequence[AttemptRecord]) -> dict[str, tuple[Finished, int]]:
    """Run -> the ``finished`` fact that stands, and the attempt that it is from."""
    standing: dict[str, tuple[Finished, int]] = {}
    for attempt in attempts:
        for fact in attempt.facts:
            if isinstance(fact, Finished):
                before = standing.get(fact.run)
                if before is None or before[0].status != "completed":
                    standing[fact.run] = fact, attempt.number
    return standing


def run_states(runs: Collection[str], attempts: Sequence[AttemptRecord]) -> dict[str, RunStatus]:
    """The state of every run of a pack, by its files alone.

    Retry policy and a person's wishes are the loop's: where this says ``failed`` or ``cancelled``, ``status`` may say
    that the run will be tried again.

    Args:
        runs: the pack's members.
        attempts: oldest first.
    """
    standing = _standing(attempts)
    return {run: _run_state(run, attempts, *standing.get(run, (None, 0))) for run in runs}


def _run_state(run: str, attempts: Sequence[AttemptRecord], finished: Finished | None, where: int) -> RunStatus:
    if finished is not None and finished.status == "completed":
        return RunStatus(RunState.COMPLETED, "", where, finished.step, finished=finished)
    tried = [attempt for attempt in attempts if run in attempt.members and run not in attempt.done]
    last = tried[-1] if tried else None
    if finished is not None and (last is None or last.number <= where):
        return RunStatus(RunState.FAILED, finished.message, where, finished.step, finished.failure, finished)
    if last is None:
        return RunStatus(RunState.PENDING)
    step = _last_step(tried)
    if last.closed is None:
        return RunStatus(RunState.QUEUED if last.claimed is None else RunState.RUNNING, "", last.number, step)
    state = {"failed": RunState.FAILED, "cancelled": RunState.CANCELLED}.get(last.closed.outcome, RunState.PENDING)
    return RunStatus(state, last.closed.message, last.number, step, last.failure)


def _last_step(attempts: Sequence[AttemptRecord]) -> int:
    for attempt in reversed(attempts):
        for fact in reversed(attempt.facts):
            if isinstance(fact, Checkpointed | Started):
                return fact.step
    return 0


def read_pack(pack: Path) -> list[AttemptRecord]:
    """All launched attempts under a pack's directory, oldest first."""
    numbers = sorted(int(p.name[1:]) for p in pack.glob("a*") if p.name[1:].isdigit())
    attempts = [AttemptDir(pack / f"a{number}") for number in numbers]
    return [read_attempt(attempt) for attempt in attempts if attempt.launch.exists()]
