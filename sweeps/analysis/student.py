"""Student t, normal tails and the law of s, fast and safe far out.

Thin names over `scipy.special` (the generic `scipy.stats` methods cost a hundred times more a call, and a
64-cell matrix makes hundreds of calls). Infinite degrees of freedom mean a known sigma: the normal.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special


def two_sided_p(t: float, df: float) -> float:
    """P(|T| > |t|); exact 0 only below the smallest double (use `two_sided_log_p` there)."""
    if math.isinf(df):
        return float(math.erfc(abs(t) / math.sqrt(2)))
    return float(2 * special.stdtr(df, -abs(t)))


def upper_p(t: float, df: float) -> float:
    """P(T > t)."""
    return float(special.ndtr(-t) if math.isinf(df) else special.stdtr(df, -t))


def critical(alpha: float, df: float) -> float:
    """t with P(T > t) = alpha; give alpha / 2 for a two-sided test."""
    return float(-special.ndtri(alpha) if math.isinf(df) else -special.stdtrit(df, alpha))


def two_sided_log_p(z: float) -> float:
    """ln P(|Z| > |z|) for the normal, by log-survival: finite where p itself underflows."""
    return float(math.log(2) + special.log_ndtr(-abs(z)))


def f_upper_p(ratio: float, df_above: float, df_below: float) -> float:
    """P(F > ratio)."""
    return float(special.fdtrc(df_above, df_below, ratio))


def normal_upper(z: float | NDArray[np.float64]) -> NDArray[np.float64]:
    """P(Z > z) for the standard normal, elementwise."""
    return special.ndtr(-np.asarray(z, dtype=float))


def chi_nodes(df: float, points: int = 96) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes and weights of the law of s / sigma = sqrt(chi2(df) / df), trapezoid in ln s.

    The log grid resolves the small-s end, which is where the far tail of a t with few degrees of freedom
    comes from; at df = 1 the mass it leaves out is below 1e-9. A function of s that turns within a hundredth
    of ln s, such as the power at a large noncentrality, needs more ``points``.
    """
    if math.isinf(df):
        return np.ones(1), np.ones(1)
    low = -21.0 / df - 6.0 / math.sqrt(df)
    high = math.log1p(6.5 / math.sqrt(df))
    x = np.linspace(low, high, points)
    log_density = df * x - df * np.exp(2 * x) / 2
    density = np.exp(log_density - log_density.max())
    return np.exp(x), density / density.sum()


def solve(function: Callable[[float], float], low: float, high: float, tolerance: float = 1e-10) -> float:
    """The root of a function that changes sign between low and high."""
    return float(optimize.root_scalar(function, bracket=(low, high), method="brentq", xtol=tolerance).root)
