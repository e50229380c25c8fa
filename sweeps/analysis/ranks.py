"""Rank correlation with the uncertainty it is usually published without."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from sweeps.analysis import student
from sweeps.analysis.errors import AnalysisError

LARGEST_EXACT = 12
"""Arms up to which the permutation distribution is computed in full."""


@dataclass(frozen=True)
class RankCorrelation:
    """Spearman's rho.

    Attributes:
        rho: the correlation of the ranks (midranks for ties).
        n: arms ranked.
        low, high: Fisher interval, atanh(rho) +- z / sqrt(n - 3); (-1, 1) below four arms.
        p: two-sided, from t with n - 2 degrees of freedom.
        p_permutation: two-sided, over all n! orders up to `LARGEST_EXACT` arms, else drawn.
        exact: whether all orders were counted.
    """

    rho: float
    n: int
    low: float
    high: float
    p: float
    p_permutation: float
    exact: bool


def spearman(x: Sequence[float], y: Sequence[float], alpha: float = 0.05, seed: int = 0) -> RankCorrelation:
    """Rank correlation of two measurements of the same arms.

    Raises:
        AnalysisError: different lengths, fewer than three arms, or one side constant.
    """
    if len(x) != len(y) or len(x) < 3:
        raise AnalysisError(
            f"ranks need the same three or more arms on both sides, and there are {len(x)} and {len(y)}"
        )
    ours, theirs = stats.rankdata(x), stats.rankdata(y)
    if np.ptp(ours) == 0 or np.ptp(theirs) == 0:
        raise AnalysisError("every arm has the same value on one side: there is no order to compare")
    rho, n = float(np.corrcoef(ours, theirs)[0, 1]), len(x)
    low, high = fisher_interval(rho, n, alpha)
    exact = n <= LARGEST_EXACT
    p_permutation = _exact_p(ours, theirs) if exact else _drawn_p(ours, theirs, rho, seed)
    return RankCorrelation(rho, n, low, high, t_p(rho, n), p_permutation, exact)


def kendall(x: ArrayLike, y: ArrayLike) -> tuple[float, float]:
    """Kendall's tau-b and its two-sided p (exact for few untied pairs); NaN where one side is constant."""
    tau, p = np.asarray(stats.kendalltau(x, y), dtype=float)
    return float(tau), float(p)


def fisher_interval(rho: float, n: int, alpha: float = 0.05) -> tuple[float, float]:
    """Interval of a correlation by Fisher's z; of a perfect order that of the nearest other one, up to 1."""
    if n < 4:
        return -1.0, 1.0
    half, near = student.critical(alpha / 2, math.inf) / math.sqrt(n - 3), _imperfect(rho, n)
    low, high = math.tanh(math.atanh(near) - half), math.tanh(math.atanh(near) + half)
    if near == rho:
        return low, high
    return (low, 1.0) if rho > 0 else (-1.0, high)


def t_p(rho: float, n: int) -> float:
    """Two-sided p by t = rho sqrt((n - 2) / (1 - rho^2)); of a perfect order that of the nearest other one."""
    rho = _imperfect(rho, n)
    return student.two_sided_p(rho * math.sqrt((n - 2) / (1 - rho**2)), n - 2)


def _imperfect(rho: float, n: int) -> float:
    """rho, or what swapping two neighbours leaves of a perfect order: formulas for rho below 1 know no noise at 1."""
    nearest = 1 - 12 / (n**3 - n)
    return math.copysign(nearest, rho) if abs(rho) > 1 - 1e-9 else rho


def permutation_p(rho: float, n: int) -> float:
    """Exact two-sided p of a published rho of n untied arms, n at most `LARGEST_EXACT`."""
    sizes, shares = _untied(n)
    return float(shares[sizes >= abs(rho) - 1e-9].sum())


def critical_rho(n: int, alpha: float = 0.05) -> float:
    """Smallest |rho| of n untied arms whose exact two-sided p is at most alpha.

    Raises:
        AnalysisError: too few arms for any order to reach alpha, or too many to count.
    """
    if not 3 <= n <= LARGEST_EXACT:
        raise AnalysisError(f"critical ranks are counted for 3 to {LARGEST_EXACT} arms, not {n}")
    sizes, shares = _untied(n)
    tails = np.cumsum(shares[::-1])[::-1]
    reaching = sizes[tails <= alpha + 1e-12]
    if not len(reaching):
        raise AnalysisError(f"no order of {n} arms reaches p = {alpha:g}; rank more arms")
    return float(reaching[0])


def _untied(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Ascending |rho| of n untied ranks, and the share of orders with each."""
    ranks = np.arange(1, n + 1, dtype=float)
    products, counts = _product_counts(ranks, ranks)
    distances = 2 * (ranks @ ranks - products)
    sizes, where = np.unique(np.round(np.abs(1 - 6 * distances / (n**3 - n)), 12), return_inverse=True)
    return sizes, np.bincount(where, weights=counts) / counts.sum()


def _exact_p(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Share of all orders at least as far from independence, on sum of rank products (monotone in rho)."""
    products, counts = _product_counts(ours, theirs)
    center = len(ours) * ours.mean() * theirs.mean()
    seen = abs(float(ours @ theirs) - center)
    return float(counts[np.abs(products - center) >= seen - 1e-9].sum() / counts.sum())


def _product_counts(ours: np.ndarray, theirs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distribution of sum_i r_i s_pi(i) over permutations, by dynamic programming over subsets.

    Midranks are halves, so four times the sum is an integer.
    """
    a, b = np.rint(2 * ours).astype(int), np.rint(2 * theirs).astype(int)
    n = len(a)
    size = int(np.sort(a) @ np.sort(b)) + 1
    counts: dict[int, np.ndarray] = {0: np.zeros(size)}
    counts[0][0] = 1.0
    for row in range(n):
        following: dict[int, np.ndarray] = {}
        for used, ways in counts.items():
            for column in range(n):
                if used >> column & 1:
                    continue
                shift = int(a[row] * b[column])
                target = following.setdefault(used | 1 << column, np.zeros(size))
                target[shift:] += ways[: size - shift]
        counts = following
    (ways,) = counts.values()
    return np.flatnonzero(ways) / 4, ways[np.flatnonzero(ways)]


def _drawn_p(ours: np.ndarray, theirs: np.ndarray, rho: float, seed: int, draws: int = 20_000) -> float:
    rng = np.random.default_rng(seed)
    shuffled = rng.permuted(np.tile(theirs, (draws, 1)), axis=1)
    scale = len(ours) * ours.std() * theirs.std()
    rhos = (shuffled @ ours - len(ours) * ours.mean() * theirs.mean()) / scale
    return float((np.count_nonzero(np.abs(rhos) >= abs(rho) - 1e-12) + 1) / (draws + 1))
