"""The noise floor of one task at one scale, and what it allows to be seen."""

from collections.abc import Mapping
from dataclasses import dataclass

from sweeps.analysis import nested
from sweeps.analysis.contrasts import bartlett_p
from sweeps.analysis.default_power import Plan, detectable_by_default
from sweeps.analysis.nested import Arm
from sweeps.analysis.noise_floor import Spread, spread
from sweeps.analysis.options import Options
from sweeps.analysis.power import detectable
from sweeps.analysis.sigma import FEWEST_BASELINE


@dataclass(frozen=True)
class Floor:
    """How far equal runs lie apart; lengths in the metric's unit.

    Attributes:
        task, scale: where.
        baseline: the baseline's mean over ``n`` runs.
        own: the baseline's own spread; None for a single run.
        pooled: spread pooled over all arms; None where no arm has a replicate.
        search_sd: sd between searches beyond seed noise; None without two searches of an arm.
        detectable: smallest effect seen with 80 % power at these seeds, family-wise; None where that is not known.
        detectable_by: words for the rule it is of.
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
    detectable_by: str
    bartlett_p: float | None


def noise_floor(
    task: str,
    scale: str | None,
    arms: Mapping[str, Arm],
    options: Options,
    contrasts: int,
    groups: int = 1,
) -> Floor:
    """Summarise a group.

    Args:
        task, scale: where.
        arms: values of every arm, the baseline's among them.
        options: how arms are compared.
        contrasts: arms that are compared here, whether or not they have a value.
        groups: tasks and scales in the family.
    """
    baseline = options.baseline
    base, all_arms = arms[baseline], nested.components(list(arms.values()))
    mine = nested.components([base])
    pooled = _spread(all_arms)
    smallest = min((nested.runs(a) for name, a in arms.items() if name != baseline), default=0)
    seen, how = None, ""
    if pooled is not None and pooled.sd > 0 and smallest:
        others = pooled.df - mine.seed_df - (smallest - 1)
        plan = Plan(smallest, nested.runs(base), contrasts, options.level, groups, others_df=max(0.0, others),
                    correction=options.correction)  # fmt: skip
        searched = any(nested.is_searched(arm) for arm in arms.values())
        if options.sigma != "auto" or options.paired or options.directional or searched:
            seen = detectable(pooled.sd, smallest, plan.n_baseline, pooled.df, options.level / contrasts / groups)
            how = "were sigma pooled" + (" and searches alike" if searched else "")
        elif plan.n_baseline >= FEWEST_BASELINE:
            seen, how = detectable_by_default(plan, pooled.sd), "by the rule that decides"
    return Floor(
        task=task,
        scale=scale,
        baseline=nested.mean(base),
        n=nested.runs(base),
        own=_spread(mine),
        pooled=pooled,
        search_sd=all_arms.search_sd,
        detectable=seen,
        detectable_by=how,
        bartlett_p=bartlett_p([list(seeds.values()) for arm in arms.values() for seeds in arm.values()]),
    )


def _spread(found: nested.Components) -> Spread | None:
    return None if found.seed_mean_square is None else spread(found.seed_mean_square, found.seed_df)
