"""The line a plan prints before a GPU-hour is spent: what its comparison will see, by the rule that decides it."""

from sweeps.analysis.default_power import Plan, detectable_by_default
from sweeps.analysis.options import Options
from sweeps.analysis.power import detectable
from sweeps.analysis.sigma import FEWEST_BASELINE, parse


def power_line(
    n_seeds: int,
    arms: int,
    sigma: float | None = None,
    options: Options | None = None,
    *,
    columns: int = 1,
    matrix: bool = False,
    searched: bool = False,
) -> str:
    """What n seeds an arm, the baseline included, see with 80 % power.

    Args:
        n_seeds: seeds per arm, the baseline included.
        arms: arms compared with the baseline in one column, without it.
        sigma: noise floor in the metric's unit, from a finished sweep; without it the effect is in sigmas.
        options: how arms will be compared; the default rule at 0.05 where absent.
        columns: tasks in the family.
        matrix: a transfer matrix decides, by its own rule, whose guard is the default rule in every column.
        searched: arms are nested in searches, whose differences come on top.
    """
    o = options or Options("baseline")
    if arms < 1:
        return "power: no arm to compare with the baseline"
    if n_seeds < 2:
        return "power: 1 seed an arm has no noise floor of its own; no effect can be decided (plan 3 or more seeds)"
    over = f"family-wise {o.alpha:g}" + (f" over {columns} columns" if columns > 1 else "")
    pooled = detectable(1.0, n_seeds, n_seeds, (arms + 1) * (n_seeds - 1), o.alpha / arms / columns)
    start = f"power: {n_seeds} seeds x {arms} arm{'s' if arms > 1 else ''} against the baseline"
    if not matrix and (o.sigma != "auto" or o.paired):
        effect, how = _planned(n_seeds, arms, columns, o, pooled)
        return f"{start} see effects from {_size(effect, sigma)} with 80 % power, {over}, {how}{_tail(searched)}"
    if n_seeds < FEWEST_BASELINE:
        return f"{start}: nothing is decided below {FEWEST_BASELINE} baseline seeds (plan {FEWEST_BASELINE} or more)"
    plan = Plan(n_seeds, n_seeds, arms, o.alpha, columns, correction="dunnett" if matrix else o.correction)
    rule = "the matrix and its guard" if matrix else "the default rule"
    less = f"; where all spreads are equal, sigma pooled would see {_bare(pooled, sigma)}"
    return (
        f"{start} see effects from {_size(detectable_by_default(plan), sigma)} with 80 % power, {over}, by {rule}"
        f"{less}{_tail(searched)}"
    )


def _planned(n: int, arms: int, columns: int, o: Options, pooled: float) -> tuple[float, str]:
    """Effect and words for a sigma that the plan names; Bonferroni stands for its correction."""
    kind, level = parse(o.sigma)[0], o.alpha / arms / columns
    dfs = {"own": 2 * (n - 1), "baseline": n - 1, "known": float("inf"), "auto": 2 * (n - 1)}
    effect = pooled if kind == "pooled" else detectable(1.0, n, n, dfs[kind], level)
    paired = ", seeds taken for unrelated though they will be paired" if o.paired else ""
    return effect, f"sigma {o.sigma}{paired}"


def _size(effect: float, sigma: float | None) -> str:
    known = "the noise floor is not known yet" if sigma is None else f"noise floor {sigma:.3g}"
    return f"{_bare(effect, sigma)} ({known})"


def _bare(effect: float, sigma: float | None) -> str:
    return f"{effect:.1f} seed sd" if sigma is None else f"{effect * sigma:.3g}"


def _tail(searched: bool) -> str:
    return "; how far searches lie apart comes on top" if searched else ""
