"""What a design can see: power, smallest detectable effect, seeds for an effect.

Power of a two-sided t test is integrated over the law of s (scipy's noncentral t returns NaN for a large
noncentrality with few degrees of freedom).
"""

import math

import numpy as np

from sweeps.analysis import student
from sweeps.analysis.errors import AnalysisError

MOST_SEEDS = 10_000


def power(effect: float, sigma: float, n_arm: int, n_baseline: int, df: float, alpha: float = 0.05) -> float:
    """Chance of p < alpha for a true difference.

    Args:
        effect: true difference of means, in the metric's unit.
        sigma: true sd of one run.
        n_arm, n_baseline: runs on each side.
        df: degrees of freedom of the sigma the test will use.
        alpha: two-sided level of the single test (family level / m for Bonferroni).
    """
    return _power(abs(effect) / (sigma * math.sqrt(1 / n_arm + 1 / n_baseline)), df, alpha)


def detectable(sigma: float, n_arm: int, n_baseline: int, df: float, alpha: float = 0.05, wanted: float = 0.8) -> float:
    """Smallest true difference found with the wanted power.

    Raises:
        AnalysisError: no degree of freedom, or numbers out of range.
    """
    check(sigma, alpha, wanted)
    if df <= 0:
        raise AnalysisError("one run an arm leaves no degree of freedom: nothing is detectable; add seeds")
    high = 2 * (student.critical(alpha / 2, df) + 10) * max(1.0, 4 / df)
    error = sigma * math.sqrt(1 / n_arm + 1 / n_baseline)
    return error * student.solve(lambda d: _power(d, df, alpha) - wanted, 0.0, high)


def seeds_for(effect: float, sigma: float, alpha: float = 0.05, wanted: float = 0.8, arms: int = 2) -> int:
    """Seeds per arm, the baseline included, to see an effect.

    Args:
        effect: true difference, in the metric's unit.
        sigma: sd of one run.
        alpha: level of the single test.
        wanted: power.
        arms: arms that sigma is pooled over; df = arms x (n - 1). Two is the arm and its baseline alone.

    Raises:
        AnalysisError: more than `MOST_SEEDS` seeds, or numbers out of range.
    """
    check(sigma, alpha, wanted)
    if not abs(effect) > 0:
        raise AnalysisError("an effect of 0 cannot be detected; give the smallest effect that would matter")
    if power(effect, sigma, MOST_SEEDS, MOST_SEEDS, arms * (MOST_SEEDS - 1), alpha) < wanted:
        raise AnalysisError(f"an effect of {effect:g} at sigma {sigma:g} needs more than {MOST_SEEDS} seeds an arm")
    low, high = 1, MOST_SEEDS  # low never suffices: one run has no spread
    while high - low > 1:
        n = (low + high) // 2
        enough = power(effect, sigma, n, n, arms * (n - 1), alpha) >= wanted
        low, high = (low, n) if enough else (n, high)
    return high


def runs_to_decide(
    difference: float, standard_error: float, df: float, now: int, alpha: float, *, wanted: float = 0.8, most: int = 200
) -> int | None:
    """About how many more runs a side would decide, if the difference seen were the true one.

    Args:
        difference: seen.
        standard_error: with ``now`` runs a side; taken to fall as 1 / sqrt(runs).
        df: its degrees of freedom; taken to grow as runs - 1.
        now: runs a side (of the unit that is to be added).
        alpha: level of the single test.
        wanted: power.
        most: where to give up; None then.
    """
    per_run = df / (now - 1) if now > 1 else df
    for more in range(1, most + 1):
        n = now + more
        error = standard_error * math.sqrt(now / n)
        if _power(abs(difference) / error, per_run * (n - 1), alpha, points=300) >= wanted:
            return more
    return None


def _power(noncentrality: float, df: float, alpha: float, points: int = 2000) -> float:
    scales, weights = student.chi_nodes(df, points)
    cut = student.critical(alpha / 2, df) * scales
    found = student.normal_upper(cut - noncentrality) + student.normal_upper(cut + noncentrality)
    return float(weights @ np.asarray(found))


def check(sigma: float, alpha: float, wanted: float) -> None:
    """Refuse a sigma, a level or a power out of range.

    Raises:
        AnalysisError: naming it.
    """
    if not (sigma > 0 and math.isfinite(sigma)):
        raise AnalysisError(f"sigma is {sigma}; give the sd of one run, a positive number in the metric's unit")
    if not 0 < alpha < 1:
        raise AnalysisError(f"alpha is {alpha}; give a level between 0 and 1, such as 0.05")
    if not alpha < wanted < 1:
        raise AnalysisError(f"power {wanted} must lie between alpha ({alpha:g}) and 1")
