"""Does training go on where it stopped? The first losses after a resume, held against the attempt before."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

FIRST = 3
"""So many losses after the resume are looked at."""
TAIL = 20
"""So many losses before the resume say how large noise is."""
NOISE_FACTOR = 4.0


@dataclass(frozen=True)
class Finding:
    """``name``: ``resume_differs`` (an exact resume would have repeated the value) or ``loss_jump``."""

    name: str
    message: str


@dataclass
class _Curve:
    """One metric of one run: values of the attempt before by step, and those seen since the resume."""

    before: dict[int, float] = field(default_factory=dict)
    after: list[tuple[int, float]] = field(default_factory=list)
    differs: bool = False


def _loss_jump(curve: _Curve, resume_step: int) -> float | None:
    """The jump (after - before), or None where it is within noise.

    Noise is the standard deviation of step-to-step differences before the resume. Values of steps that both attempts
    did are compared one to one, otherwise the means on both sides of the resume are.
    """
    tail = [curve.before[step] for step in sorted(curve.before) if step <= resume_step][-TAIL:]
    if len(tail) < FIRST:
        return None
    differences = [b - a for a, b in pairwise(tail)]
    noise = statistics.pstdev(differences) + statistics.fmean(map(abs, differences))
    shared = [(curve.before[step], value) for step, value in curve.after if step in curve.before]
    if len(shared) == len(curve.after):
        jump = statistics.fmean(value - old for old, value in shared)
    else:
        jump = statistics.fmean(value for _, value in curve.after) - statistics.fmean(tail[-FIRST:])
    return jump if abs(jump) > NOISE_FACTOR * noise else None


class ResumeCheck:
    """Looks at the first ``FIRST`` values of every metric whose name ends in ``loss``.

    Args:
        previous: metric rows of the attempts before this one, oldest first.
    """

    def __init__(self, previous: Iterable[Mapping[str, Any]], resume_step: int) -> None:
        self._resume_step = resume_step
        self._curves: dict[tuple[str, str], _Curve] = {}
        for row in previous:
            for name, value in row.items():
                if name.endswith("loss") and isinstance(value, float | int) and math.isfinite(value):
                    self._curves.setdefault((row["run"], name), _Curve()).before[row["step"]] = float(value)

    def look(self, run: str, step: int, values: Mapping[str, float]) -> list[Finding]:
        """Take one row of this attempt; what it shows to be wrong, each said once."""
        found: list[Finding] = []
        if step <= self._resume_step:
            return found
        for name, value in values.items():
            curve = self._curves.get((run, name))
            if curve is None or len(curve.after) >= FIRST or not math.isfinite(value):
                continue
            curve.after.append((step, float(value)))
            old = curve.before.get(step)
            if old is not None and old != value and not curve.differs:
                curve.differs = True
                text = (
                    f"not exact: {name} at step {step} was {old!r}, but {value!r} after resuming at {self._resume_step}"
                )
                found.append(Finding("resume_differs", text))
            if len(curve.after) == FIRST and (jump := _loss_jump(curve, self._resume_step)) is not None:
                text = f"{name} jumped by {jump:+.4g} at the resume at step {self._resume_step}, beyond its noise"
                found.append(Finding("loss_jump", text))
        return found
