"""What stands beside the verdicts and decides none of them: drawn intervals, and one line an arm over its tasks."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from sweeps.analysis import student
from sweeps.analysis.combining import mean_correlation, stouffer
from sweeps.analysis.comparison import Comparison
from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.options import Options
from sweeps.analysis.resampling import Interval, hierarchical, over_seeds
from sweeps.analysis.results import Result, at_chance, checked
from sweeps.analysis.verdict import Verdict

DRAWS, FEWEST_DRAWS, MOST_WEIGHTS = 2000, 400, 8_000_000
"""Draws of an interval; with many items fewer, so that the table of draws x items stays below the last."""
FEWEST_DF = 2
"""Residual degrees of freedom below which a correlation between tasks is 1 or -1 by construction."""
ANTI_CONSERVATIVE = "anti-conservative where tasks move together (positive dependence: they share the run's luck)"

Key = tuple[int | None, int]
"""Search and seed of a run."""


@dataclass(frozen=True)
class Drawn:
    """A bootstrap interval of one verdict's difference, to be drawn in a figure.

    Attributes:
        interval: percentile interval at the level the verdict was tested at.
        levels: what was resampled: searches, seeds, items (or pairs of seeds).
    """

    interval: Interval
    levels: tuple[str, ...]


@dataclass(frozen=True)
class CombinedTasks:
    """An arm over all its tasks at one scale, by Stouffer's sum; no correction over arms.

    Attributes:
        arm, scale, tasks: what was combined; every task counts once.
        z, p: with the dependence paid for, positive is better, p two-sided; None where it is not known.
        correlation: mean pair correlation of the tasks over runs, as estimated; a negative one counts as 0.
        correlation_df: residual degrees of freedom it was estimated with.
        z_independent, p_independent: as if tasks were independent (`ANTI_CONSERVATIVE`).
        reason: why a number is missing.
    """

    arm: str
    scale: str | None
    tasks: tuple[str, ...]
    z: float | None = None
    p: float | None = None
    correlation: float | None = None
    correlation_df: int | None = None
    z_independent: float | None = None
    p_independent: float | None = None
    reason: str | None = None


def drawn_intervals(found: Comparison, results: Sequence[Result]) -> list[Drawn | None]:
    """An interval for each verdict, in their order; None where a side has fewer than two runs (or pairs).

    Unsearched arms without items are enumerated exactly where that is small; the rest is drawn, with one fixed
    seed. Searches weigh the same each, so with unequal ones it lies about another mean than the verdict's.

    Args:
        found: the verdicts.
        results: the runs they are of, item by item where there are items.
    """
    runs: dict[tuple, dict[Key, dict[str | None, float]]] = {}
    for r in _counted(results, found.options):
        if r.value is not None:
            runs.setdefault((r.arm, r.task, r.scale), {}).setdefault((r.search, r.seed), {})[r.item] = r.value
    intervals: list[Drawn | None] = []
    for v in found.verdicts:
        ours, theirs = (runs.get((arm, v.task, v.scale), {}) for arm in (v.arm, found.options.baseline))
        intervals.append(_interval(ours, theirs, found.options.paired, 1 - found.level))
    return intervals


def combined_tasks(found: Comparison, results: Sequence[Result], *, numbered: bool = False) -> list[CombinedTasks]:
    """A row for each arm and scale with several tasks, in the order of the verdicts.

    The z of a task is the normal quantile of its t test's p, before any correction. The correlation is that of
    the runs' values less their arm's mean, over all runs (same arm, search and seed) that have all the tasks;
    of the differences of the pairs, where the comparison is paired.

    Args:
        found: the verdicts.
        results: one a run and task, items averaged.
        numbered: their seeds are only the order of the rows, and do not say which values are of one run.
    """
    groups: dict[tuple[str, str | None], list[Verdict]] = {}
    for v in found.verdicts:
        groups.setdefault((v.arm, v.scale), []).append(v)
    counted = _counted(results, found.options)
    known: dict[tuple, tuple[float, int] | str] = {}
    unlinked = "the table has no seeds: which values are of one run, and so how tasks move together, is not known"
    rows = []
    for (arm, scale), verdicts in groups.items():
        tasks = tuple(v.task for v in verdicts)
        if len(tasks) < 2:
            continue
        lacking = next((v for v in verdicts if v.p is None or v.reason is not None), None)
        if lacking is not None:
            why = f"{lacking.task}: {lacking.reason or 'no test'}"
            rows.append(CombinedTasks(arm, scale, tasks, reason=why))
            continue
        if (tasks, scale) not in known:
            known[tasks, scale] = unlinked if numbered else _correlation(counted, tasks, scale, found.options)
        rows.append(_row(arm, scale, verdicts, known[tasks, scale], found.options.lower_is_better))
    return rows


def normal_z(statistic: float, df: float) -> float:
    """The normal quantile with the same tail as a t; capped where the tail is below the smallest double."""
    if math.isinf(df) or statistic == 0:
        return statistic
    tail = max(student.upper_p(abs(statistic), df), math.ulp(0.0))
    return math.copysign(-float(special.ndtri(tail)), statistic)


def _counted(results: Sequence[Result], options: Options) -> list[Result]:
    return [at_chance(r, options.chance.get(r.task)) for r in checked(results)]


def _row(
    arm: str, scale: str | None, verdicts: Sequence[Verdict], known: tuple[float, int] | str, lower: bool
) -> CombinedTasks:
    sign = -1 if lower else 1
    z = [sign * normal_z(v.statistic, v.df) for v in verdicts if v.statistic is not None and v.df is not None]
    tasks, alone = tuple(v.task for v in verdicts), stouffer(z)
    p_alone = student.two_sided_p(alone.z, math.inf)
    if isinstance(known, str):
        return CombinedTasks(arm, scale, tasks, z_independent=alone.z, p_independent=p_alone, reason=known)
    correlation, df = known
    paid = stouffer(z, min(1.0, max(0.0, correlation)))
    p = student.two_sided_p(paid.z, math.inf)
    return CombinedTasks(arm, scale, tasks, paid.z, p, correlation, df, alone.z, p_alone)


def _correlation(
    results: Sequence[Result], tasks: Sequence[str], scale: str | None, options: Options
) -> tuple[float, int] | str:
    """Mean pair correlation and its df, or why there is none."""
    arms: dict[str, dict[Key, dict[str, float]]] = {}
    for r in results:
        if r.scale == scale and r.task in tasks and r.value is not None:
            arms.setdefault(r.arm, {}).setdefault((r.search, r.seed), {})[r.task] = r.value
    full = {
        arm: {key: np.array([run[t] for t in tasks]) for key, run in runs.items() if len(run) == len(tasks)}
        for arm, runs in arms.items()
    }
    if options.paired:
        base = full.pop(options.baseline, {})
        full = {arm: {k: run - base[k] for k, run in runs.items() if k in base} for arm, runs in full.items()}
    blocks = [np.array(list(runs.values())) for runs in full.values() if len(runs) > 1]
    df = sum(len(b) - 1 for b in blocks)
    if df < FEWEST_DF:
        return f"{df} residual degrees of freedom over runs with all {len(tasks)} tasks cannot show how tasks move"
    residuals = np.concatenate([b - b.mean(axis=0) for b in blocks])
    flat = [t for t, spread in zip(tasks, np.ptp(residuals, axis=0), strict=True) if spread == 0]
    if flat:
        return f"no spread between runs on {', '.join(flat)}: how tasks move together cannot be seen"
    try:
        return mean_correlation(residuals), df
    except AnalysisError as error:
        return str(error)


def _interval(
    ours: Mapping[Key, Mapping[str | None, float]],
    theirs: Mapping[Key, Mapping[str | None, float]],
    paired: bool,
    confidence: float,
) -> Drawn | None:
    everything = [*ours.values(), *theirs.values()]
    if not everything:
        return None
    items = sorted(set().union(*everything), key=str)
    sides = [{k: [run[i] for i in items] for k, run in s.items() if len(run) == len(items)} for s in (ours, theirs)]
    if paired:
        common = sorted(sides[0].keys() & sides[1].keys(), key=str)
        sides = [{k: np.subtract(sides[0][k], sides[1][k]).tolist() for k in common}]
    if min(map(len, sides)) < 2:
        return None
    searched = any(search is not None for side in sides for search, _ in side)
    if not searched and len(items) == 1:
        ours_, theirs_ = ([run[0] for run in side.values()] for side in (sides if len(sides) > 1 else [*sides, {}]))
        return Drawn(over_seeds(ours_, theirs_ or [0.0], confidence), ("pairs" if paired else "seeds",))
    draws = min(DRAWS, MOST_WEIGHTS // len(items))
    if draws < FEWEST_DRAWS:
        return None
    arm, *base = ([[np.array(runs)] for runs in _by_search(side)] for side in sides)
    baseline = base[0] if base else [[np.zeros((1, len(items)))]]
    levels = [*(["searches"] if searched else []), "pairs" if paired else "seeds", *(["items"] * (len(items) > 1))]
    return Drawn(hierarchical(arm, baseline, draws=draws, confidence=confidence), tuple(levels))


def _by_search(side: Mapping[Key, list[float]]) -> list[list[list[float]]]:
    searches: dict[int | None, list[list[float]]] = {}
    for (search, _), run in side.items():
        searches.setdefault(search, []).append(run)
    return list(searches.values())
