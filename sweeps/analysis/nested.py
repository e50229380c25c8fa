"""Two nested sources of noise: seeds within a search, searches within an arm.

The model of one column (task), for arm r, search s, seed k::

    y[r, s, k] = mu[r] + S[r, s] + e[r, s, k]      S ~ (0, search variance), e ~ (0, seed variance)

An arm that was not searched for (the baseline, a fixed activation) has no S. Both variances are pooled over
the arms of the column; textbook expected mean squares (Searle, Casella & McCulloch, *Variance Components*,
chapter 3) with Satterthwaite's degrees of freedom for their combination.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Arm = Mapping[int | None, Mapping[int, float]]
"""Values of one arm: search seed -> seed -> value; the only key is None for an arm that was not searched."""


@dataclass(frozen=True)
class Components:
    """Pooled mean squares of one column, in squared units of the metric.

    Attributes:
        seed_mean_square: within (arm, search), or None without a replicate.
        seed_df: its degrees of freedom.
        search_mean_square: between the searches of an arm, or None without two searches of any arm.
        search_df: its degrees of freedom.
        per_search: effective number of seeds a search (n0 of the expected mean square); 0 without searches.
    """

    seed_mean_square: float | None
    seed_df: float
    search_mean_square: float | None
    search_df: int
    per_search: float

    @property
    def seed_sd(self) -> float | None:
        return None if self.seed_mean_square is None else math.sqrt(self.seed_mean_square)

    @property
    def search_sd(self) -> float | None:
        """Estimated sd of S; 0 where the searches differ no more than seeds do."""
        if self.search_mean_square is None or self.seed_mean_square is None:
            return None
        return math.sqrt(max(0.0, (self.search_mean_square - self.seed_mean_square) / self.per_search))


@dataclass(frozen=True)
class Variance:
    """Variance of a difference of means, with Satterthwaite's degrees of freedom.

    Attributes:
        value: of the difference.
        df: degrees of freedom; inf where sigma is known.
        baseline_share: share of ``value`` that is the baseline's mean, common to all contrasts.
    """

    value: float
    df: float
    baseline_share: float = 0.5


def components(arms: Sequence[Arm]) -> Components:
    """Pool the within-search and between-search mean squares over arms."""
    seed_ss = search_ss = spread = 0.0
    seed_df = search_df = 0
    for arm in arms:
        groups = [list(seeds.values()) for seeds in arm.values() if seeds]
        means = [math.fsum(g) / len(g) for g in groups]
        seed_ss += math.fsum((v - m) ** 2 for g, m in zip(groups, means, strict=True) for v in g)
        seed_df += sum(len(g) - 1 for g in groups)
        if len(groups) > 1:
            total = sum(map(len, groups))
            grand = math.fsum(m * len(g) for g, m in zip(groups, means, strict=True)) / total
            search_ss += math.fsum(len(g) * (m - grand) ** 2 for g, m in zip(groups, means, strict=True))
            search_df += len(groups) - 1
            spread += total - sum(len(g) ** 2 for g in groups) / total
    return Components(
        seed_mean_square=seed_ss / seed_df if seed_df else None,
        seed_df=seed_df,
        search_mean_square=search_ss / search_df if search_df else None,
        search_df=search_df,
        per_search=spread / search_df if search_df else 0.0,
    )


def mean(arm: Arm) -> float:
    """Mean over all runs of an arm."""
    values = [v for seeds in arm.values() for v in seeds.values()]
    return math.fsum(values) / len(values)


def runs(arm: Arm) -> int:
    return sum(len(seeds) for seeds in arm.values())


def seed_factor(arm: Arm, baseline: Arm) -> float:
    """What multiplies the seed variance in Var(mean of arm - mean of baseline), at worst.

    Seeds that share a data order share part of their noise; how large a part is not known. With w the share
    of an arm's runs on each seed, a shared part enters with sum (w_arm - w_baseline)^2 and a private part
    with 1/n_arm + 1/n_baseline. The larger of the two bounds every mixture: equal seeds on both sides are
    tested as if they were independent (a positive correlation then only makes the test conservative), and
    seeds reused over the searches of an arm are never counted as if they were fresh.
    """
    apart = 1 / runs(arm) + 1 / runs(baseline)
    ours, theirs = _weights(arm), _weights(baseline)
    seeds = ours.keys() | theirs.keys()
    return max(apart, sum((ours.get(s, 0.0) - theirs.get(s, 0.0)) ** 2 for s in seeds))


def difference_variance(
    arm: Arm,
    baseline: Arm,
    pooled: Components,
    own: Components | None = None,
    own_baseline: Components | None = None,
    inflation: float = 1.0,
) -> Variance | None:
    """Variance of mean(arm) - mean(baseline); None where the data cannot give it.

    A searched arm carries the between-search mean square, never taken below the seed mean square (a negative
    estimate of the search variance is noise, not evidence).

    Args:
        arm: values of the arm.
        baseline: values of the baseline.
        pooled: mean squares of the column.
        own: mean squares that replace the pooled ones on the arm's side (those that are not None).
        own_baseline: the same on the baseline's side; its seed mean square only.
        inflation: factor on the arm's seed variance, for an arm whose own noise cannot be seen.
    """
    if pooled.seed_mean_square is None:
        return None
    shared = Estimate("pooled seeds", pooled.seed_mean_square, pooled.seed_df)
    arm_seeds, base_seeds = _own_seeds("arm", own) or shared, _own_seeds("baseline", own_baseline) or shared
    factor, base_part, search_part = seed_factor(arm, baseline), 1 / runs(baseline), 0.0
    parts = [(base_part, base_seeds)]
    if is_searched(arm):
        source = own if own is not None and own.search_mean_square is not None else pooled
        if source.search_mean_square is None:
            return None
        sizes = [len(seeds) for seeds in arm.values() if seeds]
        search_part = sum((n / sum(sizes)) ** 2 for n in sizes) / source.per_search
        square = max(source.search_mean_square, arm_seeds.mean_square)
        parts.append((search_part, Estimate("searches", square, source.search_df)))
    parts.append((inflation * max(0.0, factor - base_part - search_part), arm_seeds))
    found = satterthwaite(parts)
    share = base_part * base_seeds.mean_square / found.value if found.value > 0 else 0.5
    return Variance(found.value, found.df, min(1.0, share))


def is_searched(arm: Arm) -> bool:
    return any(search is not None for search in arm)


@dataclass(frozen=True)
class Estimate:
    """A mean square with its degrees of freedom; equal names mean one and the same estimate."""

    name: str
    mean_square: float
    df: float


def _own_seeds(name: str, own: Components | None) -> Estimate | None:
    if own is None or own.seed_mean_square is None:
        return None
    return Estimate(name, own.seed_mean_square, own.seed_df)


def satterthwaite(parts: Sequence[tuple[float, Estimate]]) -> Variance:
    """Sum of coefficient x mean square; df = (sum v)^2 / sum(v^2 / df) over the distinct estimates.

    Multiples of one estimate are added first: counted apart they would claim too many degrees of freedom.
    """
    merged: dict[Estimate, float] = {}
    for coefficient, estimate in parts:
        merged[estimate] = merged.get(estimate, 0.0) + coefficient * estimate.mean_square
    total = math.fsum(merged.values())
    weight = math.fsum(value**2 / estimate.df for estimate, value in merged.items() if value > 0)
    return Variance(total, total**2 / weight if weight > 0 else math.inf)


def _weights(arm: Arm) -> dict[int, float]:
    total, weights = runs(arm), {}
    for seeds in arm.values():
        for seed in seeds:
            weights[seed] = weights.get(seed, 0.0) + 1 / total
    return weights
