"""The mean of one arm with its interval, where there is nothing to compare it with."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sweeps.analysis import student
from sweeps.analysis.nested import Arm, is_searched, mean, runs
from sweeps.analysis.noise_floor import spread
from sweeps.analysis.results import Result, by_search, without_value


@dataclass(frozen=True)
class Mean:
    """An arm's mean on one task, or why there is none.

    Attributes:
        arm, task: whose.
        value: mean over runs, in the metric's unit.
        low, high: Student t interval at 1 - alpha; over the searches' means where the arm was searched for.
        sd: between the units the interval is over.
        n: runs; ``searches`` they are nested in, 0 for an arm that was not searched for.
        diverged: diverged runs among the planned ones.
        reason: why there is no value, or no interval, or which runs have none.
    """

    arm: str
    task: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    sd: float | None = None
    n: int = 0
    searches: int = 0
    diverged: int = 0
    reason: str | None = None


def mean_of(arm: str, task: str, found: Sequence[Result], alpha: float = 0.05) -> Mean:
    """Summarise the results of one arm on one task; none of them may belong to another."""
    values: Arm = by_search(found)
    missing = without_value(found)
    diverged = sum(r.diverged for r in found)
    if not values:
        return Mean(arm, task, diverged=diverged, reason=missing or "no run")
    searched = is_searched(values)
    units = [math.fsum(s.values()) / len(s) for s in values.values()]
    if not searched:
        units = list(values[None].values())
    made = Mean(arm, task, mean(values), n=runs(values), searches=len(values) if searched else 0, diverged=diverged)
    low, high, sd, reason = _interval(units, alpha, "search" if searched else "seed")
    reasons = [r for r in (reason, f"without a value: {missing}" if missing else None) if r]
    return Mean(
        made.arm, made.task, made.value, low, high, sd, made.n, made.searches, diverged, "; ".join(reasons) or None
    )


def _interval(
    units: Sequence[float], alpha: float, unit: str
) -> tuple[float | None, float | None, float | None, str | None]:
    if len(units) < 2:
        return None, None, None, f"one {unit}: no interval"
    center = math.fsum(units) / len(units)
    found = spread(math.fsum((u - center) ** 2 for u in units) / (len(units) - 1), len(units) - 1)
    if found.sd == 0:
        return None, None, 0.0, f"every {unit} has this value: no interval"
    half = found.sd / math.sqrt(len(units)) * student.critical(alpha / 2, len(units) - 1)
    return center - half, center + half, found.sd, None
