"""Two scales beside each other: effects with their errors, ranks, and gradient norms on the way to a divergence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from dashboards import colours
from dashboards.charts.style import STYLE


@dataclass(frozen=True)
class Pair:
    """One arm at both scales; half-widths of its intervals beside its effects."""

    name: str
    small: float
    small_half: float
    large: float
    large_half: float


@dataclass(frozen=True)
class Move:
    """One arm's rank at both scales; ``large`` None: diverged there."""

    name: str
    small: int | None
    large: int | None


@dataclass(frozen=True)
class NormLine:
    """Gradient norms of one run; ``marks`` are (step, word) to point out."""

    name: str
    steps: Sequence[float]
    norms: Sequence[float]
    marks: tuple[tuple[int, str], ...] = ()
    points: tuple[tuple[float, float], ...] = ()


def scatter_figure(pairs: Sequence[Pair], names: tuple[str, str], unit: str) -> Figure:
    """Effects at one scale against the other; on the line they are equal, in the shaded quarters they change sign."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(6.4, 5.0))
        axes = figure.add_axes((0.13, 0.12, 0.84, 0.85))
        x = _span([p.small for p in pairs], [p.small_half for p in pairs])
        y = _span([p.large for p in pairs], [p.large_half for p in pairs])
        axes.set_xlim(*x)
        axes.set_ylim(*y)
        for left, low in ((x[0], 0.0), (0.0, y[0])):
            width, height = (0 - x[0], y[1]) if left < 0 else (x[1], 0 - y[0])
            axes.add_patch(Rectangle((left, low), width, height, color="#f4f5f7", zorder=0))
        both = max(x[0], y[0]), min(x[1], y[1])
        axes.plot(both, both, color="#c3c9d0", linewidth=0.9, zorder=1)
        axes.axhline(0, color="#9aa1a9", linewidth=0.8, zorder=1)
        axes.axvline(0, color="#9aa1a9", linewidth=0.8, zorder=1)
        for p in pairs:
            shade = colours.OWN if p.small * p.large > 0 else colours.WORSE
            axes.errorbar([p.small], [p.large], xerr=[p.small_half], yerr=[p.large_half], fmt="o", color=shade,
                          markersize=4.5, elinewidth=0.9, alpha=0.85, zorder=3)  # fmt: skip
            axes.annotate(p.name, (p.small, p.large), xytext=(5, 4), textcoords="offset points", fontsize=7.2)
        axes.set_xlabel(f"effect at {names[0]}, {unit}")
        axes.set_ylabel(f"effect at {names[1]}, {unit}")
        return figure


def _span(values: Sequence[float], halves: Sequence[float]) -> tuple[float, float]:
    """Room for the points and for most of the errors; 0 always inside."""
    low = min([0.0, *(v - h for v, h in zip(values, halves, strict=True))])
    high = max([0.0, *(v + h for v, h in zip(values, halves, strict=True))])
    margin = 0.08 * ((high - low) or 1.0)
    return low - margin, high + margin


def ranks_figure(moves: Sequence[Move], names: tuple[str, str], of: int) -> Figure:
    """Ranks at both scales, joined; arms that diverged end in a cross below the ranks."""
    with matplotlib.rc_context(STYLE):
        lost = [m for m in moves if m.large is None]
        high = of + 0.9 * len(lost) + 0.6
        figure = Figure(figsize=(6.4, 0.5 + 0.29 * high))
        axes = figure.add_axes((0.02, 0.02, 0.96, 0.96))
        axes.set_xlim(0, 1)
        axes.set_ylim(high + 0.4, -0.4)
        axes.axis("off")
        for x, name in ((0.34, names[0]), (0.62, names[1])):
            axes.text(x, 0, name, ha="center", weight="bold", fontsize=9)
            for rank in range(1, of + 1):
                axes.text(x, rank, str(rank), ha="center", va="center", fontsize=7.5, color="#aab1b9")
        for m in moves:
            if m.small is None or m.large is None:
                continue
            far = abs(m.small - m.large) > 1
            shade = (colours.WORSE if m.large > m.small else colours.OWN) if far else "#7b838c"
            axes.plot([0.365, 0.595], [m.small, m.large], color=shade, linewidth=1.6 if far else 1.0, alpha=0.85)
            axes.text(0.31, m.small, m.name, ha="right", va="center", fontsize=8, color=shade)
            axes.text(0.65, m.large, m.name, ha="left", va="center", fontsize=8, color=shade)
        for index, m in enumerate(lost):
            y = of + 1 + 0.9 * index
            axes.text(0.62, y, "×", ha="center", va="center", fontsize=13, color=colours.WORSE)
            axes.text(0.65, y, f"{m.name} diverged", ha="left", va="center", fontsize=8, color=colours.WORSE)
            if m.small is not None:
                axes.plot([0.365, 0.6], [m.small, y], color=colours.WORSE, linewidth=0.9, linestyle=":")
                axes.text(0.31, m.small, m.name, ha="right", va="center", fontsize=8, color=colours.WORSE)
        return figure


def norms_figure(lines: Sequence[NormLine]) -> Figure:
    """Gradient norms over steps, logarithmic, with the alarm's first warning and the divergence marked."""
    with matplotlib.rc_context(STYLE):
        across = 2 if len(lines) > 1 else 1
        down = math.ceil(len(lines) / across)
        figure = Figure(figsize=(5.4 * across, 2.3 * down))
        for index, line in enumerate(lines):
            axes = figure.add_subplot(down, across, index + 1)
            axes.set_title(line.name)
            axes.plot(line.steps, line.norms, color=colours.OWN, linewidth=1.0)
            if line.points:
                axes.plot(*zip(*line.points, strict=True), "o", color=colours.INK, markersize=3.5)
            axes.set_yscale("log")
            for step, word in line.marks:
                axes.axvline(step, color=colours.WORSE, linewidth=0.8, linestyle="--" if "warn" in word else "-")
                axes.text(step, 0.97, f" {word} ", transform=axes.get_xaxis_transform(), rotation=90, va="top",
                          ha="right", fontsize=6.6, color=colours.WORSE,
                          bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.4, "alpha": 0.85})  # fmt: skip
        figure.subplots_adjust(0.06 if across > 1 else 0.09, 0.12, 0.98, 0.9, 0.16, 0.42)
        return figure
