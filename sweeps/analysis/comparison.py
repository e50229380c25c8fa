"""The engine behind `orchestrate compare` and the reports: results in, a verdict per arm out."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sweeps.analysis import contrasts, nested, sigma
from sweeps.analysis.blocks import paired
from sweeps.analysis.equivalence import tost_p
from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.family import Measured, correct
from sweeps.analysis.floor import Floor, noise_floor
from sweeps.analysis.nested import Arm
from sweeps.analysis.options import Options
from sweeps.analysis.presence import absent_seeds, with_absent
from sweeps.analysis.results import Result, at_chance, by_search, checked, is_final, is_planned, without_value
from sweeps.analysis.sigma import Noise
from sweeps.analysis.soundness import check_names, repeated_values
from sweeps.analysis.verdict import Verdict


@dataclass(frozen=True)
class Comparison:
    """All verdicts of one table.

    Attributes:
        options: what was asked for.
        level: family-wise level tested at (alpha, or what the look may spend).
        verdicts: by task, scale and descending difference; arms without a number last.
        floors: noise floor of each task and scale.
        exploratory: why this is no confirmatory result, or None.
    """

    options: Options
    level: float
    verdicts: tuple[Verdict, ...]
    floors: tuple[Floor, ...]
    exploratory: str | None


@dataclass(frozen=True)
class _Group:
    """The results of one task at one scale."""

    task: str
    scale: str | None
    results: tuple[Result, ...]
    arms: Mapping[str, Arm]

    def of(self, arm: str) -> list[Result]:
        return [r for r in self.results if r.arm == arm]


def compare(results: Sequence[Result], options: Options) -> Comparison:
    """Compare every arm with the baseline, per task and scale, and correct over all of them.

    An arm with a planned run that has no value, or whose baseline has one, shows its number and is not
    decided, unless the options name the look this was planned to be.

    Raises:
        AnalysisError: an absent baseline, no other arm, duplicates, one arm under two names.
    """
    clean = [at_chance(r, options.chance.get(r.task)) for r in with_absent(checked(results))]
    names = sorted({r.arm for r in clean})
    if options.baseline not in names:
        raise AnalysisError(
            f"baseline {options.baseline!r} is no arm of these results; their arms are {', '.join(names) or 'none'}"
        )
    if len(names) == 1:
        raise AnalysisError(f"there is no arm besides the baseline {options.baseline!r}: nothing to compare")
    check_names(clean)
    level, measured, floors = options.level, [], []
    groups = _groups(clean)
    for group in groups:
        arms = sorted({r.arm for r in group.results} - {options.baseline})
        measured.append([_measure(name, group, options, level) for name in arms])
        if options.baseline in group.arms:
            floors.append(noise_floor(group.task, group.scale, group.arms, options, max(1, len(arms)), len(groups)))
    verdicts = sorted(correct(measured, options, level), key=_order)
    missing = without_value(r for r in clean if is_planned(r) and not is_final(r))
    unfinished = f"runs without a value: {missing}" if missing and options.look is None else None
    return Comparison(options, level, tuple(verdicts), tuple(floors), unfinished)


def _groups(results: Sequence[Result]) -> list[_Group]:
    found = []
    for task, scale in sorted({(r.task, r.scale) for r in results}, key=lambda g: (g[0], g[1] or "")):
        members = tuple(r for r in results if (r.task, r.scale) == (task, scale))
        if any(r.item is not None for r in members):
            raise AnalysisError(f"task {task!r} holds single items; aggregate them to one value per run")
        arms = {a: by_search(r for r in members if r.arm == a) for a in sorted({r.arm for r in members})}
        found.append(_Group(task, scale, members, {a: values for a, values in arms.items() if values}))
    return found


def _measure(name: str, group: _Group, options: Options, level: float) -> Measured:
    """One arm before correction: number, interval and p, or a reason."""
    mine = group.of(name)
    verdict, lost = _started(name, group, options.baseline), [r for r in mine if r.diverged]
    if any(r.value is None for r in lost):
        return Measured(replace(verdict, verdict="diverged", reason=_lost(lost, len(mine))))
    if name not in group.arms:
        lost_all = any((r.reason or "").startswith("non-finite") for r in mine)
        return Measured(replace(verdict, verdict="diverged" if lost_all else "not run", reason=without_value(mine)))
    if options.baseline not in group.arms:
        why = without_value(group.of(options.baseline)) or "not run"
        return Measured(replace(verdict, reason=f"the baseline has no value here: {why}"))
    arm, base = group.arms[name], group.arms[options.baseline]
    verdict = _described(verdict, arm, base, options.margin)
    verdict = replace(verdict, notes=(*verdict.notes, *_remarks(name, group, lost, options)))
    if options.paired:
        pairs = paired(options.sigma, name, options.baseline, group.arms)
        if pairs is None:
            return Measured(replace(verdict, reason="no seed in common with the baseline to pair by"))
        difference, noise = pairs.difference, pairs.noise
        verdict = replace(
            verdict, n=pairs.pairs, n_baseline=pairs.pairs, pair_correlation=pairs.correlation, test="paired"
        )
        if pairs.dropped:
            seeds = ", ".join(map(str, pairs.dropped))
            verdict = replace(verdict, notes=(*verdict.notes, f"seeds without a partner left out: {seeds}"))
    else:
        difference = nested.mean(arm) - nested.mean(base)
        noise = sigma.noise(options.sigma, name, options.baseline, group.arms, options.noise_ratio)
    verdict = replace(verdict, difference=difference, sigma=noise.sigma, sigma_source=noise.source)
    return _tested(verdict, noise, _gaps(name, group, options), options.margin, level)


def _tested(verdict: Verdict, noise: Noise, gaps: str | None, margin: float | None, level: float) -> Measured:
    """The t test of a difference; a reason not to decide leaves the numbers and takes the p-value."""
    reason = noise.reason or gaps
    if noise.variance is None or verdict.difference is None:
        return Measured(replace(verdict, reason=reason))
    error, df = math.sqrt(noise.variance.value), noise.variance.df
    test = contrasts.from_error(verdict.test, verdict.difference, error, df, level)
    verdict = replace(
        verdict,
        standard_error=error,
        statistic=test.statistic,
        df=df,
        p=test.p,
        low=test.low,
        high=test.high,
        p_equivalence=None if margin is None else tost_p(verdict.difference, error, df, margin),
        reason=reason,
    )
    return Measured(verdict, math.sqrt(noise.variance.baseline_share))


def _started(name: str, group: _Group, baseline: str) -> Verdict:
    mine, arm = group.of(name), group.arms.get(name, {})
    return Verdict(
        arm=name,
        task=group.task,
        scale=group.scale,
        verdict="undecided",
        n=nested.runs(arm),
        n_baseline=nested.runs(group.arms.get(baseline, {})),
        searches=len(arm) if nested.is_searched(arm) else 0,
        mean=nested.mean(arm) if arm else None,
        sd=nested.components([arm]).seed_sd if arm else None,
        diverged=sum(r.diverged for r in mine),
    )


def _described(verdict: Verdict, arm: Arm, base: Arm, margin: float | None) -> Verdict:
    """Effect size and exact permutation of two plain arms, which no correction touches."""
    verdict = replace(verdict, margin=margin, test="unpaired")
    if verdict.searches:
        return replace(verdict, test="nested")
    ours, theirs = (list(side[None].values()) if None in side else [] for side in (arm, base))
    if min(len(ours), len(theirs)) < 2:
        return verdict
    try:
        exact = contrasts.permutation(ours, theirs)
        verdict = replace(verdict, permutation_p=exact.p, permutation_floor=exact.floor)
    except AnalysisError:  # too many to enumerate: the t test says the same
        pass
    spread = max(max(ours) - min(ours), max(theirs) - min(theirs))
    return replace(verdict, hedges_g=contrasts.hedges_g(ours, theirs)) if spread > 0 else verdict


def _gaps(name: str, group: _Group, options: Options) -> str | None:
    # A planned look excuses runs that are still to come, never those that ended without a value.
    parts = []
    for who, of in ((name, ""), (options.baseline, " of the baseline")):
        runs = (r for r in group.of(who) if is_planned(r) and (options.look is None or is_final(r)))
        if missing := without_value(runs):
            parts.append(f"runs{of} without a value: {missing}")
    return "; ".join(parts) or None


def _remarks(name: str, group: _Group, lost: Sequence[Result], options: Options) -> list[str]:
    """What happened to an arm's runs that its number does not show."""
    remarks = []
    if lost:
        remarks.append(f"{_lost(lost, len(group.of(name)))}, counted at chance")
    for who, of in ((name, ""), (options.baseline, " of the baseline")):
        if seeds := absent_seeds(who, options.baseline, group.results):
            remarks.append(f"no row{of} for seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}")
    if (copied := repeated_values(name, group.results)) is not None:
        remarks.append(copied)
    return remarks


def _lost(lost: Sequence[Result], started: int) -> str:
    reasons = ", ".join(sorted({r.reason.removeprefix("diverged").strip() for r in lost if r.reason}))
    return f"{len(lost)} of {started} seeds diverged" + (f": {reasons}" if reasons else "")


def _order(verdict: Verdict) -> tuple:
    return (
        verdict.task,
        verdict.scale or "",
        verdict.difference is None,
        -(verdict.difference or 0.0),
        verdict.arm,
    )
