"""Many arms against one baseline: the joint distribution of their t statistics (Dunnett 1955).

All contrasts share the baseline's mean, so they are positively correlated and Bonferroni overpays. With
v_b and v_i the variances of the baseline's and of arm i's mean, the correlations have the product form
b_i b_j, b_i^2 = v_b / (v_b + v_i), and the probability reduces to a double integral over the baseline's error
and over the error of sigma. `scipy.stats.dunnett` does the same from raw samples with one pooled sigma, by
quasi-Monte Carlo; here the integral is by quadrature, so that equal inputs give equal bytes, single runs and
a sigma from elsewhere are allowed, and each contrast may have its own degrees of freedom (Hasler & Hothorn
2008, doi:10.1002/bimj.200710466, for unequal variances). Tests hold it against scipy's.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sweeps.analysis import student

Array = NDArray[np.float64]
_FAR = 1e-9
"""Below this the family-wise p is Bonferroni's: the joint tail adds nothing and the quadrature no digit."""
_Z = np.linspace(-6.8, 6.8, 64)
_Z_WEIGHTS = np.exp(-(_Z**2) / 2) / np.sum(np.exp(-(_Z**2) / 2))
_HIGHEST_LOADING = 0.99
"""Loadings above it count as this much (a little conservative): the integrand becomes a step there."""


def adjusted_p(
    statistics: Sequence[float],
    dfs: Sequence[float],
    loadings: Sequence[float],
    *,
    one_sided: bool = False,
    shared: bool = True,
) -> list[float]:
    """Family-wise p-value of each contrast.

    Args:
        statistics: t of each arm against the baseline.
        dfs: degrees of freedom of each; inf for a known sigma.
        loadings: b_i = sqrt(v_b / (v_b + v_i)), in [0, 1).
        one_sided: test for larger means only, P(max_j T_j >= t_i).
        shared: the contrasts share their estimate of sigma. Errors of separate estimates do not move together,
            and a shared one would be too hopeful then (at three seeds an arm 0.08 instead of 0.05).

    Returns:
        P(max_j |T_j| >= |t_i|) under the global null, never below the unadjusted p nor above Bonferroni's.
    """
    b = np.asarray(loadings, dtype=float)
    return [_adjust(t, df, b, one_sided, shared) for t, df in zip(statistics, dfs, strict=True)]


def _adjust(t: float, df: float, loadings: Array, one_sided: bool, shared: bool) -> float:
    alone = student.upper_p(t, df) if one_sided else student.two_sided_p(t, df)
    bonferroni = min(1.0, len(loadings) * alone)
    if alone < _FAR or len(loadings) == 1:
        return bonferroni
    joint = exceedance(t if one_sided else abs(t), df, loadings, one_sided=one_sided, shared=shared)
    return min(bonferroni, max(alone, joint))


def critical_value(alpha: float, df: float, loadings: Sequence[float], *, shared: bool = True) -> float:
    """c with P(max_j |T_j| >= c) = alpha: the half-width of simultaneous intervals, in standard errors."""
    return _critical(alpha, df, tuple(loadings), shared)


@lru_cache(maxsize=1024)
def _critical(alpha: float, df: float, loadings: tuple[float, ...], shared: bool) -> float:
    b = np.asarray(loadings, dtype=float)
    low, high = student.critical(alpha / 2, df), student.critical(alpha / (2 * len(b)), df)
    if len(b) == 1 or exceedance(high, df, b, shared=shared) >= alpha:
        return high
    return student.solve(lambda c: exceedance(c, df, b, shared=shared) - alpha, low * 0.9, high, tolerance=1e-4)


def exceedance(threshold: float, df: float, loadings: Array, *, one_sided: bool = False, shared: bool = True) -> float:
    """P(max_j |T_j| >= threshold) for T_j = (b_j Z_0 + sqrt(1 - b_j^2) Z_j) / s.

    One-sided without the bars; with an s_j of its own for each contrast where it is not shared.
    """
    scales, weights = student.chi_nodes(df, 64)
    b, counts = np.unique(np.minimum(loadings, _HIGHEST_LOADING), return_counts=True)
    rest = np.sqrt(1 - b**2)
    cut = threshold * scales[:, None, None]
    tail = special.ndtr((b * _Z[None, :, None] - cut) / rest)
    if not one_sided:
        tail = tail + special.ndtr((-b * _Z[None, :, None] - cut) / rest)
    if not shared:
        tail, weights = np.tensordot(weights, tail, axes=1)[None], np.ones(1)
    with np.errstate(divide="ignore"):
        beyond = -np.expm1(np.sum(counts * np.log1p(-np.minimum(tail, 1.0)), axis=-1))
    return float(weights @ (beyond @ _Z_WEIGHTS))
