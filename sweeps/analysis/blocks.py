"""Pairing by seed, where equal seeds share their data order: differences and complete blocks.

Pairing pays once the correlation of a pair exceeds about 0.1 at five seeds; it must be chosen before looking.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.nested import Arm, Variance, is_searched
from sweeps.analysis.noise_floor import c4
from sweeps.analysis.sigma import FEWEST_BASELINE, Noise, parse

_BLOCKS = "residual of arm x seed blocks"


@dataclass(frozen=True)
class Paired:
    """An arm's difference from the baseline over the seeds both have.

    Attributes:
        difference: mean over the pairs.
        pairs: how many.
        dropped: seeds that only one side has a value for.
        noise: variance of ``difference``, or why there is none.
        correlation: Pearson r of the pairs; None below three pairs or without spread.
    """

    difference: float
    pairs: int
    dropped: tuple[int, ...]
    noise: Noise
    correlation: float | None


def paired(rule: str, name: str, baseline: str, arms: Mapping[str, Arm]) -> Paired | None:
    """Compare an arm with the baseline pair by pair; None where no seed is on both sides.

    ``own`` takes the sd of the arm's own differences (df = pairs - 1); ``pooled`` the residual of the
    two-way table arm x seed over complete blocks (df = (arms - 1)(seeds - 1)); ``auto`` takes what each seed does
    to the arms on average out of every value and then gives either side the larger of its own and the pooled
    noise, as `sigma.py` does (with one arm that has all seeds: its own differences).

    Raises:
        AnalysisError: a searched arm, or a sigma rule that has no paired form.
    """
    kind, _ = parse(rule)
    if kind not in ("auto", "own", "pooled"):
        raise AnalysisError(f"sigma {rule!r} has no paired form; with pairing use auto, own or pooled")
    if any(is_searched(arm) for arm in (arms[name], arms[baseline])):
        raise AnalysisError(f"arm {name!r} is nested in searches and cannot be paired by seed; compare it unpaired")
    ours, theirs = _by_seed(arms[name]), _by_seed(arms[baseline])
    common = sorted(ours.keys() & theirs.keys())
    if not common:
        return None
    apart = [ours[s] - theirs[s] for s in common]
    return Paired(
        difference=math.fsum(apart) / len(apart),
        pairs=len(common),
        dropped=tuple(sorted(ours.keys() ^ theirs.keys())),
        noise=_noise(kind, name, baseline, arms, apart),
        correlation=_correlation([ours[s] for s in common], [theirs[s] for s in common]),
    )


def block_residual(arms: Mapping[str, Arm], baseline: str) -> tuple[float, int] | None:
    """Residual mean square of the arm x seed table and its df, over the unsearched arms with all baseline seeds."""
    _, y = _complete(arms, baseline)
    if min(y.shape) < 2:
        return None
    residual = y - y.mean(axis=1, keepdims=True) - y.mean(axis=0, keepdims=True) + y.mean()
    df = (y.shape[0] - 1) * (y.shape[1] - 1)
    return float(np.sum(residual**2)) / df, df


def _noise(kind: str, name: str, baseline: str, arms: Mapping[str, Arm], apart: list[float]) -> Noise:
    n = len(apart)
    if kind == "auto":
        found = _centred(name, baseline, arms)
        few = f"{n} pair{'s' if n > 1 else ''} cannot show their noise; give {FEWEST_BASELINE}"
        if found is not None:
            return found
        return replace(_pairs(apart), reason=few) if 1 < n < FEWEST_BASELINE else _pairs(apart)
    residual = block_residual(arms, baseline) if kind == "pooled" else None
    if residual is None:
        return _pairs(apart)
    value, df = 2 * residual[0], residual[1]
    if value <= 0:
        return Noise(None, 0.0, _BLOCKS, "no spread between pairs: no test is possible")
    return Noise(Variance(value / n, df, 0.5), math.sqrt(value / 2), _BLOCKS)


def _pairs(apart: list[float]) -> Noise:
    """The sd of the arm's own differences."""
    n, source = len(apart), "sd of the arm's own pairs"
    if n < 2:
        return Noise(None, None, source, "one pair: no noise floor")
    value = float(np.var(apart, ddof=1))
    if value <= 0:
        return Noise(None, 0.0, source, "no spread between pairs: no test is possible")
    return Noise(Variance(value / n, n - 1, 0.5), math.sqrt(value / 2), source)


def _centred(name: str, baseline: str, arms: Mapping[str, Arm]) -> Noise | None:
    """Either side's larger noise after the seeds' mean effect on the arms; None without two complete arms."""
    names, y = _complete(arms, baseline)
    if name not in names or len(names) < 3 or y.shape[1] < FEWEST_BASELINE:
        return None
    n, others = y.shape[1], len(names) - 1
    first = names.index(baseline)
    y = y - np.delete(y, first, axis=0).mean(axis=0)
    squares = {who: float(np.var(row, ddof=1)) for who, row in zip(names, y, strict=True)}
    # Centring takes 1 / others of an arm's variance with it; it leaves the baseline all of its own and more.
    pool_df = (others - 1) * (n - 1)
    pool = (n - 1) * math.fsum(v for who, v in squares.items() if who != baseline) / pool_df
    unbiased = {baseline: squares[baseline] / c4(n - 1) ** 2}
    unbiased[name] = squares[name] * others / (others - 1) / c4(n - 1) ** 2
    used = {who: max(pool, value) for who, value in unbiased.items()}
    if used[name] <= 0:
        return Noise(None, 0.0, _BLOCKS, "no spread between pairs: no test is possible")
    dfs = {who: n - 1 if value > pool else pool_df for who, value in unbiased.items()}
    total = (used[name] + used[baseline]) / n
    df = (
        float(pool_df)
        if dfs[name] == dfs[baseline] == pool_df
        else total**2 / sum((used[who] / n) ** 2 / dfs[who] for who in (name, baseline))
    )
    source = f"{'own' if unbiased[name] > pool else 'pooled over the arms'} within seeds"
    source += "; the baseline's side: its own" if unbiased[baseline] > pool else ""
    return Noise(Variance(total, df, used[baseline] / n / total), math.sqrt(used[name]), source)


def _complete(arms: Mapping[str, Arm], baseline: str) -> tuple[list[str], np.ndarray]:
    """Unsearched arms that have every baseline seed, and their values, shape (arms, seeds)."""
    seeds = sorted(_by_seed(arms[baseline]))
    tables = {name: _by_seed(arm) for name, arm in arms.items() if not is_searched(arm)}
    names = [name for name, table in tables.items() if all(s in table for s in seeds)]
    return names, np.array([[tables[name][s] for s in seeds] for name in names])


def _by_seed(arm: Arm) -> dict[int, float]:
    return {seed: value for seeds in arm.values() for seed, value in seeds.items()}


def _correlation(ours: list[float], theirs: list[float]) -> float | None:
    if len(ours) < 3 or np.ptp(ours) == 0 or np.ptp(theirs) == 0:
        return None
    return float(np.corrcoef(ours, theirs)[0, 1])
