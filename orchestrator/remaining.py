"""How long what is left of a watch will take, from what runs of the same shapes have taken; nothing where that is
not known. Reads the loop's board, asks nobody."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jobs.state import RunState
from orchestrator.board import Board
from orchestrator.desired import DesiredRun
from orchestrator.history import AttemptView
from sweeps.cost import GUESSED_FLOPS, GUESSED_OVERHEAD_S, PACK_START_S

WINDOW_S = 120.0
"""So far back we look for how many packs run at once."""
KNOWN = 0.25
"""Of what is left, at least this share must be of shapes that were measured."""
LEAST_SAMPLES = 3


@dataclass
class _Shape:
    """Runs of one stack key.

    Attributes:
        expected: seconds of one, as the plan guesses; None where it says nothing of their size.
        seconds, ended: what those that have ended took, and how many they are.
        stepping: seconds of one by the steps of a pack that runs; they leave out evaluations and saves.
        left: how many are still to run; one that is half done counts as one half.
    """

    expected: float | None
    seconds: float = 0.0
    ended: int = 0
    stepping: float | None = None
    left: float = 0.0

    @property
    def measured(self) -> float | None:
        return self.seconds / self.ended if self.ended else self.stepping


def work_left(board: Board) -> float | None:
    """Seconds that one slot would need for all that is left; None where too little of it was ever measured.

    A shape of which no run has ended costs what the plan guesses of it, times how wrong these guesses were for those
    that have.
    """
    shapes: dict[str, _Shape] = {}
    packs = 0
    for pack, desired in board.desired.packs.items():
        view = _live(board, pack)
        fraction = 1.0 if view is None or not view.pulse.steps else max(0.0, 1 - view.step / view.pulse.steps)
        open_ = False
        for run in desired.runs:
            state = board.states.get(run, RunState.PENDING)
            if state in (RunState.FAILED, RunState.CANCELLED):
                continue
            shape = _shape_of(board.desired.runs[run], shapes)
            if state is RunState.COMPLETED:
                end = board.ended[run].end if run in board.ended else None
                if end is not None and end.seconds > 0:
                    shape.seconds += end.seconds
                    shape.ended += 1
            elif pack not in board.blocked or run not in board.blocked[pack]:
                shape.left += fraction
                open_ = True
                if view is not None and view.pulse.median_step_s and run in view.carried:
                    shape.stepping = view.pulse.steps * view.pulse.median_step_s / len(view.carried)
        packs += open_ and pack not in board.live
    return _seconds(list(shapes.values()), packs)


def _seconds(shapes: list[_Shape], packs: int) -> float | None:
    known = [(s.measured, s.expected, max(1, s.ended)) for s in shapes if s.measured and s.expected]
    expected = sum(guess * n for _, guess, n in known)
    scale = sum(took * n for took, _, n in known) / expected if expected else None
    sure = total = 0.0
    for shape in shapes:
        if not shape.left:
            continue
        if shape.measured is not None:
            sure += shape.left * shape.measured
            total += shape.left * shape.measured
        elif scale is None or shape.expected is None:
            return None
        else:
            total += shape.left * shape.expected * scale
    if total and sure < KNOWN * total:
        return None
    return total + packs * PACK_START_S


def _live(board: Board, pack: str) -> AttemptView | None:
    if pack not in board.live:
        return None
    return next((view for view in reversed(board.histories[pack]) if view.live), None)


def _shape_of(run: DesiredRun, shapes: dict[str, _Shape]) -> _Shape:
    key = f"{run.cell.runner}|{run.cell.shape.get('stack_key') or id(run.cell)}|{run.cell.shape.get('steps', '')}"
    if key not in shapes:
        shapes[key] = _Shape(_guess(run.cell.shape))
    return shapes[key]


def _guess(shape: Mapping[str, Any]) -> float | None:
    if not all(shape.get(name) for name in ("flops_per_step", "models", "steps")):
        return None
    return (GUESSED_OVERHEAD_S * shape["models"] + shape["flops_per_step"] / GUESSED_FLOPS) * shape["steps"]


@dataclass
class Pace:
    """Watches how many packs run at once, and says how long the rest will take at that pace.

    Looking costs in proportion to the plan, so it is done now and then only, and never more than a hundredth of the
    time.
    """

    clock: Callable[[], float] = time.monotonic
    _running: deque[tuple[float, int]] = field(default_factory=deque)
    _said: tuple[float, float | None] = (float("-inf"), None)
    _again: float = float("-inf")

    def left(self, board: Board) -> float | None:
        """Seconds, or None while nobody can know."""
        now = self.clock()
        running = sum(view.begun for _, view in board.live_attempts())
        if running or self._running:
            self._running.append((now, running))
        while self._running and now - self._running[0][0] > WINDOW_S:
            self._running.popleft()
        if now >= self._again:
            self._said = (now, self._look(board))
            self._again = now + max(2.0, 100 * (self.clock() - now))
        when, seconds = self._said
        return None if seconds is None or not running else max(0.0, seconds - (now - when))

    def _look(self, board: Board) -> float | None:
        if len(self._running) < LEAST_SAMPLES or (work := work_left(board)) is None:
            return None
        slots = sum(running for _, running in self._running) / len(self._running)
        return work / slots if slots else None


def words(seconds: float | None) -> str:
    """``about 4 min left``, in steps no finer than the estimate; "" where it is not known."""
    if seconds is None:
        return ""
    if seconds < 10:
        return "some seconds left"
    if seconds < 90:
        return f"about {10 * round(seconds / 10)} s left"
    minutes = seconds / 60
    if minutes < 90:
        return f"about {minutes:.0f} min left"
    return f"about {minutes / 60:.1f} h left" if minutes < 48 * 60 else f"about {minutes / 1440:.0f} days left"
