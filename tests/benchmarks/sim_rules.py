"""The rules of `orchestrate compare`, restated over arrays of simulated tables: a thousand times faster than a table at
a time. `sim_calibration.agreement` holds them against the engine."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.interpolate import RegularGridInterpolator

from sweeps.analysis.corrections import adjust_array
from sweeps.analysis.dunnett import critical_value
from sweeps.analysis.noise_floor import c4
from sweeps.analysis.options import Options
from sweeps.analysis.sigma import NOISIER as NOISIER_SEARCHES

Array = NDArray[np.float64]
ARMS, ALPHA, NOISIER = 19, 0.05, 3.0
DESIGNS = {"1v3": (1, 3), "3v3": (3, 3), "6v6": (6, 6)}


@dataclass(frozen=True)
class Contrasts:
    """t of every arm; shapes (tables, arms)."""

    t: Array
    df: Array
    loading: Array
    valid: bool = True
    shared: bool = True


def draw(
    rng: np.random.Generator, tables: int, design: str, spread: str, law: str, searches: int = 0
) -> tuple[Array, Array]:
    """Null runs: the arms (tables, ARMS, seeds) and the baseline (tables, seeds), unit sd but for ``spread``.

    With ``searches`` the arms carry a search effect as large as the seed noise, seeds nested in that many.
    """
    seeds, base_seeds = DESIGNS[design]

    def noise(shape: tuple[int, ...]) -> Array:
        return rng.standard_normal(shape) if law == "normal" else rng.standard_t(3, shape) / np.sqrt(3)

    arms, base = noise((tables, ARMS, seeds)), noise((tables, base_seeds))
    if searches:
        arms += np.repeat(noise((tables, ARMS, searches)), seeds // searches, axis=2)
    if spread == "arm x3":
        arms[:, 0] *= NOISIER
    if spread == "base x3":
        base *= NOISIER
    return arms, base


def contrasts(rule: str, arms: Array, base: Array) -> Contrasts:
    """Unpaired t statistics under a sigma rule, as `sigma.noise` and `nested.difference_variance` have them."""
    n, nb = arms.shape[2], base.shape[1]
    difference = arms.mean(axis=2) - base.mean(axis=1, keepdims=True)
    base_ms = np.broadcast_to(base.var(axis=1, ddof=1)[:, None], difference.shape)
    arm_ms = arms.var(axis=2, ddof=1) if n > 1 else np.zeros_like(difference)
    if rule == "audit":
        ones = np.ones_like(difference)
        return Contrasts(difference / np.sqrt(base_ms), ones * np.inf, ones * 0.0)
    if rule == "means":  # only means, their n and the baseline's sd are known
        ratio = Options("b").noise_ratio ** 2 / n
        error = base_ms / c4(nb - 1) ** 2 * (ratio + 1 / nb)
        loading = np.full_like(difference, np.sqrt((1 / nb) / (ratio + 1 / nb)))
        return Contrasts(difference / np.sqrt(error), np.full_like(difference, nb - 1.0), loading)
    if rule == "own":
        return _welch(difference, arm_ms, n - 1.0, base_ms, nb - 1.0, n, nb, n > 1)
    if rule == "baseline" or (rule == "pooled" and n == 1):
        return _one(difference, base_ms, nb - 1.0, n, nb)
    if rule == "pooled":
        df = arms.shape[1] * (n - 1) + nb - 1
        squares = arm_ms.sum(axis=1, keepdims=True) * (n - 1) + base_ms[:, :1] * (nb - 1)
        return _one(difference, np.broadcast_to(squares / df, difference.shape), df, n, nb)
    if n == 1:  # auto: a single run may be `noise_ratio` times as noisy as the baseline
        error = base_ms / c4(nb - 1) ** 2 * (Options("b").noise_ratio ** 2 + 1 / nb)
        share = np.full_like(difference, (1 / nb) / (Options("b").noise_ratio ** 2 + 1 / nb))
        return Contrasts(difference / np.sqrt(error), np.full_like(difference, nb - 1.0), np.sqrt(share))
    pool = np.broadcast_to(arm_ms.mean(axis=1, keepdims=True), difference.shape)
    return _larger(difference, arm_ms, base_ms, pool, arms.shape[1] * (n - 1.0), n, nb)


def nested(arms: Array, base: Array, searches: int) -> Contrasts:
    """The default rule on seeds nested in searches, balanced."""
    tables, m, n = arms.shape
    nb, per = base.shape[1], n // searches
    blocks = arms.reshape(tables, m, searches, per)
    difference = arms.mean(axis=2) - base.mean(axis=1, keepdims=True)
    base_ms = np.broadcast_to(base.var(axis=1, ddof=1)[:, None], difference.shape)
    search_ms = np.broadcast_to(
        per * blocks.mean(axis=3).var(axis=2, ddof=1).mean(axis=1, keepdims=True), difference.shape
    )
    search_df = m * (searches - 1.0)
    if per == 1:
        ours = base_used = base_ms / c4(nb - 1) ** 2
        base_df = np.full_like(difference, nb - 1.0)
    else:
        arm_ms = blocks.var(axis=3, ddof=1).mean(axis=2)
        pool = np.broadcast_to(arm_ms.mean(axis=1, keepdims=True), difference.shape)
        ours = np.maximum(pool, arm_ms / c4(searches * (per - 1)) ** 2)
        unbiased = base_ms / c4(nb - 1) ** 2
        base_used = np.maximum(pool, unbiased)
        base_df = np.where(unbiased > pool, nb - 1.0, m * searches * (per - 1.0))
    own_ms = per * blocks.mean(axis=3).var(axis=2, ddof=1)
    others = (own_ms.sum(axis=1, keepdims=True) - own_ms) / (m - 1)
    noisier = special.fdtrc(searches - 1, (m - 1) * (searches - 1), own_ms / others) < NOISIER_SEARCHES
    search_ms = np.where(noisier, own_ms / c4(searches - 1) ** 2, search_ms)
    search_df = np.where(noisier, searches - 1.0, search_df)
    a, b = np.maximum(search_ms, ours) / n, base_used / nb
    df = (a + b) ** 2 / (a**2 / search_df + b**2 / base_df)
    return Contrasts(difference / np.sqrt(a + b), df, np.sqrt(b / (a + b)))


def pairs(rule: str, arms: Array, base: Array) -> Contrasts:
    """Paired t statistics, as `blocks.paired` has them."""
    apart = arms - base[:, None]
    n, m = apart.shape[2], apart.shape[1]
    if rule == "auto":
        center = arms.mean(axis=1, keepdims=True)
        arm_ms = (arms - center).var(axis=2, ddof=1) * m / (m - 1)
        base_ms = np.broadcast_to((base - center[:, 0]).var(axis=1, ddof=1)[:, None], arm_ms.shape)
        pool = np.broadcast_to(arm_ms.mean(axis=1, keepdims=True), arm_ms.shape)
        return _larger(apart.mean(axis=2), arm_ms, base_ms, pool, (m - 1) * (n - 1.0), n, n)
    table = np.concatenate([base[:, None], arms], axis=1)
    residual = table - table.mean(2, keepdims=True) - table.mean(1, keepdims=True) + table.mean((1, 2), keepdims=True)
    blocks = 2 * (residual**2).sum((1, 2)) / (m * (n - 1))
    own = rule == "own"
    value = apart.var(axis=2, ddof=1) if own else np.broadcast_to(blocks[:, None], apart.shape[:2])
    df = np.full_like(value, n - 1.0 if own else m * (n - 1.0))
    loading = np.full_like(value, np.sqrt(0.5))
    return Contrasts(apart.mean(axis=2) / np.sqrt(value / n), df, loading, shared=not own)


def rejected(found: Contrasts, correction: str) -> NDArray[np.bool_]:
    """Which contrasts are called; Dunnett through a table of its critical values at a common loading."""
    if correction == "dunnett":
        return np.abs(found.t) > _dunnett(found.df, found.loading, found.shared)
    finite = np.where(np.isinf(found.df), 1e8, found.df)
    p = 2 * special.stdtr(finite, -np.abs(found.t))
    return (p if correction == "none" else adjust_array(p, correction)) < ALPHA


def _one(difference: Array, mean_square: Array, df: float, n: int, nb: int) -> Contrasts:
    loading = np.full_like(difference, np.sqrt((1 / nb) / (1 / n + 1 / nb)))
    return Contrasts(difference / np.sqrt(mean_square * (1 / n + 1 / nb)), np.full_like(difference, df), loading)


def _welch(
    difference: Array, arm: Array, arm_df, base: Array, base_df, n: int, nb: int, valid: bool = True
) -> Contrasts:
    a, b = arm / n, base / nb
    with np.errstate(invalid="ignore", divide="ignore"):
        df = (a + b) ** 2 / (a**2 / arm_df + b**2 / base_df)
    return Contrasts(difference / np.sqrt(a + b), df, np.sqrt(b / (a + b)), valid, shared=False)


def _larger(difference: Array, arm: Array, base: Array, pool: Array, pool_df: float, n: int, nb: int) -> Contrasts:
    """Each side the larger of its own unbiased mean square and the pool; equal estimates keep joint df."""
    arm, base = arm / c4(n - 1) ** 2, base / c4(nb - 1) ** 2
    own_arm, own_base = arm > pool, base > pool
    a, b = np.where(own_arm, arm, pool) / n, np.where(own_base, base, pool) / nb
    df_a, df_b = np.where(own_arm, n - 1.0, pool_df), np.where(own_base, nb - 1.0, pool_df)
    apart = (a + b) ** 2 / (a**2 / df_a + b**2 / df_b)
    df = np.where(own_arm | own_base, apart, pool_df)
    return Contrasts(difference / np.sqrt(a + b), df, np.sqrt(b / (a + b)))


def _dunnett(df: Array, loading: Array, shared: bool) -> Array:
    inverse = np.where(np.isinf(df), 0.0, 1 / np.maximum(df, 1.0))
    return np.exp(_CRITICAL[shared](np.stack([inverse, loading], axis=-1)))


def _grid(shared: bool) -> RegularGridInterpolator:
    inverse = np.array([0, 0.005, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.33, 0.4, 0.5, 0.6, 0.8, 1.0])
    loadings = np.array([0.0, 0.2, 0.4, 0.55, 0.65, 0.75, 0.85, 0.93, 0.98])
    values = [
        [np.log(critical_value(ALPHA, 1 / i if i else np.inf, [b] * ARMS, shared=shared)) for b in loadings]
        for i in inverse
    ]
    return RegularGridInterpolator((inverse, loadings), np.array(values), bounds_error=False, fill_value=None)


_CRITICAL = {shared: _grid(shared) for shared in (True, False)}
