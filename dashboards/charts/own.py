"""Each column on one line: the row made for it among the others, against the baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
from matplotlib.figure import Figure

from dashboards import colours
from dashboards.charts.style import STYLE


@dataclass(frozen=True)
class Place:
    """One column: differences from the baseline in percentage points; None where there is no value."""

    column: str
    own: float | None
    low: float | None
    high: float | None
    others: tuple[float, ...]
    controls: tuple[tuple[str, float], ...]
    decided: bool


MARKS = {"scaled_gelu": "D", "random_spline": "s"}


def own_figure(places: Sequence[Place]) -> Figure:
    """Blue: own row (filled where decided against the others' mean); grey: other rows; bar: the others' mean."""
    with matplotlib.rc_context(STYLE):
        down = 0.6 + 0.34 * len(places)
        figure = Figure(figsize=(8.6, down))
        axes = figure.add_axes((0.13, 0.44 / down, 0.85, 1 - 0.56 / down))
        axes.axvline(0, color="#9aa1a9", linewidth=0.8, zorder=1)
        for y, place in enumerate(places):
            axes.axhline(y, color="#eef0f3", linewidth=0.8, zorder=0)
            axes.plot(place.others, [y] * len(place.others), "o", color="#aab1b9", markersize=4, zorder=2)
            if place.others:
                middle = sum(place.others) / len(place.others)
                axes.plot([middle, middle], [y - 0.26, y + 0.26], color="#6a737d", linewidth=1.4, zorder=3)
            for name, value in place.controls:
                axes.plot([value], [y], MARKS[name], markerfacecolor="white", markeredgecolor=colours.WORSE,
                          markersize=5, zorder=3)  # fmt: skip
            if place.own is None:
                continue
            if place.low is not None and place.high is not None:
                axes.plot([place.low, place.high], [y, y], color=colours.OWN, linewidth=1.6, alpha=0.5, zorder=3)
            face = colours.OWN if place.decided else "white"
            axes.plot([place.own], [y], "o", markerfacecolor=face, markeredgecolor=colours.OWN, markersize=7, zorder=4)
        axes.set_ylim(len(places) - 0.5, -0.5)
        axes.set_yticks(range(len(places)), [p.column for p in places])
        for label in axes.get_yticklabels():
            label.set(fontweight="bold", fontsize=8.5, color=colours.INK)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("difference from the baseline, percentage points", fontsize=8)
        return figure
