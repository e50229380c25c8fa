"""The contrasts below a transfer matrix on simulated studies: their family-wise error and power."""

from collections.abc import Callable

import numpy as np
from scipy import special
from sim_rules import ALPHA, NOISIER, Array

from sweeps.analysis.corrections import adjust_array
from sweeps.analysis.linear import SEARCH_RATIO
from sweeps.analysis.noise_floor import c4
from sweeps.analysis.results import Result
from sweeps.analysis.sigma import NOISIER as NOISIER_SEARCHES
from sweeps.analysis.specificity import specificity

STUDIES = 4000
COLUMNS, ROWS, OWN_SHIFT = 8, 10, 6.0
"""Of a study: columns, its own rows and two controls, and by how many seed sds an own row is better."""


def study(
    rng: np.random.Generator, draws: int, searches: int, seeds: int, spread: str, law: str
) -> tuple[Array, Array]:
    """A null study: arms (draws, columns, rows, searches, seeds) and the baseline (draws, columns, seeds).

    The first `COLUMNS` rows are the columns' own, two are controls. "own x3": each own row in its own column.
    """

    def noise(shape: tuple[int, ...]) -> Array:
        return rng.standard_normal(shape) if law == "normal" else rng.standard_t(3, shape) / np.sqrt(3)

    arms = noise((draws, COLUMNS, ROWS, searches, seeds)) + noise((draws, COLUMNS, ROWS, searches, 1))
    base = noise((draws, COLUMNS, seeds))
    if spread == "arm x3":
        arms[:, :, 0] *= NOISIER
    if spread == "own x3":
        arms[:, range(COLUMNS), range(COLUMNS)] *= NOISIER
    if spread == "base x3":
        base *= NOISIER
    return arms, base


def asked(arms: Array, base: Array, weights: Callable[[int], Array], own: Callable[[int], int]) -> tuple[Array, Array]:
    """t and df of one contrast in every column (draws, columns), as `linear.contrast` has them, balanced.

    Args:
        arms, base: as `study` draws them.
        weights: column -> weight of each row.
        own: column -> the row that is asked about.
    """
    _, columns, rows, searches, per = arms.shape
    n, seed_df, search_df = searches * per, searches * (per - 1.0), searches - 1.0
    w = np.array([weights(c) for c in range(columns)])
    here = np.arange(rows) == np.array([own(c) for c in range(columns)])[:, None]
    seed_ms, search_ms = arms.var(axis=4, ddof=1).mean(axis=3), per * arms.mean(axis=4).var(axis=3, ddof=1)
    pool_df = rows * seed_df + base.shape[2] - 1
    pool = (seed_ms.sum(axis=2) * seed_df + base.var(axis=2, ddof=1) * (base.shape[2] - 1)) / pool_df
    own_seeds = seed_ms / c4(seed_df) ** 2
    seeds = np.maximum(own_seeds, pool[..., None])
    pooled = search_ms.mean(axis=2, keepdims=True)
    others = (search_ms.sum(axis=2, keepdims=True) - search_ms) / (rows - 1)
    noisier = special.fdtrc(search_df, (rows - 1) * search_df, search_ms / others) < NOISIER_SEARCHES
    square = np.where(noisier, search_ms / c4(search_df) ** 2, pooled)
    square = np.maximum(np.maximum(square, seeds), np.where(here, SEARCH_RATIO**2 * pooled, 0.0))
    parts = w**2 * square / n
    shared, apart = np.where(noisier, 0.0, parts).sum(axis=2), np.where(noisier, parts**2, 0.0).sum(axis=2)
    total = parts.sum(axis=2)
    df = total**2 / (apart / search_df + shared**2 / (rows * search_df))
    return (arms.mean(axis=(3, 4)) * w).sum(axis=2) / np.sqrt(total), df


def contrast_error(rng: np.random.Generator, searches: int, seeds: int, spread: str, law: str) -> list[float]:
    """Family-wise error, by Holm, of: own less other rows; own beats another one by one; own less two controls; and
    the power of the first where every own row is `OWN_SHIFT` better."""
    arms, base = study(rng, STUDIES, searches, seeds, spread, law)
    p = _p(*asked(arms, base, _against_rows, lambda c: c))
    errors = [float((p.min(axis=1) < ALPHA / COLUMNS).mean())]
    upper = []
    for apart in range(1, COLUMNS):
        t, df = asked(arms, base, lambda c, k=apart: _unit(c) - _unit((c + k) % COLUMNS), lambda c: c)
        upper.append(np.where(t > 0, _p(t, df), 1.0))
    errors.append(float((np.concatenate(upper, axis=1).min(axis=1) < ALPHA / COLUMNS / (COLUMNS - 1)).mean()))
    shape = [_p(*asked(arms, base, lambda c, k=k: _unit(c) - _unit(k), lambda c: c)) for k in (COLUMNS, COLUMNS + 1)]
    errors.append(float((np.concatenate(shape, axis=1).min(axis=1) < ALPHA / COLUMNS / 2).mean()))
    arms = arms.copy()
    arms[:, range(COLUMNS), range(COLUMNS)] += OWN_SHIFT
    found = adjust_array(_p(*asked(arms, base, _against_rows, lambda c: c)), "holm")
    return [*errors, float((found < ALPHA).mean())]


def contrast_agreement(draws: int = 3) -> float:
    """Largest difference between p-values of the engine's linear contrasts and the restated ones."""
    worst = 0.0
    for searches, seeds, spread in ((2, 3, "own x3"), (3, 6, "arm x3")):
        arms, base = study(np.random.default_rng(3), draws, searches, seeds, spread, "normal")
        p = _p(*asked(arms, base, _against_rows, lambda c: c))
        for i in range(draws):
            results = []
            for c in range(COLUMNS):
                results += [Result("base", f"t{c}", s, None, float(v)) for s, v in enumerate(base[i, c])]
                results += [
                    Result(f"t{r}", f"t{c}", s, k, float(arms[i, c, r, k, s]))
                    for r, k, s in np.ndindex(ROWS, searches, seeds)
                ]
            names = [f"t{c}" for c in range(COLUMNS)]
            for c, found in enumerate(specificity(results, names, names)):
                worst = max(worst, abs((found.against_others.p or 0.0) - p[i, c]))
    return worst


def _against_rows(column: int) -> Array:
    weights = np.where(np.arange(ROWS) < COLUMNS, -1 / (COLUMNS - 1), 0.0)
    weights[column] = 1.0
    return weights


def _unit(row: int) -> Array:
    return (np.arange(ROWS) == row).astype(float)


def _p(t: Array, df: Array) -> Array:
    return 2 * special.stdtr(df, -np.abs(t))
