"""Arms in the plane of loss and downstream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
from matplotlib.figure import Figure

from dashboards import colours
from dashboards.charts.style import STYLE
from sweeps.analysis.decoupling import ATTENTION_OUTPUT, LOSS_MASK


@dataclass(frozen=True)
class Dot:
    """One arm: relative loss (percent) and difference of the metric, with half-widths of their intervals."""

    name: str
    kind: str
    loss: float
    loss_half: float | None
    value: float
    value_half: float | None


PALETTE = ("#1f5fa8", "#009e73", "#8a6fb0", "#3b3f45", "#56b4e9")


def plane_figure(dots: Sequence[Dot], beta: float | None, floor: float | None, unit: str) -> Figure:
    """The line is what the loss predicts (slope over the arms that do not touch attention output); the shaded corner
    is where a loss looks harmless and the metric falls; ``floor`` is where the metric would be at chance."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(7.4, 4.6))
        axes = figure.add_axes((0.12, 0.12, 0.86, 0.86))
        xs, ys = [0.0, *(d.loss for d in dots)], [0.0, *(d.value for d in dots)]
        x = min(xs) - 0.06 * (max(xs) - min(xs) or 1), max([*xs, LOSS_MASK * 1.1]) * 1.08
        low = min([*ys, floor] if floor is not None else ys)
        y = low - 0.08 * (max(ys) - low or 1), max(ys) + 0.12 * (max(ys) - low or 1)
        axes.set_xlim(*x)
        axes.set_ylim(*y)
        axes.axhline(0, color="#9aa1a9", linewidth=0.8, zorder=1)
        axes.axvline(0, color="#9aa1a9", linewidth=0.8, zorder=1)
        axes.fill_between([x[0], LOSS_MASK], [y[0], y[0]], [0, 0], color="#fdf3e7", zorder=0, linewidth=0)
        if beta is not None:
            axes.plot(x, [beta * x[0], beta * x[1]], color="#6a737d", linewidth=1.0, linestyle="--", zorder=1)
        if floor is not None:
            axes.axhline(floor, color="#9aa1a9", linewidth=0.8, dashes=(1, 2), zorder=1)
            axes.text(x[1], floor, "chance ", ha="right", va="bottom", fontsize=7.2, color=colours.MUTED)
        kinds = list(dict.fromkeys(d.kind for d in dots))
        shades = {kind: PALETTE[i % len(PALETTE)] for i, kind in enumerate(_others(kinds))}
        shades[ATTENTION_OUTPUT] = colours.WORSE
        for dot in dots:
            axes.errorbar([dot.loss], [dot.value], xerr=dot.loss_half, yerr=dot.value_half, fmt="o", markersize=5,
                          color=shades[dot.kind], elinewidth=0.9, alpha=0.9, zorder=3)  # fmt: skip
            axes.annotate(dot.name, (dot.loss, dot.value), xytext=(6, 3), textcoords="offset points", fontsize=7.4)
        for kind in kinds:
            axes.plot([], [], "o", markersize=5, color=shades[kind], label=kind)
        axes.legend(loc="upper right", fontsize=7.2)
        axes.set_xlabel("loss against the baseline, percent")
        axes.set_ylabel(f"{unit}, difference")
        return figure


def _others(kinds: Sequence[str]) -> list[str]:
    """All classes but attention output; their colours leave its orange out."""
    return [kind for kind in kinds if kind != ATTENTION_OUTPUT]
