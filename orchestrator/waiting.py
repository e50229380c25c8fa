"""Why pending runs are not launched, in words and numbers."""

from __future__ import annotations

from collections import Counter

from jobs.state import RunState
from orchestrator.board import Board


def waiting(board: Board) -> dict[str, dict[str, int]]:
    """Why pending runs are not launched: sweep -> reason -> runs. Costs nothing per run."""
    reasons: dict[str, Counter[str]] = {sweep: Counter() for sweep in board.counts}
    for (shape, sweep), runs in board.queued.items():
        if runs <= 0:
            continue
        if board.held(shape):
            why = f"held: the first {board.policy.probe_failures} packs of this shape failed before their first step"
        elif board.probing(shape):
            why = "the first pack of this shape goes ahead alone"
        else:
            why = "a free slot"
        reasons[sweep][why] += runs
    for pack, blocked in board.blocked.items():
        for why in blocked.values():
            reasons[board.desired.packs[pack].sweep]["blocked: " + _without_ids(why)] += 1
    for sweep, counts in board.counts.items():
        rest = counts[RunState.PENDING] - reasons[sweep].total()
        if rest > 0:
            reasons[sweep]["their inputs"] += rest
    return {sweep: dict(counts) for sweep, counts in reasons.items()}


def _without_ids(why: str) -> str:
    """Reasons that differ only in a run's id count as one."""
    return " ".join("a run" if word[0] == "r" and len(word) == 16 else word for word in why.split())
