"""The noise floor of one task at one scale, and what it allows to be seen."""

from collections.abc import Mapping
from dataclasses import dataclass

from sweeps.analysis import nested
from sweeps.analysis.contrasts import bartlett_p
from sweeps.analysis.nested import Arm
from sweeps.analysis.noise_floor import Spread, spread
from sweeps.analysis.power import detectable


@dataclass(frozen=True)
class Floor:
    """How far equal runs lie apart; lengths in the metric's unit.

    Attributes:
        task, scale: where.
        baseline: the baseline's mean over ``n`` runs.
        own: the baseline's own spread; None for a single run.
        pooled: spread pooled over all arms; None where no arm has a replicate.
        search_sd: sd between searches beyond seed noise; None without two searches of an arm.
        detectable: smallest effect seen with 80 % power at these seeds, family-wise, sigma pooled.
        bartlett_p: of equal variances; small means that pooling is wrong, large means little at few seeds.
    """

    task: str
    scale: str | None
    baseline: float
    n: int
    own: Spread | None
    pooled: Spread | None
    search_sd: float | None
    detectable: float | None
    bartlett_p: float | None


def noise_floor(
    task: str, scale: str | None, baseline: str, arms: Mapping[str, Arm], contrasts: int, alpha: float
) -> Floor:
    """Summarise a group; ``contrasts`` is the size of the family."""
    base, all_arms = arms[baseline], nested.components(list(arms.values()))
    mine = nested.components([base])
    pooled = _spread(all_arms)
    smallest = min((nested.runs(a) for name, a in arms.items() if name != baseline), default=0)
    seen = None
    if pooled is not None and pooled.sd > 0 and smallest:
        seen = detectable(pooled.sd, smallest, nested.runs(base), pooled.df, alpha / contrasts)
    return Floor(
        task=task,
        scale=scale,
        baseline=nested.mean(base),
        n=nested.runs(base),
        own=_spread(mine),
        pooled=pooled,
        search_sd=all_arms.search_sd,
        detectable=seen,
        bartlett_p=bartlett_p([list(seeds.values()) for arm in arms.values() for seeds in arm.values()]),
    )


def _spread(found: nested.Components) -> Spread | None:
    return None if found.seed_mean_square is None else spread(found.seed_mean_square, found.seed_df)
