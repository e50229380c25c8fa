"""Adjusted p-values over a declared family.

A member of the family without a p-value (not run, diverged) stays in the
family with p = 1, so that losing an arm never makes the others look better.
"""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from sweeps.analysis.errors import AnalysisError

Correction = Literal["none", "bonferroni", "sidak", "holm", "hommel", "bh", "by", "dunnett"]
CORRECTIONS: tuple[str, ...] = get_args(Correction)
BY_P_VALUES = ("bonferroni", "sidak", "holm", "hommel", "bh", "by")


def adjust(p_values: Sequence[float | None], correction: str, family: int | None = None) -> list[float | None]:
    """Adjust p-values; None stays None but counts.

    Args:
        p_values: one per member, None where there is none.
        correction: any of `CORRECTIONS` but ``dunnett``, which needs the data (see `dunnett.py`).
        family: size of the family when it is larger than ``p_values`` (the audit publishes 3 of its 19).

    Raises:
        AnalysisError: an unknown correction, a family smaller than its members, a p outside [0, 1].
    """
    size = len(p_values) if family is None else family
    if size < len(p_values):
        raise AnalysisError(f"a family of {size} cannot hold {len(p_values)} p-values; give the full family size")
    for p in p_values:
        if p is not None and not 0.0 <= p <= 1.0:
            raise AnalysisError(f"p-value {p} lies outside [0, 1]")
    if correction == "none":
        return list(p_values)
    if correction not in BY_P_VALUES:
        raise AnalysisError(
            f"correction {correction!r} cannot adjust bare p-values; choose from none, {', '.join(BY_P_VALUES)}"
        )
    if not p_values:
        return []
    filled = np.ones(size)
    filled[: len(p_values)] = [1.0 if p is None else p for p in p_values]
    adjusted = adjust_array(filled, correction).tolist()
    return [None if p is None else q for p, q in zip(p_values, adjusted, strict=False)]


def adjust_array(p_values: ArrayLike, correction: str) -> NDArray[np.float64]:
    """Adjust along the last axis (one family per row); any of `BY_P_VALUES`.

    Written out rather than taken from statsmodels, which corrects one family a call and collects garbage in
    each (40 ms); the tests hold every method against it.
    """
    p = np.asarray(p_values, dtype=float)
    m = p.shape[-1]
    if correction == "bonferroni":
        return np.minimum(1.0, m * p)
    if correction == "sidak":
        with np.errstate(divide="ignore"):
            return -np.expm1(m * np.log1p(-p))
    order = np.argsort(p, axis=-1, kind="stable")
    ordered = np.take_along_axis(p, order, axis=-1)
    rank = np.arange(1, m + 1)
    if correction == "holm":
        raised = np.maximum.accumulate((m - rank + 1) * ordered, axis=-1)
    elif correction == "hommel":
        raised = _hommel(ordered)
    else:
        weight = m / rank * (np.sum(1.0 / rank) if correction == "by" else 1.0)
        raised = np.minimum.accumulate((weight * ordered)[..., ::-1], axis=-1)[..., ::-1]
    adjusted = np.empty_like(p)
    np.put_along_axis(adjusted, order, np.minimum(1.0, raised), axis=-1)
    return adjusted


def _hommel(ordered: NDArray[np.float64]) -> NDArray[np.float64]:
    """Hommel's closed Simes test, by Wright's algorithm (Biometrics 48, 1992), on ascending p-values."""
    m = ordered.shape[-1]
    rank = np.arange(1, m + 1)
    best = np.min(m * ordered / rank, axis=-1, keepdims=True)
    floor, adjusted = np.broadcast_to(best, ordered.shape).copy(), np.broadcast_to(best, ordered.shape).copy()
    for size in range(m - 1, 1, -1):
        upper = ordered[..., m - size + 1 :]  # the size - 1 largest
        simes = np.min(size * upper / np.arange(2, size + 1), axis=-1, keepdims=True)
        floor[..., : m - size + 1] = np.minimum(simes, size * ordered[..., : m - size + 1])
        floor[..., m - size + 1 :] = floor[..., m - size : m - size + 1]
        adjusted = np.maximum(adjusted, floor)
    return np.maximum(adjusted, ordered)


def log_bonferroni(log_p: float, family: int) -> float:
    """Natural log of the Bonferroni-adjusted p-value, for p-values far below the smallest double."""
    return min(0.0, log_p + float(np.log(family)))


def holm_levels(p_values: Sequence[float | None], alpha: float) -> list[float]:
    """The level at which Holm's procedure tests each member: ``alpha / (m - rank + 1)``.

    Once a member is not rejected the rest are tested at that member's level, so "the interval at this level
    excludes zero" and "adjusted p < alpha" say the same.
    """
    filled = [1.0 if p is None else p for p in p_values]
    levels, size, stopped = [alpha] * len(filled), len(filled), None
    for rank, index in enumerate(sorted(range(size), key=filled.__getitem__)):
        level = alpha / (size - rank) if stopped is None else stopped
        levels[index] = level
        if stopped is None and filled[index] >= level:
            stopped = level
    return levels


def family_wise_error(alpha: float, family: int) -> float:
    """Chance of any false positive among ``family`` independent uncorrected tests: 1 - (1 - alpha)^m."""
    return float(-np.expm1(family * np.log1p(-alpha)))


def critical_z(alpha: float, family: int, correction: Literal["bonferroni", "sidak"] = "bonferroni") -> float:
    """Two-sided normal threshold for a family of ``family`` tests."""
    each = alpha / family if correction == "bonferroni" else -np.expm1(np.log1p(-alpha) / family)
    return float(-special.ndtri(each / 2))
