"""What to do next: a pure function of the board, the free slots and the time. It looks at nothing else and changes
nothing, so that two loops that see the same decide the same, and a test can ask it anything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import merge

from cluster.backend import JobHandle, JobState
from jobs.facts import FailureClass
from jobs.failures import CAUSES, FROM_OUTSIDE, signal_of
from orchestrator.board import Board
from orchestrator.history import AttemptView
from orchestrator.pauses import must_pause
from orchestrator.policy import Policy
from orchestrator.verdicts import PackVerdict


@dataclass(frozen=True, slots=True)
class Launch:
    """Link the next attempt of a pack and hand it over. ``masked``: members that are not to be trained."""

    pack: str
    attempt: int
    masked: frozenset[str] = frozenset()
    fresh_after: int = 0


@dataclass(frozen=True, slots=True)
class Submit:
    """Hand an attempt over again: it was launched, no answer is known, and no such job exists."""

    pack: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """Ask the job of an attempt to checkpoint and leave."""

    pack: str
    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class Close:
    """Say that an attempt is over. ``failure`` None: by the evidence that it left. ``stop``: its job may live still."""

    pack: str
    attempt: int
    reason: str
    failure: FailureClass | None = None
    cancelled: bool = False
    stop: bool = False


@dataclass(frozen=True, slots=True)
class Release:
    """Take jobs out of the queue that have nothing left to do. ``made``: they run, and were asked before or will not be
    asked: make them leave."""

    handles: tuple[JobHandle, ...]
    made: bool = True


Action = Launch | Submit | Cancel | Close | Release


def decide(board: Board, free: int, now: float) -> list[Action]:
    """What to do now.

    Args:
        board: what is desired and what is known. Not changed.
        free: how many more packs may be handed over.
        now: seconds on the clock that the board's times were taken from.
    """
    actions: list[Action] = []
    for pack, attempt in board.live_attempts():
        action = judge_live(pack, attempt, board.verdicts[pack], board.policy, now)
        if action is not None:
            actions.append(action)
    actions.extend(_releases(board, now))
    actions.extend(_launches(board, free, now))
    return actions


def judge_live(
    pack: str, attempt: AttemptView, verdict: PackVerdict, policy: Policy, now: float
) -> Submit | Cancel | Close | None:
    """What an attempt that is not over needs; usually nothing."""
    number = attempt.number
    if attempt.ended is not None:
        if not verdict.cancel and _may_be_explained(attempt, policy, now):
            return None
        return Close(pack, number, "its command has ended", cancelled=verdict.cancel)
    if attempt.refused and not attempt.begun:
        return Close(pack, number, attempt.refused, FailureClass.USER_ERROR)
    if attempt.handle is None and not attempt.begun:
        if verdict.cancel:
            return Close(pack, number, "cancelled before it was handed over", FailureClass.CANCELLED, cancelled=True)
        first = attempt.seen if attempt.seen is not None else now
        if attempt.absent is not None and attempt.absent - first >= policy.quiet_s:
            return Submit(pack, number)
        return None
    if _is_over(attempt, policy, now, cancelled=verdict.cancel):
        assert attempt.report is not None, "a job is over by its report"
        word = attempt.report.word or attempt.report.state
        return Close(pack, number, f"the scheduler says {word}", cancelled=verdict.cancel)
    if attempt.stopping is not None and now - attempt.stopping < policy.cancel_grace_s:
        return None
    if verdict.cancel:
        return Cancel(pack, number, "cancelled by request")
    if _is_stuck(attempt, policy, now):
        return Close(pack, number, "no step for long, and its worker did not notice", FailureClass.HANG, stop=True)
    return None


def _releases(board: Board, now: float) -> Iterator[Release]:
    """A waiting job goes at once. One that runs has most likely just finished, or yields at its next checkpoint, unless
    its last attempt left so that it may come back: that one is asked to leave first."""
    grace = board.policy.cancel_grace_s
    asked: list[JobHandle] = []
    made: list[JobHandle] = []
    for handle, stray in board.strays.items():
        if stray.asked is not None and now - stray.asked < grace:
            continue
        if stray.state is JobState.QUEUED or stray.asked is not None or now - stray.since >= grace:
            made.append(handle)
        elif stray.leaving:
            asked.append(handle)
    if asked:
        yield Release(tuple(asked), made=False)
    if made:
        yield Release(tuple(made))


def _is_over(attempt: AttemptView, policy: Policy, now: float, *, cancelled: bool = False) -> bool:
    """Positive evidence only: the scheduler says so, for long enough that files and heartbeats would have shown
    otherwise. A heart that beats after the end of its job belongs to another copy: a controller that was restarted
    from old state starts a job twice, and the second copy leaves well; a node was only cut off. Nobody can signal such
    a copy: where it is not wanted, closing its attempt makes it leave."""
    if attempt.report is None or attempt.gone is None:
        return False
    ended = attempt.report.state is JobState.ENDED
    if ended and (cancelled or attempt.pulse.changed <= attempt.gone):
        return now - attempt.gone >= policy.settle_s
    return now - max(attempt.gone, attempt.pulse.changed) >= policy.lost_after_s


def _may_be_explained(attempt: AttemptView, policy: Policy, now: float) -> bool:
    """Its command was made to go, and the scheduler, who has not spoken yet, may know why."""
    if attempt.ended is None or attempt.ended_at is None or now - attempt.ended_at >= policy.verdict_wait_s:
        return False
    number = signal_of(attempt.ended.get("code"), attempt.ended.get("signal"))
    return number in FROM_OUTSIDE and (attempt.report is None or attempt.report.cause not in CAUSES)


def _is_stuck(attempt: AttemptView, policy: Policy, now: float) -> bool:
    """It beats, so the machine is well, and it has not moved for far longer than its own watch would allow."""
    pulse = attempt.pulse
    if attempt.started is None or pulse.median_step_s is None or pulse.step >= pulse.steps:
        return False
    limit = policy.stuck_factor * max(10 * pulse.median_step_s, attempt.hang_floor_s)
    return pulse.changed - pulse.moved > limit


def _launches(board: Board, free: int, now: float) -> Iterator[Launch]:
    """In the plan's order over all shapes, as far as slots are free and the shape has been tried."""
    if board.room.reason:
        return  # whatever is launched onto a full disk fails
    queues = [_candidates(board, shape, places, now) for shape, places in board.ready.items() if places]
    for place in merge(*queues):
        if free <= 0:
            return
        pack = board.order[place]
        runnable = board.readiness(pack).runnable
        verdict = board.verdicts.get(pack)
        masked = frozenset(board.desired.packs[pack].runs) - frozenset(runnable)
        yield Launch(
            pack,
            verdict.next_attempt if verdict else 1,
            masked,
            verdict.fresh_after if verdict else 0,
        )
        free -= 1


def _candidates(board: Board, shape: str, places: list[int], now: float) -> Iterator[int]:
    """Places of one shape that may be launched now: one while the shape is untried, else all."""
    if board.probing(shape):
        return
    held = board.held(shape)
    for place in places:
        pack = board.order[place]
        if pack in board.returning or pack in board.room.short or must_pause(board, pack, now):
            continue
        if held and not board.asked_for(pack):
            continue
        yield place
        if board.policy.probe and shape not in board.proven:
            return
