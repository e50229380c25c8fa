"""Packs that could be launched and may not yet: a pause before the next try, or no room on the disk."""

from __future__ import annotations

from collections.abc import Iterator

from jobs.checkpoint import SPARE_BYTES
from orchestrator.board import Board
from orchestrator.desired import DesiredPack


def must_pause(board: Board, pack: str, now: float) -> bool:
    """Its next try may not begin yet. Where it waited for room and there is some now, it may."""
    verdict = board.verdicts.get(pack)
    if verdict is None or board.room.released.get(pack) == verdict.next_attempt - 1:
        return False
    return verdict.not_before > now and pack not in board.room.short


def paused(board: Board, now: float) -> Iterator[tuple[DesiredPack, int]]:
    """Packs whose next try may not begin yet, and how many runs they hold."""
    for pack in board.delayed:
        runs = board.queued_runs(pack)
        if runs and must_pause(board, pack, now) and pack not in board.returning:
            yield board.desired.packs[pack], runs


def without_room(board: Board) -> Iterator[tuple[DesiredPack, int, str]]:
    """Packs that do not fit on the disk, how many runs they hold, and why."""
    for pack, why in board.room.short.items():
        runs = board.queued_runs(pack)
        if runs and pack not in board.returning:
            yield board.desired.packs[pack], runs, why


def starving(board: Board) -> Iterator[tuple[str, int, int]]:
    """(pack, its last attempt, bytes of its next checkpoint and a little more) of those that met a full disk, in the
    plan's order."""
    for pack in sorted(board.starved, key=board.place):
        runs = [board.desired.runs[run] for run in board.open_runs(pack) if run in board.desired.runs]
        needed = sum(int(run.cell.shape.get("checkpoint_bytes", 0)) for run in runs)
        yield pack, board.verdicts[pack].next_attempt - 1, needed + SPARE_BYTES
