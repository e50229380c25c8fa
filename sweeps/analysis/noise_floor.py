"""How far equal runs lie apart, and how well that is known."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import special

from sweeps.analysis.errors import AnalysisError


@dataclass(frozen=True)
class Spread:
    """A standard deviation with its uncertainty.

    Attributes:
        sd: sqrt of the pooled unbiased variance, in the metric's unit.
        df: degrees of freedom; inf for a sigma taken as known.
        low, high: interval for sigma at the level asked for (equal to ``sd`` when it is known).
        unbiased: sd / c4(df): s from few runs is too small on average (by 11 % at df = 2).
    """

    sd: float
    df: float
    low: float
    high: float
    unbiased: float


def c4(df: float) -> float:
    """E[s] / sigma for a normal sample: sqrt(2 / df) Gamma((df + 1) / 2) / Gamma(df / 2)."""
    if math.isinf(df):
        return 1.0
    return math.sqrt(2 / df) * math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2))


def spread(variance: float, df: float, confidence: float = 0.95) -> Spread:
    """Interval for sigma from a variance with chi-square noise.

    Raises:
        AnalysisError: no degree of freedom.
    """
    if df <= 0:
        raise AnalysisError("no noise floor: one run an arm has no spread; add seeds or give sigma")
    sd = math.sqrt(variance)
    if math.isinf(df):
        return Spread(sd, df, sd, sd, sd)
    tail = (1 - confidence) / 2
    low, high = special.chdtri(df, tail), special.chdtri(df, 1 - tail)
    return Spread(sd, df, sd * math.sqrt(df / low), sd * math.sqrt(df / high), sd / c4(df))


def pooled(groups: Sequence[Sequence[float]], confidence: float = 0.95) -> Spread:
    """Pool unbiased variances over arms: sum (n_a - 1) s_a^2 / sum (n_a - 1)."""
    squares, df = 0.0, 0
    for values in groups:
        if len(values) > 1:
            center = math.fsum(values) / len(values)
            squares += math.fsum((v - center) ** 2 for v in values)
            df += len(values) - 1
    return spread(squares / df if df else 0.0, df, confidence)


def sd_ratio(arm: Spread, baseline: Spread, confidence: float = 0.95) -> tuple[float, float, float]:
    """sd of an arm over the baseline's with its F interval: does the seed variance vanish?

    Raises:
        AnalysisError: a baseline without spread.
    """
    if baseline.sd == 0:
        raise AnalysisError("the baseline's runs are all equal: there is no spread to compare with")
    ratio, tail = (arm.sd / baseline.sd) ** 2, (1 - confidence) / 2
    low = ratio / special.fdtri(arm.df, baseline.df, 1 - tail)
    high = ratio * special.fdtri(baseline.df, arm.df, 1 - tail)
    return math.sqrt(ratio), math.sqrt(low), math.sqrt(high)
