"""What a report shows, as plain data computed from a sweep's tables: slices of the comparison, columns, troubles.

Nothing here draws or writes; the web pages ask the same questions.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dashboards.areas import areas
from dashboards.block import analysis_block, matrix_departures
from dashboards.levels import Levels, column_levels
from dashboards.words import OWN, PERCENT, level_words
from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.looks import planned_look
from sweeps.analysis.matrix import Cell, Column, Matrix
from sweeps.analysis.results import NOT_PLANNED, Result, is_planned
from sweeps.analysis.transfer import POINTS, transfer_matrix
from sweeps.layout import Layout, column_labels, column_name, find_layout
from sweeps.scores import measured, results_of
from sweeps.tables import Columns, read_runs

STEPS = ("T/2", "T", "2T", "final", "area")
"""Steps with a name, in the order of time, and the area under the curve (its mean height) behind them."""


@dataclass(frozen=True)
class Slice:
    """One matrix: a metric (which fixes the step) at fixed levels of the factors beside arm and column.

    Attributes:
        name: words for what is fixed, such as ``T/2, rate 1``.
        metric: the summary value compared.
        where: the fixed levels.
        matrix: the comparison.
        unit: "pp", or "units of the metric" where values do not lie in [0, 1].
        planned: (row, column) -> runs in the plan.
        primary: the slice that the analysis block names.
        minimise: whether less is better.
    """

    name: str
    metric: str
    where: Mapping[str, str]
    matrix: Matrix
    unit: str
    planned: Mapping[tuple[str, str], int]
    primary: bool = False
    minimise: bool = False

    def gain(self, value: float) -> float:
        """A difference turned so that more is better."""
        return -value if self.minimise else value

    def of(self, cell: Cell) -> str:
        """``n 6``, or ``n 4 of 6`` where planned runs have no value."""
        planned = self.planned.get((cell.row, cell.column), cell.n)
        return f"n {cell.n}" if planned <= cell.n else f"n {cell.n} of {planned}"


@dataclass(frozen=True)
class ColumnInfo:
    """A column's name with its levels and its noise floor; ``label`` is its name for people."""

    name: str
    levels: Levels
    noise: Column
    label: str

    @property
    def informative(self) -> bool | None:
        return self.noise.informative


@dataclass(frozen=True)
class Comparison:
    """All slices of a sweep's comparison.

    Attributes:
        layout: which labels make rows and columns.
        block: the analysis block that was followed.
        exploratory: every way in which this departs from the frozen block; empty if it does not.
        notes: what else a reader must know about the block.
        slices: the primary one first.
        columns: the columns of the primary slice.
        rows: arms that form the family (rows that are also columns, or all arms where none is).
        controls: the other arms.
        results: the primary slice's results.
    """

    layout: Layout
    block: Mapping[str, Any]
    exploratory: tuple[str, ...]
    notes: tuple[str, ...]
    slices: tuple[Slice, ...]
    columns: tuple[ColumnInfo, ...]
    rows: tuple[str, ...]
    controls: tuple[str, ...]
    results: tuple[Result, ...]

    @property
    def primary(self) -> Slice:
        return self.slices[0]

    @property
    def in_order(self) -> list[Slice]:
        """All slices, by what is fixed and then by step."""
        settings = list(dict.fromkeys(tuple(sorted(part.where.items())) for part in self.slices))
        steps = {f"@{step}": index for index, step in enumerate(STEPS)}

        def place(part: Slice) -> tuple[int, int]:
            fixed = settings.index(tuple(sorted(part.where.items())))
            return fixed, steps.get("@" + part.metric.partition("@")[2], len(steps))

        return sorted(self.slices, key=place)

    @property
    def is_transfer(self) -> bool:
        """Whether rows are named after columns (a transfer matrix) or arms are just arms."""
        return any(row in {c.name for c in self.columns} for row in self.rows)


def compare(root: Path, sweep: str, runs: Columns | None = None, **asked: Any) -> Comparison:
    """Every slice of a sweep's comparison.

    Args:
        root: the workspace.
        sweep: name of the sweep.
        runs: its runs table, where it was read already.
        asked: keys of the analysis block to use instead of the frozen ones (``metric``, ``baseline``, ``alpha`` ...).

    Raises:
        AnalysisError: no table, no baseline, or results that cannot be compared.
    """
    runs = runs if runs is not None else read_runs(root, sweep)
    for name in ("correction", "sigma", "margin"):
        if asked.get(name) is not None:
            raise AnalysisError(
                f"a matrix is decided by Holm, a pooled sigma and a guard; {name} = {asked[name]} is for the kinds "
                "audit, scale and decoupling, and for compare"
            )
    block, exploratory, notes = analysis_block(root, sweep, runs, asked)
    exploratory = [*exploratory, *matrix_departures(block)]
    layout = find_layout(runs, block=block)
    metric, values = measured(root, sweep, runs, layout, block)
    cells = [cell for cell in runs.plan.get("cells", []) if cell.get("stage") == layout.stage]
    results = results_of(runs, metric, layout, values)
    names = column_order(cells, layout, results)
    levels = {name: column_levels(column_config(cells, layout, name), block, name) for name in names}
    arms = [arm for arm in dict.fromkeys(r.arm for r in results) if arm != layout.baseline]
    rows = [name for name in names if name in arms] or arms
    controls = [arm for arm in arms if arm not in rows]
    transfer = any(name in arms for name in names)
    alpha = float(block.get("alpha", 0.05))
    if (look := planned_look([float(x) for x in block.get("looks") or ()], results)) is not None:
        alpha = look.level(alpha)
        notes = [*notes, f"Look {look.now} of {len(look.fractions)} planned: the level is {alpha:.2g} here."]
    slices, minimise = [], block.get("goal") == "min"
    for where in _alternatives(runs, layout):
        for name, given in _measures(root, sweep, runs, metric, values, curves=transfer and where == layout.where):
            found = results_of(runs, name, replace(layout, where=where), given)
            present = {r.arm for r in found}
            shown = [*rows, *(arm for arm in controls if arm in present)]
            found = [*found, *_unplanned(found, shown, names)]
            matrix, unit = _matrix(found, layout.baseline, names, shown, alpha, levels)
            matrix = _worded(matrix, minimise)
            primary = (name, where) == (metric, layout.where)
            planned = Counter((r.arm, r.task) for r in found if is_planned(r))
            slices.append(Slice(slice_name(name, where), name, where, matrix, unit, planned, primary, minimise))
    slices.sort(key=lambda s: not s.primary)
    heads = {} if transfer else column_labels(layout, cells)
    columns = [ColumnInfo(n, levels[n], slices[0].matrix.column(n), heads.get(n, n)) for n in names]
    return Comparison(
        layout, block, tuple(exploratory), tuple(notes), tuple(slices), tuple(columns), tuple(rows), tuple(controls),
        tuple(results),
    )  # fmt: skip


def _matrix(
    results: Sequence[Result],
    baseline: str,
    columns: list[str],
    rows: list[str],
    alpha: float,
    levels: Mapping[str, Levels],
) -> tuple[Matrix, str]:
    """The matrix in percentage points, or in the metric's own unit where its values leave [0, 1].

    The second is the same t test: it does not change under a shift and a scale, so values are mapped into [0, 1] and
    the differences mapped back.
    """
    values = [r.value for r in results if r.value is not None and math.isfinite(r.value)]
    chance = {name: level.chance for name, level in levels.items() if level.chance is not None}
    ceiling = {name: level.ceiling for name, level in levels.items()}
    if all(0 <= value <= 1 for value in values):
        return transfer_matrix(
            results, baseline=baseline, columns=columns, rows=rows, alpha=alpha, chance=chance, ceiling=ceiling
        ), PERCENT
    low, span = min(values), (max(values) - min(values)) or 1.0
    scaled = [r if r.value is None else replace(r, value=min(1.0, max(0.0, (r.value - low) / span))) for r in results]
    matrix = transfer_matrix(scaled, baseline=baseline, columns=columns, rows=rows, alpha=alpha)
    unit = span / POINTS
    cells = tuple(_scaled_cell(cell, unit) for cell in matrix.cells)
    noise = tuple(
        replace(
            c,
            baseline=None if c.baseline is None else low + span * c.baseline,
            seed_sd=_times(c.seed_sd, unit),
            search_sd=_times(c.search_sd, unit),
            informative=None,
            why="the metric has no known chance level",
        )
        for c in matrix.noise
    )
    return replace(matrix, cells=cells, noise=noise), OWN


def _worded(matrix: Matrix, minimise: bool) -> Matrix:
    """Verdicts by the metric's goal, and reasons without the count of a pair that no run belongs to."""
    turned = {"better": "worse", "worse": "better"} if minimise else {}
    cells = []
    for cell in matrix.cells:
        reason = (
            cell.reason.removeprefix("1 ")
            if cell.reason and cell.reason.startswith(f"1 {NOT_PLANNED}")
            else cell.reason
        )
        cells.append(replace(cell, reason=reason, verdict=turned.get(cell.verdict, cell.verdict)))
    return replace(matrix, cells=tuple(cells))


def _scaled_cell(cell: Cell, unit: float) -> Cell:
    names = ("value", "low", "high", "family_low", "family_high", "standard_error", "survivors")
    return replace(cell, **{name: _times(getattr(cell, name), unit) for name in names})


def _unplanned(results: Sequence[Result], rows: Sequence[str], columns: Sequence[str]) -> list[Result]:
    """A word for each cell that no run of the plan belongs to."""
    present = {(r.arm, r.task) for r in results}
    missing = [(row, column) for row in rows for column in columns if (row, column) not in present]
    return [Result(row, column, seed=-1, reason=NOT_PLANNED) for row, column in missing]


def _times(value: float | None, unit: float) -> float | None:
    return None if value is None else value * unit


def column_order(cells: Sequence[Mapping[str, Any]], layout: Layout, results: Sequence[Result]) -> list[str]:
    """Columns as the plan lists them, then any that only results know."""
    planned = [column_name(layout, cell["labels"]) for cell in cells if cell["labels"].get(layout.arm) is not None]
    return list(dict.fromkeys([*planned, *(r.task for r in results)]))


def column_config(cells: Sequence[Mapping[str, Any]], layout: Layout, column: str) -> Mapping[str, Any]:
    """Config of a column's cells, the baseline's first."""
    found = [cell for cell in cells if column_name(layout, cell["labels"]) == column]
    found.sort(key=lambda cell: cell["labels"].get(layout.arm) != layout.baseline)
    return found[0].get("config", {}) if found else {}


def landmarks(runs: Columns, metric: str) -> list[str]:
    """The metric, then the same at the other named steps: ``test/accuracy@T`` -> also @T/2, @2T and @final."""
    base, _, at = metric.partition("@")
    named = [f"{base}@{step}" for step in STEPS if step != (at or "final")]
    return [metric, *(name for name in named if name in runs.metrics)]


def _measures(
    root: Path, sweep: str, runs: Columns, metric: str, values: Mapping[str, float] | None, *, curves: bool
) -> list[tuple[str, Mapping[str, float] | None]]:
    """What is compared in a slice: the metric, other named steps of it, and where asked for the whole curve."""
    found = [(name, values if name == metric else None) for name in landmarks(runs, metric)]
    base = metric.partition("@")[0]
    if curves and (heights := areas(root, sweep, base)):
        found.append((f"{base}@area", heights))
    return found


def _alternatives(runs: Columns, layout: Layout) -> list[dict[str, str]]:
    """The main slice, then those that differ from it in one factor."""
    found = [dict(layout.where)]
    for factor in layout.where:
        pairs = zip(runs.values("stage"), runs.label(factor), strict=True)
        levels = dict.fromkeys(level for stage, level in pairs if level is not None and stage == layout.stage)
        found += [{**layout.where, factor: level} for level in levels if level != layout.where[factor]]
    return found


def slice_name(metric: str, where: Mapping[str, str]) -> str:
    base, mark, step = metric.partition("@")
    fixed = [f"{factor} {level_words(level)}" for factor, level in where.items()]
    words = {"final": "final step", "area": "whole curve"}.get(step, f"step {step}") if mark else base
    return ", ".join([words, *fixed])
