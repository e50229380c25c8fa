"""What the page's template is given: plain values, ready to print."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dashboards import colours
from dashboards.accounts import Accounts
from dashboards.queries import ColumnInfo, Comparison, Slice
from dashboards.series import Shape
from dashboards.stability import Look, Stability, kept
from dashboards.words import between, hours, level_words, percent, signed
from sweeps.analysis.matrix import Cell
from sweeps.tables import Columns

ARM_NOTES = {
    "relu": "a fixed function: would any other do?",
    "relu2": "a fixed function: would any other do?",
    "silu": "a fixed function: would any other do?",
    "scaled_gelu": "a·GeLU(b·x), a and b searched: the shape, or only the gain?",
    "random_spline": "a random spline of equal second moment: any spline?",
}


@dataclass(frozen=True)
class CellView:
    """One cell of a table: what is printed, its style, and the sentence behind it."""

    kind: str
    """"decided", "undecided" or "empty"."""
    style: str
    value: str
    interval: str
    count: str
    note: str
    """What the interval rests on, where that is not the column's noise and the planned test."""
    reason: str
    words: str
    mark: str


def view(
    sweep: str,
    runs: Columns,
    comparison: Comparison,
    counted: Accounts,
    stable: Sequence[Stability],
    learned: Sequence[Shape],
    span: float,
) -> dict[str, Any]:
    """Everything but the pictures."""
    primary = comparison.primary
    same, said = kept(stable)
    return {
        "sweep": sweep,
        "source": (runs.plan.get("source") or {}),
        "comparison": comparison,
        "primary": primary,
        "unit": "percentage points" if primary.unit == "pp" else primary.unit,
        "transfer": comparison.is_transfer,
        "accounts": counted,
        "columns": comparison.columns,
        "tables": [matrix_rows(comparison, part, span) for part in comparison.slices],
        "notes": ARM_NOTES,
        "footnotes": footnotes(comparison, primary),
        "verdicts": _verdicts(comparison),
        "order": [part.name for part in comparison.in_order],
        "levels_known": any(c.levels.chance is not None for c in comparison.columns),
        "searched": any(c.noise.search_sd is not None for c in comparison.columns),
        "timed": any(c.levels.t_task is not None for c in comparison.columns),
        "arms": _arm_colours(comparison),
        "stable": _stable_rows(comparison, stable, span),
        "stable_kept": same,
        "stable_said": said,
        "learned": learned,
        "cells": [(part.name, cell) for part in comparison.slices for cell in part.matrix.cells],
        "legend": [(share, colours.diverging(share)) for share in (-1, -0.6, -0.25, 0.25, 0.6, 1)],
        "span": span,
        "own_noise": any(c.basis.startswith("own") for c in primary.matrix.cells),
        "untested": any(c.basis == "not tested" for c in primary.matrix.cells),
        "how_to_read": how_to_read(comparison),
        "running": not counted.finished,
        "lr": next((c.levels.lr for c in comparison.columns if c.levels.lr is not None), None),
    }


def how_to_read(comparison: Comparison) -> list[str]:
    """Three sentences that claim no more than the tests allow."""
    part = comparison.primary
    family = part.matrix.family or len(comparison.rows) * len(comparison.columns)
    baseline = comparison.layout.baseline
    metric = part.metric.replace("@", " at ")
    unit = "in percentage points" if part.unit == "pp" else f"in {part.unit}"
    interval = "with the interval that decides it"
    if comparison.is_transfer:
        what = (
            f"Each entry is the mean {metric} of fresh models that use the activation learned for the row's task, "
            f"minus the mean of {baseline} models, both trained on the column's task at the baseline's learning rate, "
            f"{unit}, {interval}."
        )
    else:
        what = f"Each entry is the mean {metric} of the row's arm minus that of {baseline}, {unit}, {interval}."
    scope = "All of it holds for these models and this setting only"
    if len(comparison.slices) > 1:
        scope = (
            "All of it holds for these models, this step and this learning rate only: see below which entries keep "
            "their sign at others"
        )
    if any(column.levels.chance is not None for column in comparison.columns):
        scope += "; a column marked “says little” has a baseline too near to chance or ceiling to show an effect"
    return [
        what,
        "Bold entries are decided: their interval excludes zero. It is Student's t, with the noise between seeds (and "
        f"between searches) pooled over the column, corrected by Holm for all {family} entries; where it alone would "
        "decide, it is widened to that of a test which lends no side the calm of another, and marked “own noise”. "
        "Hatched entries are undecided, which is not evidence that there is no difference.",
        f"{scope}.",
    ]


def colour_span(comparison: Comparison) -> float:
    """The difference at which colour is deepest: the largest decided one, rounded up; one scale for all slices."""
    decided = [abs(c.value) for s in comparison.slices for c in s.matrix.cells if c.decided and c.value is not None]
    every = [abs(c.value) for s in comparison.slices for c in s.matrix.cells if c.value is not None]
    largest = max(decided or every or [1.0])
    step = 10 ** math.floor(math.log10(largest)) / 2 if largest > 0 else 1.0
    return math.ceil(largest / step) * step if largest > 0 else 1.0


def matrix_rows(comparison: Comparison, part: Slice, span: float) -> dict[str, Any]:
    """A slice as rows of cells, family first, controls apart."""
    columns = [c.name for c in comparison.columns]

    def rows(names: Sequence[str]) -> list[tuple[str, list[CellView]]]:
        return [
            (name, [cell_view(part, part.matrix.cell(name, column), span) for column in columns])
            for name in names
            if name in part.matrix.rows
        ]

    decided = sum(cell.decided for cell in part.matrix.cells if cell.row in comparison.rows)
    return {
        "name": part.name,
        "metric": part.metric,
        "rows": rows(comparison.rows),
        "controls": rows(comparison.controls),
        "decided": decided,
        "noise": [part.matrix.column(name) for name in columns],
    }


def cell_view(part: Slice, cell: Cell, span: float) -> CellView:
    """One cell, ready to print."""
    searches = f" · {cell.searches} search{'es' if cell.searches > 1 else ''}" if cell.searches else ""
    count = part.of(cell) + searches
    mark = "†" if cell.diverged else ""
    if cell.value is None:
        return CellView("empty", "", "", "", count, "", cell.reason or cell.verdict, cell.words, mark)
    fill = colours.diverging(part.gain(cell.value) / span, decided=cell.decided)
    style = f"background-color:{fill};color:{colours.ink_on(fill) if cell.decided else '#57606a'}"
    interval = between(*cell.interval, part.unit) if cell.interval else ""
    reason = "" if interval else cell.reason or "no interval"
    kind = "decided" if cell.decided else "undecided"
    return CellView(kind, style, signed(cell.value, part.unit), interval, count, cell.basis, reason, cell.words, mark)


def footnotes(comparison: Comparison, part: Slice) -> list[str]:
    """Diverged runs of a slice, cell by cell, with the survivors-only value."""
    notes = []
    for cell in part.matrix.cells:
        if not cell.diverged:
            continue
        text = f"{cell.row} on {cell.column}: {cell.diverged} of {max(cell.n, cell.diverged)} runs diverged"
        if cell.value is None:
            text += ", and no chance level is known to count them at."
        else:
            text += f" and count at chance ({signed(cell.value, part.unit)})"
            if cell.survivors is not None:
                text += f"; the survivors alone give {signed(cell.survivors, part.unit)} (n {cell.n_survivors})"
        notes.append(text)
    return notes


def _arm_colours(comparison: Comparison) -> list[tuple[str, str]]:
    """Which colour an arm's lines have in the training curves of a general sweep."""
    return [(arm, colours.line(index)) for index, arm in enumerate(comparison.rows)]


def _verdicts(comparison: Comparison) -> dict[str, int]:
    counts = {"better": 0, "worse": 0, "undecided": 0, "not run": 0}
    for cell in comparison.primary.matrix.cells:
        if cell.row in comparison.rows and cell.verdict in counts:
            counts[cell.verdict] += 1
    return counts


def _stable_rows(comparison: Comparison, stable: Sequence[Stability], span: float) -> list[tuple[str, list[Any]]]:
    by_row: dict[str, list[Any]] = {row: [] for row in comparison.rows}
    for entry in stable:
        squares = [(_square(look, span), look.decided, _look_words(look), look.first) for look in entry.looks]
        by_row[entry.row].append((entry, squares))
    return list(by_row.items())


def _square(look: Look, span: float) -> str:
    return "" if look.gain is None else colours.diverging(look.gain / span, decided=True)


def _look_words(look: Look) -> str:
    if look.value is None:
        return f"{look.slice}: {look.reason or 'no value'}"
    return f"{look.slice}: {signed(look.value, look.unit)}{', decided' if look.decided else ''}"


def level(value: float | None, column: ColumnInfo) -> str:
    """A level in the column's own unit: a share as per cent."""
    return percent(value) if column.levels.chance is not None else ("none" if value is None else f"{value:.4g}")


FILTERS: dict[str, Callable[..., Any]] = {
    "signed": signed,
    "percent": percent,
    "level": level,
    "hours": hours,
    "words": level_words,
}
