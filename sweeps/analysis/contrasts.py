"""Two samples, every honest way: Student, Welch, paired, permutation; scipy does the arithmetic."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from sweeps.analysis import student
from sweeps.analysis.errors import AnalysisError


@dataclass(frozen=True)
class Contrast:
    """One comparison of two means.

    Attributes:
        name: what was done, for the report.
        difference: mean of the arm minus mean of the baseline, in the metric's unit.
        standard_error: of the difference.
        statistic: difference / standard error.
        df: degrees of freedom (inf: sigma known).
        p: two-sided.
        low, high: interval at the confidence asked for.
    """

    name: str
    difference: float
    standard_error: float
    statistic: float
    df: float
    p: float
    low: float
    high: float


def from_error(name: str, difference: float, standard_error: float, df: float, alpha: float = 0.05) -> Contrast:
    """The t test of a difference whose standard error and degrees of freedom are known.

    Raises:
        AnalysisError: a standard error that is not positive (every run equal: nothing to test).
    """
    if not standard_error > 0:
        raise AnalysisError("no spread between runs: all values are equal, no test is possible")
    t = difference / standard_error
    half = standard_error * student.critical(alpha / 2, df)
    p = student.two_sided_p(t, df)
    return Contrast(name, difference, standard_error, t, df, p, difference - half, difference + half)


def pooled(arm: Sequence[float], baseline: Sequence[float], alpha: float = 0.05) -> Contrast:
    """Student's t, one sigma for both."""
    found = stats.ttest_ind(_enough(arm), _enough(baseline))
    return _of_scipy("student", found, arm, baseline, alpha)


def welch(arm: Sequence[float], baseline: Sequence[float], alpha: float = 0.05) -> Contrast:
    """Welch's t, a sigma each."""
    found = stats.ttest_ind(_enough(arm), _enough(baseline), equal_var=False)
    return _of_scipy("welch", found, arm, baseline, alpha)


def paired(arm: Sequence[float], baseline: Sequence[float], alpha: float = 0.05) -> Contrast:
    """Student's t on the differences of equal seeds, which must come in the same order.

    Raises:
        AnalysisError: different lengths.
    """
    if len(arm) != len(baseline):
        raise AnalysisError(f"{len(arm)} runs cannot be paired with {len(baseline)}; pair by seed first")
    return _of_scipy("paired", stats.ttest_rel(_enough(arm), _enough(baseline)), arm, baseline, alpha)


def pair_correlation(arm: Sequence[float], baseline: Sequence[float]) -> float:
    """Pearson r of paired runs; pairing gains only above about 0.1 at five seeds."""
    return float(np.corrcoef(arm, baseline)[0, 1])


def cohen_d(arm: Sequence[float], baseline: Sequence[float]) -> float:
    """Difference over the pooled sd."""
    df = len(arm) + len(baseline) - 2
    variance = (np.var(arm, ddof=1) * (len(arm) - 1) + np.var(baseline, ddof=1) * (len(baseline) - 1)) / df
    return float((np.mean(arm) - np.mean(baseline)) / math.sqrt(variance))


def hedges_g(arm: Sequence[float], baseline: Sequence[float]) -> float:
    """Cohen's d less its small-sample bias, by the factor 1 - 3 / (4 df - 1)."""
    return cohen_d(arm, baseline) * (1 - 3 / (4 * (len(arm) + len(baseline) - 2) - 1))


def bartlett_p(groups: Sequence[Sequence[float]]) -> float | None:
    """p of Bartlett's test for equal variances; None when a group is constant or fewer than two have spread.

    With three runs a group it has little power: not rejecting is no evidence of equality.
    """
    groups = [g for g in groups if len(g) > 1]
    if len(groups) < 2 or any(np.ptp(g) == 0 for g in groups):
        return None
    return float(stats.bartlett(*groups).pvalue)


@dataclass(frozen=True)
class Permutation:
    """An exact permutation test.

    Attributes:
        p: share of relabellings at least as far apart as what was seen.
        floor: the smallest p this many runs can ever give (0.1 at 3 v 3: it cannot reach 0.05).
        relabellings: how many there are.
    """

    p: float
    floor: float
    relabellings: int


LARGEST_ENUMERATION = 200_000


def permutation(arm: Sequence[float], baseline: Sequence[float]) -> Permutation:
    """Enumerate all relabellings of two unpaired samples, two-sided on the difference of means.

    Raises:
        AnalysisError: more than `LARGEST_ENUMERATION` relabellings (a t test is then as good).
    """
    everything = np.asarray([*arm, *baseline], dtype=float)
    n, total = len(arm), math.comb(len(everything), len(arm))
    if total > LARGEST_ENUMERATION:
        raise AnalysisError(f"{total} relabellings are too many to enumerate; with that many runs use the t test")
    chosen = np.array(list(itertools.combinations(range(len(everything)), n)))
    sums = everything[chosen].sum(axis=1)
    differences = np.abs(sums / n - (everything.sum() - sums) / (len(everything) - n))
    seen = abs(np.mean(arm) - np.mean(baseline))
    extreme = int(np.count_nonzero(differences >= seen * (1 - 1e-12) - 1e-15))
    least = 2 if len(arm) == len(baseline) else 1
    return Permutation(extreme / total, least / total, total)


def _enough(values: Sequence[float]) -> Sequence[float]:
    if len(values) < 2:
        raise AnalysisError("one run has no spread of its own; use a pooled or given sigma")
    return values


def _of_scipy(name: str, found, arm: Sequence[float], baseline: Sequence[float], alpha: float) -> Contrast:
    difference, t, df = float(np.mean(arm) - np.mean(baseline)), float(found.statistic), float(found.df)
    if not math.isfinite(t):
        raise AnalysisError("no spread between runs: all values are equal, no test is possible")
    interval = found.confidence_interval(1 - alpha)
    error = (float(interval.high) - float(interval.low)) / (2 * student.critical(alpha / 2, df))
    return Contrast(name, difference, error, t, df, float(found.pvalue), float(interval.low), float(interval.high))
