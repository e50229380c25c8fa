"""Scores by class of example (number of operations, length ...) for whatever task logs them: shown, never tested."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from dashboards.queries import Comparison
from dashboards.sheet import Entry, Section, Table
from dashboards.words import PERCENT, signed
from sweeps.scores import measured, results_of, values_at
from sweeps.tables import Columns

MOST_ARMS = 6
"""Arms that a table of the page has room for; the files have all."""

FIELDS: dict[str, type] = {
    "column": str, "class": str, "row": str, "metric": str, "mean": float, "sd": float, "n": int, "difference": float,
}  # fmt: skip
"""Columns of ``classes.csv`` and ``classes.parquet``."""


@dataclass(frozen=True)
class ClassScore:
    """One arm on the examples of one class of a column, at the step that the matrix compares.

    Attributes:
        column, name, row: where.
        metric: the summary value or curve behind it.
        mean, sd: over the runs that recorded one, in the metric's own unit; the sd is None for a single run.
        n: those runs.
        difference: mean less the baseline's in the unit of the matrix; None without the baseline's.
    """

    column: str
    name: str
    row: str
    metric: str
    mean: float
    sd: float | None
    n: int
    difference: float | None = None

    @property
    def record(self) -> dict[str, Any]:
        """The score as a flat record of `FIELDS`."""
        values = (self.column, self.name, self.row, self.metric, self.mean, self.sd, self.n, self.difference)
        return dict(zip(FIELDS, values, strict=True))


def class_scores(root: Path, sweep: str, runs: Columns, comparison: Comparison) -> list[ClassScore]:
    """Every arm on every class of every column, the baseline first; empty where no run logged classes.

    A class of ``test/accuracy`` is what runs logged as ``test/accuracy/<class>``. Diverged runs are left out.
    """
    layout, part = comparison.layout, comparison.primary
    base = part.metric.partition("@")[0]
    names = sorted((m for m in runs.metrics if m.startswith(f"{base}/") and "@" not in m), key=_natural)
    arms = {arm: index for index, arm in enumerate([layout.baseline, *comparison.rows, *comparison.controls])}
    columns = {c.name: index for index, c in enumerate(comparison.columns)}
    found = []
    for metric in names:
        values: dict[tuple[str, str], list[float]] = {}
        for r in results_of(runs, metric, layout, _at_step(root, sweep, runs, comparison, metric)):
            if r.value is not None and math.isfinite(r.value) and r.arm in arms and r.task in columns:
                values.setdefault((r.task, r.arm), []).append(r.value)
        name = metric.removeprefix(f"{base}/")
        for (column, arm), v in values.items():
            sd = stdev(v) if len(v) > 1 else None
            found.append(ClassScore(column, name, arm, metric, fmean(v), sd, len(v)))
    baselines = {(s.column, s.name): s.mean for s in found if s.row == layout.baseline}
    scale = 100.0 if part.unit == PERCENT else 1.0
    found.sort(key=lambda s: (columns[s.column], _natural(s.name), arms[s.row]))
    return [
        replace(s, difference=None if (b := baselines.get((s.column, s.name))) is None else scale * (s.mean - b))
        for s in found
    ]


def at_words(comparison: Comparison) -> str:
    """Where `class_scores` looks: at the step that the matrix compares, or else at the end of training."""
    at = comparison.primary.metric.partition("@")[2]
    return {"T": "at T", "step": "at the compared step"}.get(at, "at the last step")


def class_sections(comparison: Comparison, scores: Sequence[ClassScore]) -> list[Section]:
    """A small table for each column that has classes, the last with a word of warning."""
    by_column: dict[str, list[ClassScore]] = {}
    for score in scores:
        by_column.setdefault(score.column, []).append(score)
    labels = {c.name: c.label for c in comparison.columns}
    made = [
        Section(
            f"{labels[column]} by class" if len(labels) > 1 else "By class",
            parts=(_table(comparison, column, labels[column], found),),
        )
        for column, found in by_column.items()
    ]
    note = (
        f"In small type the difference from {comparison.layout.baseline}. Nothing here is tested: it says where a "
        "difference comes from, not that there is one. Diverged runs are left out; all arms are in classes.csv."
    )
    return [*made[:-1], *(replace(last, notes=(note,)) for last in made[-1:])]


def _table(comparison: Comparison, column: str, label: str, scores: Sequence[ClassScore]) -> Table:
    baseline = comparison.layout.baseline
    rows = [row for row in comparison.rows if row == column] if comparison.is_transfer else list(comparison.rows)
    arms = [baseline, *rows[:MOST_ARMS]]
    by_key = {(s.name, s.row): s for s in scores}
    table = [
        (name.replace("_", " "), *(_entry(by_key.get((name, arm)), comparison, baseline) for arm in arms))
        for name in dict.fromkeys(s.name for s in scores)
    ]
    counts = {arm: max((s.n for s in scores if s.row == arm), default=0) for arm in arms}
    own = {column: f"own ({column})"} if comparison.is_transfer else {}
    head = ("class", *(f"{own.get(arm, arm)}, n {counts[arm]}" for arm in arms))
    caption = f"{label}: mean {comparison.primary.metric.partition('@')[0]} by class, {at_words(comparison)}"
    return Table(head, tuple(table), "l" + "r" * len(arms), caption, name="classes-" + re.sub(r"[^\w.-]+", "-", column))


def _entry(score: ClassScore | None, comparison: Comparison, baseline: str) -> Entry:
    if score is None:
        return Entry("none", "no run yet", kind="empty")
    share = comparison.primary.unit == PERCENT
    text = f"{100 * score.mean:.1f} %" if share else f"{score.mean:.4g}"
    if score.row == baseline or score.difference is None:
        return Entry(text)
    return Entry(text, signed(score.difference, comparison.primary.unit))


def _at_step(root: Path, sweep: str, runs: Columns, comparison: Comparison, metric: str) -> Mapping[str, float] | None:
    """Run -> value at the compared step; None for the end, which the summary holds."""
    block, at = comparison.block, comparison.primary.metric.partition("@")[2]
    if at not in ("T", "step"):
        return None
    if block.get("step") is not None and "@" not in str(block.get("metric") or ""):
        return measured(root, sweep, runs, comparison.layout, {**block, "metric": metric})[1]
    configs = {cell["index"]: cell.get("config") or {} for cell in runs.plan.get("cells", [])}
    pairs = zip(runs.values("run"), runs.values("cell"), strict=True)
    return values_at(root, sweep, runs, metric, {run: configs.get(cell, {}).get("t_task") or -1 for run, cell in pairs})


def _natural(name: str) -> list[tuple[int, str]]:
    """``length_2`` before ``length_10``."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
