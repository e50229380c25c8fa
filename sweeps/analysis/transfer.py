"""The transfer matrix: every arm on every task against the baseline, decided or with a reason.

Model of a column (`nested.py`): seed noise pooled over all arms of the column, search noise pooled over its
searched arms, each with its own degrees of freedom, combined by Satterthwaite. A searched arm's mean carries
both; one lucky search is not an architecture.

Family: all task rows x columns, whether or not they ran, by Holm. Control rows (rows that are no column) are
a second family of their own, likewise complete.

Guard: pooling lends a baseline that swings between seeds the calm of arms that always succeed, and Holm over
the pooled p-values then decides far too much (docs/statistics.md). So a cell that Holm decides must also be
decided by the default rule of `compare`, each side the larger of its own and the pooled noise (`sigma.py`), here
with no more degrees of freedom on the baseline's side than the baseline has; Dunnett within the column,
Bonferroni over columns.

Pairing: none is assumed. Equal seed numbers on both sides are compared as if independent, which is
conservative when they share a data order, and never as if seeds reused over searches were fresh
(`nested.seed_factor`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sweeps.analysis import nested, sigma, student
from sweeps.analysis.corrections import adjust, holm_levels
from sweeps.analysis.dunnett import adjusted_p, critical_value
from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.matrix import Cell, Column, Matrix
from sweeps.analysis.nested import Arm, Components
from sweeps.analysis.results import Result, at_chance, by_search, checked, is_planned, one_scale, without_value

POINTS = 100.0
"""Percentage points per unit of the metric."""


def transfer_matrix(
    results: Sequence[Result],
    *,
    baseline: str,
    columns: Sequence[str],
    rows: Sequence[str],
    alpha: float = 0.05,
    chance: Mapping[str, float] | None = None,
    ceiling: Mapping[str, float] | None = None,
) -> Matrix:
    """Compare every row with the baseline in every column.

    Args:
        results: one per run; values in [0, 1]. Runs without a value carry a reason. A cell some of whose
            planned runs (or whose baseline's) have none shows its number, but is not decided: looking
            early, or without the runs that failed, is not the test that was planned.
        baseline: arm every entry is measured against.
        columns: tasks, in the order wanted.
        rows: arms, in the order wanted; those that are also columns form the family.
        alpha: family-wise level, and one minus the coverage of each cell's interval.
        chance: chance level per column; a diverged run counts at it, and a column can only be called
            informative where it is known.
        ceiling: best possible value per column, 1 where absent.

    Returns:
        A `Matrix` with a cell for each of rows x columns.

    Raises:
        AnalysisError: duplicates, mixed scales, a value outside [0, 1], a repeated row or column, a bad alpha.
    """
    chance, ceiling = chance or {}, ceiling or {}
    _check_arguments(baseline, columns, rows, alpha)
    kept = [at_chance(r, chance.get(r.task)) for r in checked(results)]
    one_scale(kept)
    _check_range(kept)
    absent = _absent_runs(kept, columns)
    by_cell: dict[tuple[str, str], list[Result]] = {}
    for result in kept:
        by_cell.setdefault((result.arm, result.task), []).append(result)
    cells, noise, values = {}, [], {}
    for task in columns:
        arms = {arm: by_search(found) for (arm, t), found in by_cell.items() if t == task}
        arms = {arm: found for arm, found in sorted(arms.items()) if found}
        values[task], pooled = arms, nested.components(list(arms.values()))
        noise.append(_column(task, arms.get(baseline), pooled, chance.get(task), ceiling.get(task, 1.0), alpha))
        gaps = _gaps(by_cell.get((baseline, task), []), absent.get((baseline, task), 0))
        for row in rows:
            found = by_cell.get((row, task), [])
            cell = _cell(row, task, found, arms, baseline, pooled, alpha)
            mine = _gaps(found, absent.get((row, task), 0))
            cells[row, task] = _undecidable(cell, mine, gaps if row != baseline else "")
    tasks = [r for r in rows if r in columns and r != baseline]
    controls = [r for r in rows if r not in columns and r != baseline]
    for family in (tasks, controls):
        _decide(cells, [(r, c) for r in family for c in columns], values, baseline, alpha)
    return Matrix(
        baseline=baseline,
        alpha=alpha,
        rows=tuple(rows),
        columns=tuple(columns),
        cells=tuple(cells[r, c] for r in rows for c in columns),
        noise=tuple(noise),
        family=len(tasks) * len(columns),
    )


def _cell(
    row: str, task: str, found: list[Result], arms: Mapping[str, Arm], baseline: str, pooled: Components, alpha: float
) -> Cell:
    """One cell before correction: number, interval and p, or a reason."""
    cell = Cell(row=row, column=task, diverged=sum(r.diverged for r in found))
    if row not in arms:
        return replace(cell, reason=without_value(found) or "not run", verdict="not run")
    arm = arms[row]
    cell = replace(cell, n=nested.runs(arm), searches=len(arm) if nested.is_searched(arm) else 0)
    if baseline not in arms:
        return replace(cell, reason=f"no value of the baseline {baseline} on {task}", verdict="not run")
    cell = replace(cell, n_baseline=nested.runs(arms[baseline]))
    if row == baseline:
        return replace(cell, value=0.0, low=0.0, high=0.0, reason="the baseline itself", verdict="baseline")
    value = nested.mean(arm) - nested.mean(arms[baseline])
    cell = replace(cell, value=POINTS * value)
    survivors = by_search([r for r in found if not r.diverged])
    if cell.diverged and survivors:
        cell = replace(
            cell,
            survivors=POINTS * (nested.mean(survivors) - nested.mean(arms[baseline])),
            n_survivors=nested.runs(survivors),
        )
    variance = nested.difference_variance(arm, arms[baseline], pooled)
    if variance is None:
        one_search = pooled.seed_mean_square is not None
        reason = "search variance unknown: one search" if one_search else "no noise floor: one seed an arm"
        return replace(cell, reason=reason, verdict="undecided")
    if variance.value <= 0:
        return replace(cell, reason="no spread between seeds: no interval", verdict="undecided")
    error = math.sqrt(variance.value)
    half = error * student.critical(alpha / 2, variance.df)
    return replace(
        cell,
        low=POINTS * (value - half),
        high=POINTS * (value + half),
        p=student.two_sided_p(value / error, variance.df),
        standard_error=POINTS * error,
        df=variance.df,
    )


def _undecidable(cell: Cell, mine: str, baselines: str) -> Cell:
    """A cell with gaps keeps its number and loses its test."""
    if cell.value is None or cell.verdict == "baseline" or not (mine or baselines):
        return cell
    parts = ([mine] if mine else []) + ([f"of the baseline: {baselines}"] if baselines else [])
    gaps = "runs without a value: " + "; ".join(parts)
    reason = f"{cell.reason}; {gaps}" if cell.reason else gaps
    return replace(cell, p=None, verdict="undecided", reason=reason)


def _decide(
    cells: dict[tuple[str, str], Cell],
    family: list[tuple[str, str]],
    values: Mapping[str, Mapping[str, Arm]],
    baseline: str,
    alpha: float,
) -> None:
    """Holm over the family and the guard where it rejects, in place."""
    p_values = [cells[key].p for key in family]
    columns = list(dict.fromkeys(task for _, task in family))
    guards: dict[str, dict[str, _Guard | str]] = {}
    for key, p, level in zip(family, adjust(p_values, "holm"), holm_levels(p_values, alpha), strict=True):
        cell = cells[key]
        if p is None or cell.value is None or cell.standard_error is None or cell.df is None:
            continue
        half, row, task = cell.standard_error * student.critical(level / 2, cell.df), *key
        if p < alpha and task not in guards:
            rows = [r for r, c in family if c == task and cells[r, c].p is not None]
            absent = len(family) // len(columns) - len(rows)
            guards[task] = _guards(rows, values[task], baseline, absent, len(columns), alpha)
        guard = guards[task][row] if p < alpha else None
        if isinstance(guard, str):  # nothing can decide, so there is no interval that does
            why = f"{cell.reason}; {guard}" if cell.reason else guard
            cells[key] = replace(cell, p_adjusted=p, verdict="undecided", reason=why)
            continue
        decided = guard is not None and guard.p < alpha
        if guard is not None:
            half = max(half, guard.half)
        cells[key] = replace(
            cell,
            p_adjusted=p,
            p_guard=None if guard is None else guard.p,
            df_guard=None if guard is None else guard.df,
            sigma="own" if guard is not None and guard.p > p else "pooled",
            family_low=cell.value - half,
            family_high=cell.value + half,
            verdict="undecided" if not decided else "better" if cell.value > 0 else "worse",
        )


@dataclass(frozen=True)
class _Guard:
    """Family-wise p under the default rule of `compare`, the half-width that goes with it in points, and its df."""

    p: float
    half: float
    df: float


def _guards(
    rows: list[str], arms: Mapping[str, Arm], baseline: str, absent: int, columns: int, alpha: float
) -> dict[str, _Guard | str]:
    """The guard of each row of a column, or why it has none: Dunnett within it, Bonferroni over the columns."""
    noises = {row: sigma.noise("auto", row, baseline, arms, cautious=True) for row in rows}
    tested = {row: n.variance for row, n in noises.items() if n.variance is not None and n.reason is None}
    loadings = [math.sqrt(variance.baseline_share) for variance in tested.values()]
    loadings += [min(loadings, default=0.0)] * (absent + len(rows) - len(tested))
    errors = {row: math.sqrt(variance.value) for row, variance in tested.items()}
    statistics = [(nested.mean(arms[row]) - nested.mean(arms[baseline])) / error for row, error in errors.items()]
    found = adjusted_p(statistics, [variance.df for variance in tested.values()], loadings)
    guards: dict[str, _Guard | str] = {row: n.reason or "no noise of its own" for row, n in noises.items()}
    for (row, variance), p in zip(tested.items(), found, strict=True):
        half = POINTS * errors[row] * critical_value(alpha / columns, variance.df, loadings)
        guards[row] = _Guard(min(1.0, columns * p), half, variance.df)
    return guards


def _column(
    task: str, baseline: Arm | None, pooled: Components, chance: float | None, ceiling: float, alpha: float
) -> Column:
    """Noise floor of a column, and whether its baseline leaves room to see anything.

    Informative: the baseline's mean, rescaled so that chance is 0 and the ceiling 1, lies in [0.10, 0.95],
    and its 1 - alpha interval (pooled seed sd) excludes both chance and the ceiling.
    """
    column = Column(
        task=task,
        seed_sd=_points(pooled.seed_sd),
        seed_df=pooled.seed_df,
        search_sd=_points(pooled.search_sd),
        search_df=pooled.search_df,
        chance=chance,
        ceiling=ceiling,
    )
    if not baseline:
        return replace(column, why="the baseline has no value here")
    level, n = nested.mean(baseline), nested.runs(baseline)
    column = replace(column, baseline=level, n_baseline=n)
    if chance is None:
        return replace(column, why="its chance level is not known")
    place = (level - chance) / (ceiling - chance)
    if pooled.seed_sd is None:
        return replace(column, why="one seed: no noise floor")
    half = pooled.seed_sd / math.sqrt(n) * student.critical(alpha / 2, pooled.seed_df)
    if place < 0.10 or level - half <= chance:
        return replace(column, informative=False, why=f"the baseline ({level:.3f}) is near chance ({chance:.3f})")
    if place > 0.95 or level + half >= ceiling:
        return replace(column, informative=False, why=f"the baseline ({level:.3f}) is near the ceiling ({ceiling:g})")
    return replace(column, informative=True, why="the baseline lies clearly between chance and ceiling")


def _gaps(found: list[Result], absent: int) -> str:
    missing = without_value(r for r in found if is_planned(r))
    silent = f"{absent} absent without a reason" if absent else ""
    return ", ".join(part for part in (missing, silent) if part)


def _absent_runs(results: Sequence[Result], columns: Sequence[str]) -> dict[tuple[str, str], int]:
    """Runs an arm has in some column and, with no word why, not in another."""
    seen: dict[str, set[tuple[int | None, int]]] = {}
    here: dict[tuple[str, str], set[tuple[int | None, int]]] = {}
    for result in results:
        if result.task in columns and is_planned(result):
            seen.setdefault(result.arm, set()).add((result.search, result.seed))
        here.setdefault((result.arm, result.task), set()).add((result.search, result.seed))
    return {(arm, task): len(seen.get(arm, set()) - runs) for (arm, task), runs in here.items()}


def _check_arguments(baseline: str, columns: Sequence[str], rows: Sequence[str], alpha: float) -> None:
    if not 0 < alpha < 1:
        raise AnalysisError(f"alpha is {alpha}; give a level between 0 and 1, such as 0.05")
    for name, given in (("columns", columns), ("rows", rows)):
        doubled = sorted({x for x in given if list(given).count(x) > 1})
        if doubled:
            raise AnalysisError(f"{name} name {doubled[0]!r} twice; name each once")
    if baseline in columns:
        raise AnalysisError(f"the baseline {baseline!r} is also a column; the baseline is an arm, a column a task")


def _check_range(results: Sequence[Result]) -> None:
    for r in results:
        if r.value is not None and not 0.0 <= r.value <= 1.0:
            raise AnalysisError(
                f"arm {r.arm!r}, task {r.task!r}, seed {r.seed}: value {r.value} lies outside [0, 1]; "
                "the matrix compares accuracies as fractions (divide percentages by 100)"
            )


def _points(value: float | None) -> float | None:
    return None if value is None else POINTS * value
