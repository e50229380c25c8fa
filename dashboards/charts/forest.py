"""Effects with their intervals against the noise band, one line an arm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
from matplotlib.figure import Figure

from dashboards import colours
from dashboards.charts.style import STYLE
from dashboards.words import short

ROOM = 12.0
"""Half-width of the axis at least, in sd of one baseline run; what lies further out is an arrow with its number."""


@dataclass(frozen=True)
class Line:
    """One arm of a forest plot: difference, own and simultaneous interval, and a verdict word."""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    family_low: float | None = None
    family_high: float | None = None
    verdict: str = "undecided"
    words: str = ""


SHADES = {"better": colours.BETTER, "worse": colours.WORSE, "equivalent": "#4d7f5c"}


def forest_figure(lines: Sequence[Line], band: float | None, label: str) -> Figure:
    """Dot: difference; thick: own interval; thin: simultaneous interval; grey: +-2 sd of one baseline run; ``label``
    stands below the axis."""
    with matplotlib.rc_context(STYLE):
        down = 0.62 + 0.27 * len(lines)
        figure = Figure(figsize=(9.6, down))
        axes = figure.add_axes((0.235, 0.46 / down, 0.47, 1 - 0.62 / down))
        edge = _edge(lines, band)
        axes.set_xlim(-edge, edge)
        axes.set_ylim(len(lines) - 0.4, -0.6)
        if band:
            axes.axvspan(-2 * band, 2 * band, color="#edf0f3", zorder=0, linewidth=0)
        axes.axvline(0, color="#9aa1a9", linewidth=0.8, zorder=1)
        for y, line in enumerate(lines):
            _draw(axes, y, line, edge)
            weight = "bold" if line.verdict in SHADES else "normal"
            axes.text(-1.03 * edge, y, line.name, ha="right", va="center", fontsize=8.2, weight=weight)
            ink = SHADES.get(line.verdict, colours.MUTED)
            axes.text(1.03 * edge, y, line.words, ha="left", va="center", fontsize=7.4, color=ink, weight=weight)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(label, fontsize=8)
        return figure


def _edge(lines: Sequence[Line], band: float | None) -> float:
    """Half-width of the axis: four arms of five with their intervals, and some bands; the rest are arrows."""
    ends = sorted(max(abs(e) for e in (line.value, line.low, line.high) if e is not None)
                  for line in lines if line.value is not None)  # fmt: skip
    if not ends or not band:
        return 1.05 * max(ends, default=1.0)
    return 1.05 * min(ends[-1], max(ROOM * band, ends[(4 * len(ends) - 1) // 5]))


def _draw(axes, y: int, line: Line, edge: float) -> None:
    shade = SHADES.get(line.verdict, "#7b838c")
    if line.value is None:
        axes.text(0, y, "no number", ha="center", va="center", fontsize=7, color=colours.MUTED, style="italic")
        return
    if line.family_low is not None and line.family_high is not None:
        ends = _cut(line.family_low, edge), _cut(line.family_high, edge)
        axes.plot(ends, [y, y], color=shade, linewidth=0.8, alpha=0.75, zorder=2)
    if line.low is not None and line.high is not None:
        axes.plot((_cut(line.low, edge), _cut(line.high, edge)), [y, y], color=shade, linewidth=2.6, zorder=2,
                  solid_capstyle="butt", alpha=0.55)  # fmt: skip
    if abs(line.value) <= edge:
        axes.plot([line.value], [y], "o", color=shade, markersize=4.6, zorder=3)
        return
    side = 1 if line.value > 0 else -1
    axes.plot([side * edge * 0.985], [y], ">" if side > 0 else "<", color=shade, markersize=6, zorder=3)
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.85}
    place = {"ha": "right" if side > 0 else "left", "va": "center", "fontsize": 7.4, "color": shade, "bbox": box}
    axes.text(side * edge * 0.955, y - 0.02, short(line.value), **place)


def _cut(value: float, edge: float) -> float:
    return max(-edge, min(edge, value))
