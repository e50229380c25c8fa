"""Why pending runs are not launched, and queued ones do not begin, in words and numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from cluster.backend import JobState
from jobs.state import RunState
from orchestrator.board import Board
from orchestrator.pauses import paused as paused_packs
from orchestrator.pauses import without_room

SLOT = "a free slot"
PAUSE = "the pause before their next try"
RETURN = "the end of their last job, which may be queued again and go on by itself"
HELD = "held: "
BLOCKED = "blocked: "


@dataclass(frozen=True)
class Outlook:
    """What a pass has to say besides counts.

    Attributes:
        waiting: sweep -> why pending runs wait -> runs.
        queued: sweep -> why the scheduler lets jobs wait -> packs.
        trouble: what the scheduler, or the index, would not do or say.
    """

    waiting: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    queued: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    trouble: tuple[str, ...] = ()


def waiting(board: Board, now: float = 0.0, slot: str = SLOT) -> dict[str, dict[str, int]]:
    """Why pending runs are not launched: sweep -> reason -> runs. Costs nothing per run.

    Args:
        now: our own clock, for those whose next try may not begin yet.
        slot: what those wait for that nothing else keeps back.
    """
    reasons: dict[str, Counter[str]] = {sweep: Counter() for sweep in board.counts}
    paused: Counter[tuple[str, str]] = Counter()
    for why, packs in ((PAUSE, paused_packs(board, now)), (RETURN, board.returned())):
        for pack, runs in packs:
            paused[pack.shape, pack.sweep] += runs
            reasons[pack.sweep][why] += runs
    for pack, runs, why in without_room(board):
        paused[pack.shape, pack.sweep] += runs
        reasons[pack.sweep][why] += runs
    for (shape, sweep), runs in board.queued.items():
        runs -= paused[shape, sweep]
        if runs <= 0:
            continue
        if board.room.reason:
            why = board.room.reason
        elif board.held(shape):
            why = f"{HELD}the first {board.policy.probe_failures} packs of this shape failed before their first step"
        elif board.probing(shape):
            why = "the first pack of this shape goes ahead alone"
        else:
            why = slot
        reasons[sweep][why] += runs
    for pack, blocked in board.blocked.items():
        for why in blocked.values():
            reasons[board.desired.packs[pack].sweep][BLOCKED + _without_ids(why)] += 1
    for sweep, counts in board.counts.items():
        rest = counts[RunState.PENDING] - reasons[sweep].total()
        if rest > 0:
            reasons[sweep]["their inputs"] += rest
    return {sweep: dict(counts) for sweep, counts in reasons.items()}


def queued(board: Board) -> dict[str, dict[str, int]]:
    """Why the scheduler lets jobs wait, where it says: sweep -> reason -> packs."""
    reasons: dict[str, Counter[str]] = {}
    for pack, view in board.live_attempts():
        if view.report is not None and view.report.state is JobState.QUEUED and view.report.reason:
            reasons.setdefault(board.desired.packs[pack].sweep, Counter())[view.report.reason] += 1
    return {sweep: dict(counts) for sweep, counts in reasons.items()}


def throttle(free: int, in_flight: int, limit: int | None, *, backend: str, paused: bool) -> str:
    """What packs wait for that could be launched.

    Args:
        free: slots left after this pass. limit: ``--max-in-flight``.
        paused: the scheduler asked to be left alone for a while.
    """
    if paused:
        return "the scheduler, which asked for a pause"
    if free > 0:
        return SLOT
    if limit is not None and in_flight >= limit:
        return f"{SLOT} (--max-in-flight {limit})"
    return SLOT if backend == "local" else "the scheduler, which takes no more jobs now (its limits)"


def _without_ids(why: str) -> str:
    """Reasons that differ only in a run's id count as one."""
    return " ".join("a run" if word[0] == "r" and len(word) == 16 else word for word in why.split())
