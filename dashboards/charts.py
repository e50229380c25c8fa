"""Pictures: the only file that knows matplotlib. The same data give the same bytes (no dates, fixed ids and styles)."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any

import matplotlib

matplotlib.use("agg")

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from dashboards import colours
from dashboards.queries import ColumnInfo, Comparison, Slice
from dashboards.series import Line, Panel, Shape
from dashboards.words import PERCENT, signed

STYLE: dict[Any, Any] = {
    "svg.hashsalt": "orchestrate",
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "text.color": colours.INK,
    "axes.edgecolor": colours.RULE,
    "axes.labelcolor": colours.MUTED,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "xtick.color": colours.MUTED,
    "ytick.color": colours.MUTED,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "hatch.linewidth": 0.6,
    "hatch.color": "#c3c9d0",
    "legend.frameon": False,
}
METADATA = {"svg": {"Date": None, "Creator": "orchestrate"}, "png": {"Software": "orchestrate"}}


def rendered(figure: Figure, kind: str, dpi: int = 150) -> bytes:
    """The file's bytes, ``kind`` being "svg" or "png"."""
    sink = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(sink, format=kind, dpi=dpi, metadata=METADATA[kind], facecolor="white")
    return sink.getvalue()


def matrix_figure(comparison: Comparison, part: Slice, span: float) -> Figure:
    """One slice as a picture: arms in rows, columns as they stand, controls below."""
    with matplotlib.rc_context(STYLE):
        rows = [r for r in part.matrix.rows if r in comparison.rows]
        controls = [r for r in part.matrix.rows if r in comparison.controls]
        columns = [c.name for c in comparison.columns]
        gap = 0.35 if controls else 0.0
        high = len(rows) + len(controls) + gap
        left, width = 1.5, max(4.4, 1.02 * len(columns))
        above, tall, below = 0.5, 0.52 * high, 0.42
        across, down = left + width + 0.1, above + tall + below
        figure = Figure(figsize=(across, down))
        axes = figure.add_axes((left / across, below / down, width / across, tall / down))
        axes.set_xlim(0, width / 1.02)
        axes.set_ylim(high, 0)
        axes.axis("off")
        for index, row in enumerate([*rows, *controls]):
            y = index + (gap if row in controls else 0)
            axes.text(-0.08, y + 0.5, row, ha="right", va="center", weight="normal" if row in controls else "bold")
            for x, column in enumerate(columns):
                _matrix_cell(axes, x, y, part, row, column, span)
        for x, info in enumerate(comparison.columns):
            faint = info.informative is False
            axes.text(
                x + 0.5, -0.12, info.name, ha="center", weight="bold", color=colours.MUTED if faint else colours.INK
            )
        unit = "percentage points" if part.unit == PERCENT else part.unit
        subtitle = f"{part.name}: {unit} against {comparison.layout.baseline}; bold: decided, hatched: undecided"
        if any(cell.diverged for cell in part.matrix.cells):
            subtitle += "; †: some runs diverged"
        axes.text(0, high + 0.42, subtitle, color=colours.MUTED, fontsize=8)
        return figure


def _matrix_cell(axes: Axes, x: float, y: float, part: Slice, row: str, column: str, span: float) -> None:
    cell = part.matrix.cell(row, column)
    box = {"xy": (x + 0.02, y + 0.02), "width": 0.96, "height": 0.96}
    if cell.value is None:
        axes.add_patch(Rectangle(**box, facecolor="#f4f5f7", edgecolor="none"))
        words = _wrapped(cell.reason or cell.verdict, 15, 3)
        axes.text(x + 0.5, y + 0.5, words, ha="center", va="center", fontsize=5.6, color=colours.MUTED)
        return
    fill = colours.diverging(part.gain(cell.value) / span, decided=cell.decided)
    axes.add_patch(Rectangle(**box, facecolor=fill, edgecolor="#e4e7eb", linewidth=0.5))
    if not cell.decided:
        axes.add_patch(Rectangle(**box, facecolor="none", edgecolor="#d3d8de", hatch="////", linewidth=0))
    ink = colours.ink_on(fill) if cell.decided else "#57606a"
    if row == column:
        axes.add_patch(Rectangle(**box, facecolor="none", edgecolor="#3b434c", linewidth=1.1))
    weight = "bold" if cell.decided else "normal"
    value = signed(cell.value, part.unit) + ("†" if cell.diverged else "")
    axes.text(x + 0.5, y + 0.40, value, ha="center", va="center", fontsize=9, weight=weight, color=ink)
    if cell.low is not None and cell.high is not None:
        interval = f"{signed(cell.low, part.unit)} to {signed(cell.high, part.unit)}"
        axes.text(x + 0.5, y + 0.76, interval, ha="center", va="center", fontsize=5.8, color=ink)


def _wrapped(words: str, width: int, lines: int) -> str:
    out: list[str] = [""]
    for word in words.split():
        if out[-1] and len(out[-1]) + 1 + len(word) > width:
            out.append("")
        out[-1] = f"{out[-1]} {word}".strip()
    return "\n".join(out[:lines]) + ("…" if len(out) > lines else "")


def _grid(count: int, height: float = 1.9) -> tuple[Figure, list[Axes]]:
    """Panels in rows of four on an 11 inch wide page, at fixed places (a layout engine would draw everything twice)."""
    across, down = 4, max(1, math.ceil(count / 4))
    figure = Figure(figsize=(11.0, height * down))
    axes = []
    for index in range(count):
        x, y = index % across, down - 1 - index // across
        left, bottom, top = 0.42 / 11.0, 0.24 / height, 0.26 / height
        place = (x / across + left, (y + bottom) / down, 1 / across - left - 0.012, (1 - bottom - top) / down)
        axes.append(figure.add_axes(place))
    return figure, axes


def training_figure(panels: Sequence[Panel], columns: Sequence[ColumnInfo], baseline: str, transfer: bool) -> Figure:
    """Accuracy over steps, one panel a column, one thin line a seed."""
    with matplotlib.rc_context(STYLE):
        figure, axes = _grid(len(panels))
        arms = list(dict.fromkeys(line.arm for panel in panels for line in panel.lines))
        others = [arm for arm in arms if arm != baseline]
        for panel, info, ax in zip(panels, columns, axes, strict=True):
            ax.set_title(panel.column)
            for line in panel.lines:
                shade = 0 if transfer or line.arm == baseline else others.index(line.arm)
                _draw(ax, line, colours.BASELINE if line.arm == baseline else colours.line(shade))
            levels = info.levels
            for level, dashes in ((levels.chance, (1, 2)), (levels.trivial, (4, 2))):
                if level is not None:
                    ax.axhline(level, color="#9aa1a9", linewidth=0.7, dashes=dashes, zorder=1)
            if levels.t_task is not None:
                ax.axvline(levels.t_task, color="#c3c9d0", linewidth=0.8, zorder=1)
                ax.text(levels.t_task, 1.0, " T", transform=ax.get_xaxis_transform(), va="top", color=colours.MUTED)
            if not panel.lines:
                ax.text(0.5, 0.5, "no points yet", transform=ax.transAxes, ha="center", color=colours.MUTED)
            if levels.chance is not None:
                ax.set_ylim(-0.02, 1.02)
        return figure


def movement_figure(panels: Sequence[Panel]) -> Figure:
    """Root mean square of theta - start over steps, one line a search."""
    with matplotlib.rc_context(STYLE):
        figure, axes = _grid(len(panels), height=1.35)
        for panel, ax in zip(panels, axes, strict=True):
            ax.set_title(panel.column)
            for line in panel.lines:
                _draw(ax, line, colours.OWN if line.arm == "spline" else colours.WORSE)
            ax.set_ylim(bottom=0)
        return figure


def shapes_figure(grouped: dict[str, list[Shape]]) -> Figure:
    """The learned functions side by side, one line a search, the range that inputs visit marked."""
    with matplotlib.rc_context(STYLE):
        figure, axes = _grid(len(grouped), height=1.75)
        for (task, shapes), ax in zip(grouped.items(), axes, strict=True):
            ax.set_title(task)
            low, high = _window(shapes)
            if visited := [shape.visited for shape in shapes if shape.visited is not None]:
                ax.axvspan(
                    min(v[0] for v in visited), max(v[1] for v in visited), color="#e8f0f9", zorder=0, linewidth=0
                )
            for index, shape in enumerate(shapes):
                shown = [i for i, x in enumerate(shape.x) if low <= x <= high]
                for curve in shape.curves:
                    points = [shape.x[i] for i in shown], [curve[i] for i in shown]
                    ax.plot(*points, color=colours.line(index), linewidth=1.1, alpha=0.9)
            ax.set_xlim(low, high)
            ax.axhline(0, color=colours.RULE, linewidth=0.7, zorder=1)
            ax.axvline(0, color=colours.RULE, linewidth=0.7, zorder=1)
        return figure


def _window(shapes: Sequence[Shape]) -> tuple[float, float]:
    """The part of the grid to show: what inputs visit and as much again, for beyond it a function is what it was."""
    low, high = min(shape.x[0] for shape in shapes), max(shape.x[-1] for shape in shapes)
    visited = [shape.visited for shape in shapes if shape.visited is not None]
    if not visited:
        return low, high
    first, last = min(v[0] for v in visited), max(v[1] for v in visited)
    margin = max(0.5 * (last - first), 1.0)
    return max(low, first - margin), min(high, last + margin)


def _draw(ax: Axes, line: Line, colour: str) -> None:
    ax.plot(line.steps, line.values, color=colour, linewidth=0.85, alpha=0.85, zorder=2)
    if line.gaps and line.steps:
        ax.plot(line.steps[-1:], line.values[-1:], marker="x", markersize=4, color=colour, zorder=3)
