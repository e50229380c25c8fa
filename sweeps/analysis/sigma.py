"""Which noise a difference is measured against.

``auto``, the default, gives each side the larger of its own variance and the variance pooled over the arms,
its own less the bias of a small sample (s / c4), with the degrees of freedom of whichever was taken. A noisy
baseline or a noisy arm then pays for itself, and a calm side borrows the pooled estimate. An arm of a single
run shows no noise of its own: it is taken to be up to ``noise_ratio`` times as noisy as the pool. Searches,
of which an arm rarely has more than three, are pooled unless an F test says the arm's differ more. The price
is power where all variances are equal; ``pooled`` is the classical choice there, and docs/statistics.md has
what either costs when its assumption fails.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from sweeps.analysis import nested, student
from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.nested import Arm, Components, Variance, components, difference_variance
from sweeps.analysis.noise_floor import c4

RULES = ("auto", "pooled", "own", "baseline", "known:X")
FEWEST_BASELINE = 3
"""Baseline seeds below which ``auto`` decides nothing: two runs cannot show that the yardstick is noisy."""

NOISE_RATIO = 4.0
"""How much noisier than the pool a run may be that shows no noise of its own. At 3, a lone arm that is three times as
noisy and heavy-tailed (t3) is called different in 6 to 8 % of null tables; at 4 in under 5 % (docs/statistics.md)."""

NOISIER = 0.2
"""Level of the F test by which an arm's searches count as more variable than its neighbours'."""


@dataclass(frozen=True)
class Noise:
    """Variance of one difference, or why there is none.

    Attributes:
        variance: of the difference of means; None with a reason.
        sigma: sd of one run of the arm that it rests on (seed noise only), in the metric's unit.
        source: words for where sigma came from.
        reason: why there is no variance, or why it must not decide.
    """

    variance: Variance | None
    sigma: float | None
    source: str
    reason: str | None = None


def parse(rule: str) -> tuple[str, float | None]:
    """``("known", X)`` or the rule's name and None.

    Raises:
        AnalysisError: an unknown rule, or an X that is no positive number.
    """
    if rule in ("auto", "pooled", "own", "baseline"):
        return rule, None
    if rule.startswith("known:"):
        try:
            value = float(rule.removeprefix("known:"))
        except ValueError:
            value = math.nan
        if value > 0 and math.isfinite(value):
            return "known", value
        raise AnalysisError(f"sigma {rule!r}: X must be a positive number, the sd of one run, as in known:0.002")
    raise AnalysisError(f"sigma {rule!r} is unknown; choose from {', '.join(RULES)}")


def noise(
    rule: str,
    name: str,
    baseline: str,
    arms: Mapping[str, Arm],
    noise_ratio: float = NOISE_RATIO,
    *,
    cautious: bool = False,
) -> Noise:
    """The noise of one arm's difference from the baseline under a rule.

    Args:
        rule: one of `RULES`.
        name: the arm.
        baseline: the baseline.
        arms: all arms of the group, the baseline among them, with values.
        noise_ratio: how much noisier than the pool ``auto`` allows a single run to be.
        cautious: let the baseline's side of ``auto`` never have more degrees of freedom than the baseline, for
            tests far out in the tail.
    """
    kind, known = parse(rule)
    arm, base = arms[name], arms[baseline]
    everything = components(list(arms.values()))
    if kind == "known":
        pool = replace(everything, seed_mean_square=(known or 0.0) ** 2, seed_df=math.inf)
        return _found(arm, base, pool, None, None, f"known, {known:g}")
    if kind == "pooled":
        return _found(arm, base, everything, None, None, f"pooled over {len(arms)} arms")
    mine, theirs = components([arm]), components([base])
    if kind == "baseline":
        pool = replace(everything, seed_mean_square=theirs.seed_mean_square, seed_df=theirs.seed_df)
        return _found(arm, base, pool, None, None, "the baseline's")
    if kind == "own":
        for who, found in ((name, mine), (baseline, theirs)):
            if found.seed_mean_square is None:
                return Noise(None, None, "own", f"one seed of {who} has no spread of its own")
        return _found(arm, base, everything, mine, theirs, "own (Welch)")
    return _auto(name, baseline, arms, noise_ratio, cautious)


def _auto(name: str, baseline: str, arms: Mapping[str, Arm], noise_ratio: float, cautious: bool) -> Noise:
    arm, base = arms[name], arms[baseline]
    pool = components([values for other, values in arms.items() if other != baseline])
    from_baseline = pool.seed_mean_square is None
    if from_baseline:
        alone = components([base])
        if alone.seed_mean_square is not None:
            unbiased = alone.seed_mean_square / c4(alone.seed_df) ** 2
            pool = replace(pool, seed_mean_square=unbiased, seed_df=alone.seed_df)
    mine, theirs = components([arm]), components([base])
    others = components([values for other, values in arms.items() if other not in (name, baseline)])
    own, own_base = larger_own(mine, pool, others), larger_own(theirs, pool)
    if cautious and own_base is None and theirs.seed_mean_square is not None:
        own_base = replace(theirs, seed_mean_square=pool.seed_mean_square)
    if from_baseline:
        own_base = None  # one estimate on both sides, not two independent ones
    single = nested.runs(arm) == 1
    source = "own" if own is not None else "the baseline's" if from_baseline else "pooled over the arms"
    if single:
        source = f"{noise_ratio:g} x {source}, for a single run"
    if own_base is not None:
        source += "; the baseline's side: its own"
    found = _found(arm, base, pool, own, own_base, source, noise_ratio**2 if single else 1.0)
    if nested.runs(base) < FEWEST_BASELINE and found.reason is None:
        few = f"{nested.runs(base)} baseline seed{'s' if nested.runs(base) > 1 else ''} cannot show its noise"
        return replace(found, reason=f"{few}; give it {FEWEST_BASELINE}")
    return found


def larger_own(mine: Components, pool: Components, others: Components | None = None) -> Components | None:
    """An arm's own mean squares, freed of their small-sample bias, where they are to replace the pool's.

    The seed mean square where it exceeds the pool's; the search mean square where it exceeds that of the
    ``others`` by an F test. None where neither does.
    """
    seeds = searches = None
    if mine.seed_mean_square is not None and pool.seed_mean_square is not None:
        unbiased = mine.seed_mean_square / c4(mine.seed_df) ** 2
        seeds = unbiased if unbiased > pool.seed_mean_square else None
    if others is not None and mine.search_mean_square and others.search_mean_square:
        ratio = mine.search_mean_square / others.search_mean_square
        if student.f_upper_p(ratio, mine.search_df, others.search_df) < NOISIER:
            searches = mine.search_mean_square / c4(mine.search_df) ** 2
    if seeds is None and searches is None:
        return None
    return replace(mine, seed_mean_square=seeds, search_mean_square=searches)


def _found(
    arm: Arm,
    base: Arm,
    pool: Components,
    own: Components | None,
    own_base: Components | None,
    source: str,
    inflation: float = 1.0,
) -> Noise:
    if pool.seed_mean_square is None:
        return Noise(None, None, source, "one seed an arm: no noise floor")
    variance = difference_variance(arm, base, pool, own, own_base, inflation)
    if variance is None:
        return Noise(None, None, source, "one search: search variance unknown")
    used = own.seed_mean_square if own is not None and own.seed_mean_square is not None else pool.seed_mean_square
    sigma = math.sqrt(used * inflation)
    if variance.value <= 0:
        return Noise(None, sigma, source, "no spread between seeds: no test is possible")
    return Noise(variance, sigma, source)
