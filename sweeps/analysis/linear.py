"""Linear contrasts of arm means within one column: an arm against the mean of several, and the like.

The noise is that of `nested`, by the rule `auto` of `sigma`: seeds within searches, searches within arms, pooled over
the arms of the contrast's column, and an arm's own where that is larger; a single run counts as `sigma.NOISE_RATIO`
times as noisy. Means of different arms are taken as independent, which is conservative where equal seeds share their
data order and the weights sum to 0.

The arm that is asked about is another in every column, and with two or three searches it shows next to nothing of how
far they lie apart. Its search variance is therefore taken to be at least `SEARCH_RATIO` squared times the pooled one:
were the arms that are asked about noisier than the rest, a family of eight columns would else err in one table of four
(docs/statistics.md).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sweeps.analysis import nested, sigma, student
from sweeps.analysis.corrections import adjust
from sweeps.analysis.nested import Arm, Components, Estimate
from sweeps.analysis.results import Result, by_search, is_planned, without_value

SEARCH_RATIO = 2.25
"""How much further apart than those of its column the searches of the arm that is asked about are taken to lie."""


@dataclass(frozen=True)
class Linear:
    """One contrast.

    Attributes:
        name, column: what it asks, and where.
        value: sum of weight x mean, in the metric's unit; None with a reason.
        low, high: Student t interval at 1 - alpha.
        standard_error, df: of ``value``.
        p: two-sided, None where it was not tested.
        p_adjusted: after Holm over the family it was closed with.
        n: runs behind the arm with weight 1.
        verdict: "more", "less", "undecided" or "not run".
        reason: why there is no value, or no test.
    """

    name: str
    column: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    standard_error: float | None = None
    df: float | None = None
    p: float | None = None
    p_adjusted: float | None = None
    n: int = 0
    verdict: str = "undecided"
    reason: str | None = None

    @property
    def decided(self) -> bool:
        return self.verdict in ("more", "less")


def contrast(
    name: str, column: str, weights: Mapping[str, float], results: Sequence[Result], alpha: float = 0.05
) -> Linear:
    """One contrast before correction.

    Args:
        name: what it asks.
        column: the task; only results of it are read.
        weights: arm -> weight; the arm of weight 1 is the one that is asked about.
        results: diverged runs already at chance.
        alpha: one minus the coverage of the interval.
    """
    here = [r for r in results if r.task == column]
    found = {arm: by_search(r for r in here if r.arm == arm) for arm in weights}
    asked = next((arm for arm, weight in weights.items() if weight == 1), next(iter(weights)))
    made = Linear(name, column, n=nested.runs(found[asked]))
    lacking = [arm for arm, values in found.items() if not values]
    if lacking:
        why = without_value(r for r in here if r.arm == lacking[0]) or "not run"
        return replace(made, verdict="not run", reason=f"{lacking[0]}: {why}")
    value = math.fsum(weight * nested.mean(found[arm]) for arm, weight in weights.items())
    made = replace(made, value=value)
    everyone = {arm: by_search(r for r in here if r.arm == arm) for arm in dict.fromkeys(r.arm for r in here)}
    variance = _variance(weights, asked, found, {arm: values for arm, values in everyone.items() if values})
    if variance is None:
        return replace(made, reason="no noise floor: one seed or one search an arm")
    if variance.value <= 0:
        return replace(made, reason="no spread between runs: no interval")
    error = math.sqrt(variance.value)
    half = error * student.critical(alpha / 2, variance.df)
    made = replace(made, low=value - half, high=value + half, standard_error=error, df=variance.df)
    missing = without_value(r for r in here if r.arm in weights and is_planned(r))
    if missing:
        return replace(made, reason=f"runs without a value: {missing}")
    return replace(made, p=student.two_sided_p(value / error, variance.df))


def closed(family: Sequence[Linear], alpha: float = 0.05) -> list[Linear]:
    """Holm over a family, every member counted; the interval stays the contrast's own."""
    adjusted = adjust([c.p for c in family], "holm")
    made = []
    for c, p in zip(family, adjusted, strict=True):
        if p is None or c.value is None:
            made.append(c)
            continue
        verdict = "undecided" if p >= alpha else "more" if c.value > 0 else "less"
        made.append(replace(c, p_adjusted=p, verdict=verdict))
    return made


def _variance(
    weights: Mapping[str, float], asked: str, found: Mapping[str, Arm], everyone: Mapping[str, Arm]
) -> nested.Variance | None:
    """Sum of weight^2 x variance of each mean; Satterthwaite over the distinct mean squares."""
    parts: list[tuple[float, Estimate]] = []
    pooled = nested.components(list(everyone.values()))
    for arm, weight in weights.items():
        values = found[arm]
        seed, search = _mean_squares(arm, values, everyone, pooled)
        if seed is None:
            return None
        n, part = nested.runs(values), 0.0
        if nested.is_searched(values):
            if search is None:
                return None
            sizes = [len(seeds) for seeds in values.values() if seeds]
            part = sum((size / n) ** 2 for size in sizes) / pooled.per_search if pooled.per_search else 1 / n
            ratio = SEARCH_RATIO if arm == asked else 1.0
            floor = max(seed.mean_square, ratio**2 * (pooled.search_mean_square or 0.0))
            # A multiple of the pooled estimate stays that estimate, so that its degrees of freedom count once.
            times = max(1.0, floor / search.mean_square) if search.mean_square > 0 else 1.0
            floored = search if search.mean_square > 0 else replace(search, mean_square=floor)
            parts.append((weight**2 * part * times, floored))
        single = sigma.NOISE_RATIO**2 if n == 1 else 1.0
        parts.append((weight**2 * single * max(0.0, 1 / n - part), seed))
    return nested.satterthwaite(parts)


def _mean_squares(
    arm: str, values: Arm, everyone: Mapping[str, Arm], pooled: Components
) -> tuple[Estimate | None, Estimate | None]:
    """Of seeds and of searches: the pooled ones, or the arm's own by `sigma.larger_own`."""
    mine = nested.components([values])
    rest = nested.components([other for name, other in everyone.items() if name != arm])
    own = sigma.larger_own(mine, pooled, rest)
    chosen: list[Estimate | None] = []
    for which in ("seed", "search"):
        square = None if own is None else getattr(own, f"{which}_mean_square")
        if square is not None:
            chosen.append(Estimate(f"{which} of {arm}", square, getattr(mine, f"{which}_df")))
            continue
        square, df = getattr(pooled, f"{which}_mean_square"), getattr(pooled, f"{which}_df")
        chosen.append(None if square is None else Estimate(which, square, df))
    return chosen[0], chosen[1]
