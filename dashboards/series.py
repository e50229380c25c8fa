"""Curves for drawing: accuracy over steps (one line a seed), learned functions, how far they moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from dashboards.queries import Comparison
from jobs.durable import read_json
from sweeps.layout import column_name, in_slice, row_name
from sweeps.tables import Columns, read_curves

MOVED = ("shape", "moved")


@dataclass(frozen=True)
class Line:
    """One run's curve; ``gaps`` are steps at which the value was not finite."""

    run: str
    arm: str
    steps: tuple[int, ...]
    values: tuple[float, ...]
    gaps: tuple[int, ...] = ()


@dataclass(frozen=True)
class Panel:
    """All lines of one column."""

    column: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Shape:
    """One learned function.

    ``curves`` has a row for each layer or one for all; ``visited`` is the range that holds 99 % of the inputs at the
    end of the search, None where nobody counted.
    """

    task: str
    search: str
    kind: str
    slot: str
    x: tuple[float, ...]
    curves: tuple[tuple[float, ...], ...]
    visited: tuple[float, float] | None
    moved_rms: float | None
    moved_max: float | None


def training_panels(root: Path, sweep: str, runs: Columns, comparison: Comparison) -> list[Panel]:
    """Baseline and diagonal arm (in a general sweep: baseline and all arms) of each column of the primary slice."""
    split, _, name = str(comparison.primary.metric).partition("@")[0].partition("/")
    layout = comparison.layout
    wanted: dict[str, tuple[str, str]] = {}
    for run, stage, labels in zip(runs.values("run"), runs.values("stage"), runs.values("labels"), strict=True):
        found = orjson.loads(labels)
        if stage != layout.stage or not in_slice(layout, found) or (arm := row_name(layout, found)) is None:
            continue
        column = column_name(layout, found)
        if arm in (layout.baseline, column) or not comparison.is_transfer:
            wanted[run] = (column, arm)
    lines = read_lines(root, sweep, (split, name) if name else ("", split), wanted)
    return [Panel(c.name, tuple(line for column, line in lines if column == c.name)) for c in comparison.columns]


def read_lines(
    root: Path, sweep: str, metric: tuple[str, str], wanted: Mapping[str, tuple[str, str]]
) -> list[tuple[str, Line]]:
    """Lines of the wanted runs (run -> column, arm), in the order of the plan."""
    table = read_curves(root, sweep, [metric])
    codes, names = table.codes("run")
    steps, values = table.floats("step").astype(int), table.floats("value")
    edges = np.flatnonzero(np.diff(codes)) + 1 if len(codes) else []
    lines = []
    for part in np.split(np.arange(len(codes)), edges):
        if not len(part) or (run := names[codes[part[0]]]) not in wanted:
            continue
        column, arm = wanted[run]
        finite = part[np.isfinite(values[part])]
        gaps = part[~np.isfinite(values[part])]
        line = Line(
            run, arm, tuple(steps[finite].tolist()), tuple(values[finite].tolist()), tuple(steps[gaps].tolist())
        )
        lines.append((column, line))
    return lines


def shapes(root: Path, runs: Columns) -> list[Shape]:
    """The functions that searches have left, in the order of the plan; products that are gone are passed over."""
    found = []
    for labels, products in zip(runs.values("labels"), runs.values("products"), strict=True):
        path = orjson.loads(products).get("shape")
        content = read_json(root / path) if path else None
        if isinstance(content, Mapping):
            found += _slots(content, orjson.loads(labels))
    return found


def movement(root: Path, sweep: str, runs: Columns) -> list[Panel]:
    """How far each searched function has moved from its start, by task."""
    wanted = {}
    tasks: list[str] = []
    for run, labels, shape in zip(runs.values("run"), runs.values("labels"), runs.values("products"), strict=True):
        found = orjson.loads(labels)
        if "shape" in orjson.loads(shape):
            task = str(found.get("task", "all"))
            wanted[run] = (task, str(found.get("learns", "spline")))
            tasks.append(task)
    lines = read_lines(root, sweep, MOVED, wanted) if wanted else []
    return [Panel(task, tuple(line for column, line in lines if column == task)) for task in dict.fromkeys(tasks)]


def _slots(content: Mapping[str, Any], labels: Mapping[str, Any]) -> list[Shape]:
    made = []
    for name, slot in sorted((content.get("slots") or {}).items()):
        x, curves = _points(slot)
        visited = _visited(slot.get("visits"))
        task, search = str(labels.get("task", "all")), str(labels.get("search_seed", labels.get("seed", "")))
        moved = slot.get("moved_rms"), slot.get("moved_max")
        made.append(Shape(task, search, slot["kind"], name, x, curves, visited, *moved))
    return made


def _points(slot: Mapping[str, Any]) -> tuple[tuple[float, ...], tuple[tuple[float, ...], ...]]:
    """x and y of a slot's function: knots as they are; a * GeLU(b x), tanh form, on [-6, 6]."""
    rows = slot["values"]
    if slot["kind"] != "scaled_gelu":
        x = np.linspace(slot["low"], slot["high"], len(rows[0]))
        return tuple(x.tolist()), tuple(tuple(row) for row in rows)
    x = np.linspace(-6.0, 6.0, 121)
    return tuple(x.tolist()), tuple(tuple((a * _gelu(b * x)).tolist()) for a, b in rows)


def _gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def _visited(visits: Mapping[str, Any] | None) -> tuple[float, float] | None:
    """The range from the 0.5 % to the 99.5 % quantile of a histogram of inputs."""
    if not visits:
        return None
    counts = np.array([visits["below"], *visits["counts"], visits["above"]], float)
    if not counts.sum():
        return None
    share = np.cumsum(counts) / counts.sum()
    edges = [
        visits["minimum"],
        *np.linspace(visits["low"], visits["high"], len(counts) - 1).tolist(),
        visits["maximum"],
    ]
    first, last = int(np.searchsorted(share, 0.005)), int(np.searchsorted(share, 0.995))
    return float(min(edges[first], edges[first + 1])), float(edges[last + 1])


def by_task(found: Sequence[Shape], kind: str) -> dict[str, list[Shape]]:
    """Shapes of one kind, grouped by the task they were learned for, and by their place where there are several."""
    chosen = [shape for shape in found if shape.kind == kind]
    several = len({shape.slot for shape in chosen}) > 1
    grouped: dict[str, list[Shape]] = {}
    for shape in chosen:
        grouped.setdefault(f"{shape.task}, {shape.slot}" if several else shape.task, []).append(shape)
    return grouped
