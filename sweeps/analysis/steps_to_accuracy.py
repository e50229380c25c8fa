"""How many steps until an accuracy is reached, with runs that never do; and the area under a curve.

A run that ends below the target is censored: all that is known is that it needs more steps than it had. Such runs count
at their last step ("restricted"), so a ratio with censored runs on one side is a bound, and the words say which.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sweeps.analysis.resampling import ENOUGH, hierarchical, over_seeds


@dataclass(frozen=True)
class Reached:
    """One run.

    Attributes:
        steps: first evaluated step at or above the target, or the last step where it never is.
        censored: whether it never is.
    """

    steps: float
    censored: bool


@dataclass(frozen=True)
class Speed:
    """Steps of the baseline over steps of an arm, to the same target.

    Attributes:
        column, arm: where and whose.
        target: the accuracy to be reached.
        ratio: of geometric means of restricted steps; above 1 the arm is sooner. None with a reason.
        low, high: percentile bootstrap interval, enumerated where it is small; it decides nothing at few seeds.
        decides: whether there were enough seeds for that interval to mean what it says.
        censored, n: of the arm's runs.
        baseline_censored, n_baseline: of the baseline's.
        bound: "at least" where only baseline runs are censored, "at most" where only the arm's, "bound unknown" where
            both, "" where none.
        reason: why there is no ratio.
    """

    column: str
    arm: str
    target: float | None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    decides: bool = False
    censored: int = 0
    n: int = 0
    baseline_censored: int = 0
    n_baseline: int = 0
    bound: str = ""
    reason: str | None = None


def reached(steps: Sequence[float], values: Sequence[float], target: float) -> Reached | None:
    """When a curve first reaches the target; None for a curve without points.

    Args:
        steps: ascending.
        values: finite, one a step.
        target: in the unit of the values.
    """
    if not len(steps):
        return None
    above = np.flatnonzero(np.asarray(values) >= target)
    return Reached(float(steps[above[0]]), False) if len(above) else Reached(float(steps[-1]), True)


def area(steps: Sequence[float], values: Sequence[float]) -> float | None:
    """Mean height of a curve over its steps (trapezoid / length); None below two points."""
    if len(steps) < 2:
        return None
    return float(np.trapezoid(values, steps) / (steps[-1] - steps[0]))


def speed(
    column: str,
    arm: str,
    target: float | None,
    ours: Mapping[int | None, Sequence[Reached]],
    theirs: Sequence[Reached],
    confidence: float = 0.95,
) -> Speed:
    """Ratio of steps with its interval.

    Args:
        column, arm: names.
        target: None where it is not known.
        ours: search -> runs; the only key is None for an arm that was not searched.
        theirs: the baseline's runs.
        confidence: coverage aimed at.
    """
    runs = [r for found in ours.values() for r in found]
    lost, base_lost = sum(r.censored for r in runs), sum(r.censored for r in theirs)
    made = Speed(column, arm, target, censored=lost, n=len(runs), baseline_censored=base_lost, n_baseline=len(theirs))
    if target is None or not runs or not theirs:
        why = "no target: the baseline has no value" if target is None else "no curve"
        return Speed(column, arm, target, n=len(runs), n_baseline=len(theirs), reason=why)
    if lost == len(runs) and base_lost == len(theirs):
        return replace(made, reason="no run of either side reaches it")
    mine = {search: np.log([max(r.steps, 1.0) for r in found]) for search, found in ours.items() if found}
    base = np.log([max(r.steps, 1.0) for r in theirs])
    log_ratio = float(base.mean() - np.concatenate(list(mine.values())).mean())
    bound = "bound unknown" if lost and base_lost else "at least" if base_lost else "at most" if lost else ""
    low = high = None
    decides = False
    if min(len(runs), len(theirs)) > 1:
        if set(mine) == {None}:
            found = over_seeds(base.tolist(), mine[None].tolist(), confidence)
        else:
            found = hierarchical(
                [[base[:, None]]], [[values[:, None]] for values in mine.values()], draws=2000, confidence=confidence
            )
        low, high = math.exp(found.low), math.exp(found.high)
        decides = found.decides and min(len(theirs), len(mine) if set(mine) != {None} else ENOUGH) >= ENOUGH
    return replace(made, ratio=math.exp(log_ratio), low=low, high=high, decides=decides, bound=bound)
