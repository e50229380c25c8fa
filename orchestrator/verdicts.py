"""What to think of the runs of one pack, from its attempts and a person's wishes. Pure; ``status`` and ``decide``
share it, so that what is shown is what is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jobs.facts import FailureClass
from jobs.state import RunState
from orchestrator.history import AttemptView, RunEnd
from orchestrator.policy import Policy
from orchestrator.requests import Wish

ENDED = frozenset({RunState.COMPLETED, RunState.FAILED, RunState.CANCELLED})


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """One run.

    Attributes:
        failure, message: of the last attempt that failed (also of a pending run that will be tried again).
        attempt: number of the attempt that this rests on, 0 for none.
        delay_s: how long after that attempt's end the next may begin.
        end: the finished fact of a run that ended.
    """

    state: RunState
    failure: FailureClass | None = None
    message: str = ""
    attempt: int = 0
    delay_s: float = 0.0
    end: RunEnd | None = None

    @property
    def ended(self) -> bool:
        return self.state in ENDED


@dataclass(frozen=True, slots=True)
class PackVerdict:
    """One pack.

    Attributes:
        live: the attempt that is not closed, if there is one (there may be several after a requeue: the newest).
        next_attempt: number of the attempt to launch next.
        open_runs: members that another attempt should train, in the pack's order; empty while one is live.
        not_before: on our own clock.
        fresh_after: checkpoints of attempts up to this number are not to be resumed.
        cancel: every member that the live attempt carries was cancelled.
        starved: the disk was full, and it waits for room.
    """

    runs: Mapping[str, RunVerdict]
    live: AttemptView | None
    next_attempt: int
    open_runs: tuple[str, ...] = ()
    not_before: float = 0.0
    fresh_after: int = 0
    cancel: bool = False
    starved: bool = False

    @property
    def settled(self) -> bool:
        """Nothing is alive and nothing is left to do, unless a person asks."""
        return self.live is None and not self.open_runs


def failure_of(attempt: AttemptView, run: str) -> tuple[FailureClass, str] | None:
    """How a closed attempt failed a run that it carried; None where it completed it."""
    end = attempt.finished.get(run)
    if end is not None:
        return None if end.completed else (end.failure or FailureClass.UNKNOWN, end.message)
    closed = attempt.closed
    assert closed is not None, "only closed attempts are judged"
    if closed.failure is not None:
        return closed.failure, closed.message
    by_outcome = {
        "preempted": FailureClass.PREEMPTED,
        "lost": FailureClass.LOST,
        "cancelled": FailureClass.CANCELLED,
    }
    failure = by_outcome.get(closed.outcome, FailureClass.UNKNOWN)
    return failure, closed.message or f"attempt {attempt.number} ended as {closed.outcome} without finishing this run"


def judge_run(run: str, attempts: Sequence[AttemptView], wish: Wish | None, policy: Policy) -> RunVerdict:
    """``attempts`` oldest first."""
    for attempt in attempts:
        end = attempt.finished.get(run)
        if end is not None and end.completed:
            return RunVerdict(RunState.COMPLETED, attempt=attempt.number, end=end)
    carriers = [attempt for attempt in attempts if run in attempt.carried]
    live = next((attempt for attempt in reversed(carriers) if attempt.live), None)
    if live is not None:
        end = live.finished.get(run)
        if end is not None:  # failed, but the pack trains on
            return RunVerdict(RunState.RUNNING, end.failure, end.message, live.number, end=end)
        return RunVerdict(RunState.RUNNING if live.begun else RunState.QUEUED, attempt=live.number)
    if wish is not None and wish.kind == "cancel":
        return RunVerdict(RunState.CANCELLED, attempt=carriers[-1].number if carriers else 0)
    forgiven = wish.attempt if wish is not None else 0
    counted = [attempt for attempt in carriers if attempt.number > forgiven]
    if not counted:
        return RunVerdict(RunState.PENDING, attempt=carriers[-1].number if carriers else 0)
    last = counted[-1]
    failed = failure_of(last, run)
    assert failed is not None, "a completed run was found above"
    failure, message = failed
    retry = policy.retry(failure)
    if retry.tries is None:
        tries, again = _tries(counted, run, failure), True
    else:
        telling = [attempt for attempt in counted if not _paused(attempt, run, policy)]
        tries = _tries(telling, run, failure)
        again = tries <= retry.tries and _idle(telling, run) <= policy.most_idle
    state = RunState.PENDING if again else RunState.FAILED
    delay = retry.delay(tries) if state is RunState.PENDING else 0.0
    return RunVerdict(state, failure, message, last.number, delay, last.finished.get(run))


def _paused(attempt: AttemptView, run: str, policy: Policy) -> bool:
    """It ended for no fault of the run, and says nothing about it."""
    failed = failure_of(attempt, run)
    return failed is not None and policy.retry(failed[0]).tries is None


def _tries(counted: Sequence[AttemptView], run: str, failure: FailureClass) -> int:
    """Attempts in a row that ended in this class, counted back to one that made progress."""
    tries = 0
    for attempt in reversed(counted):
        failed = failure_of(attempt, run)
        if failed is None or failed[0] is not failure:
            break
        tries += 1
        if attempt.progressed and run not in attempt.finished:
            break
    return tries


def _idle(counted: Sequence[AttemptView], run: str) -> int:
    """Attempts in a row that got no further, of whatever class."""
    for number, attempt in enumerate(reversed(counted)):
        if attempt.progressed and run not in attempt.finished:
            return number
    return len(counted)


def judge_pack(
    runs: Sequence[str], attempts: Sequence[AttemptView], wishes: Mapping[str, Wish], policy: Policy
) -> PackVerdict:
    """The pack's members in order, its attempts oldest first."""
    verdicts = {run: judge_run(run, attempts, wishes.get(run), policy) for run in runs}
    live = next((attempt for attempt in reversed(attempts) if attempt.live), None)
    number = attempts[-1].number + 1 if attempts else 1
    if live is not None:
        carried = [run for run in live.carried if run not in live.finished]
        cancelled = [run for run in carried if run in wishes and wishes[run].kind == "cancel"]
        return PackVerdict(verdicts, live, number, cancel=bool(carried) and len(cancelled) == len(carried))
    todo = tuple(run for run in runs if not verdicts[run].ended)
    over = {attempt.number: attempt.over or 0.0 for attempt in attempts}
    return PackVerdict(
        verdicts,
        None,
        number,
        todo,
        not_before=max((over.get(verdicts[run].attempt, 0.0) + verdicts[run].delay_s for run in todo), default=0.0),
        fresh_after=max(
            (w.attempt for run in runs if (w := wishes.get(run)) and w.kind == "retry" and w.fresh), default=0
        ),
        starved=any(verdicts[run].failure is FailureClass.DISK for run in todo),
    )
