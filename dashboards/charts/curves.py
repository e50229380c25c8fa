"""Curves over steps and learned functions, a panel each."""

from __future__ import annotations

import math
from collections.abc import Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dashboards import colours
from dashboards.charts.style import STYLE
from dashboards.queries import ColumnInfo
from dashboards.series import Line, Panel, Shape


def grid(count: int, height: float = 1.9) -> tuple[Figure, list[Axes]]:
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
        figure, axes = grid(len(panels))
        arms = list(dict.fromkeys(line.arm for panel in panels for line in panel.lines))
        others = [arm for arm in arms if arm != baseline]
        for panel, info, ax in zip(panels, columns, axes, strict=True):
            ax.set_title(info.label)
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
        figure, axes = grid(len(panels), height=1.35)
        for panel, ax in zip(panels, axes, strict=True):
            ax.set_title(panel.column)
            for line in panel.lines:
                _draw(ax, line, colours.OWN if line.arm == "spline" else colours.WORSE)
            ax.set_ylim(bottom=0)
        return figure


def shapes_figure(grouped: dict[str, list[Shape]]) -> Figure:
    """The learned functions side by side, one line a search, the range that inputs visit marked."""
    with matplotlib.rc_context(STYLE):
        figure, axes = grid(len(grouped), height=1.75)
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
