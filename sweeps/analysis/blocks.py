"""Pairing by seed, where equal seeds share their data order: differences and complete blocks.

Pairing pays once the correlation of a pair exceeds about 0.1 at five seeds; it must be chosen before looking.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.nested import Arm, Variance, is_searched
from sweeps.analysis.noise_floor import c4
from sweeps.analysis.sigma import FEWEST_BASELINE, Noise, parse


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
    two-way table arm x seed over complete blocks (df = (arms - 1)(seeds - 1)); ``auto`` the larger.

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
        noise=_noise(kind, apart, block_residual(arms, baseline)),
        correlation=_correlation([ours[s] for s in common], [theirs[s] for s in common]),
    )


def block_residual(arms: Mapping[str, Arm], baseline: str) -> tuple[float, int] | None:
    """Residual mean square of the arm x seed table and its df, over the unsearched arms with all baseline seeds."""
    seeds = sorted(_by_seed(arms[baseline]))
    tables = [_by_seed(arm) for arm in arms.values() if not is_searched(arm)]
    complete = [[table[s] for s in seeds] for table in tables if all(s in table for s in seeds)]
    if len(complete) < 2 or len(seeds) < 2:
        return None
    y = np.array(complete)
    residual = y - y.mean(axis=1, keepdims=True) - y.mean(axis=0, keepdims=True) + y.mean()
    df = (len(complete) - 1) * (len(seeds) - 1)
    return float(np.sum(residual**2)) / df, df


def _noise(kind: str, apart: list[float], residual: tuple[float, int] | None) -> Noise:
    n = len(apart)
    own = (float(np.var(apart, ddof=1)), n - 1) if n > 1 else None
    blocks = (2 * residual[0], residual[1]) if residual is not None else None
    if kind == "auto" and own is not None:
        own = (own[0] / c4(own[1]) ** 2, own[1])
    if kind == "own" or blocks is None:
        chosen, source = own, "sd of the arm's own pairs"
    elif kind == "pooled" or own is None or blocks[0] >= own[0]:
        chosen, source = blocks, "residual of arm x seed blocks"
    else:
        chosen, source = own, "sd of the arm's own pairs"
    if chosen is None:
        return Noise(None, None, source, "one pair: no noise floor")
    value, df = chosen
    if value <= 0:
        return Noise(None, 0.0, source, "no spread between pairs: no test is possible")
    reason = (
        f"{n} pairs cannot show their noise; give {FEWEST_BASELINE}" if kind == "auto" and n < FEWEST_BASELINE else None
    )
    return Noise(Variance(value / n, df, 0.5), math.sqrt(value / 2), source, reason)


def _by_seed(arm: Arm) -> dict[int, float]:
    return {seed: value for seeds in arm.values() for seed, value in seeds.items()}


def _correlation(ours: list[float], theirs: list[float]) -> float | None:
    if len(ours) < 3 or np.ptp(ours) == 0 or np.ptp(theirs) == 0:
        return None
    return float(np.corrcoef(ours, theirs)[0, 1])
