"""Means with their intervals, a panel a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib
from matplotlib.figure import Figure

from dashboards import colours
from dashboards.charts.curves import grid
from dashboards.charts.style import STYLE
from sweeps.analysis.means import Mean


def means_figure(
    means: Sequence[Mean],
    arms: Sequence[str],
    columns: Sequence[str],
    chance: Mapping[str, float | None],
    share: bool,
    heads: Mapping[str, str],
) -> Figure:
    """Arms along the axis (by their value, where they are numbers), one panel a column."""
    with matplotlib.rc_context(STYLE):
        figure, panels = grid(len(columns))
        places, logarithmic = _places(arms)
        for column, ax in zip(columns, panels, strict=True):
            ax.set_title(heads.get(column, column))
            shown = [(m, m.value) for m in means if m.task == column and m.value is not None]
            for m, value in shown:
                x = places[m.arm]
                if m.low is not None and m.high is not None:
                    ax.plot([x, x], [m.low, m.high], color=colours.OWN, linewidth=1.1, alpha=0.6)
                ax.plot([x], [value], "o", color=colours.OWN, markersize=3.4)
            if (level := chance.get(column)) is not None:
                ax.axhline(level, color="#9aa1a9", linewidth=0.7, dashes=(1, 2), zorder=1)
            if not shown:
                ax.text(0.5, 0.5, "no value yet", transform=ax.transAxes, ha="center", color=colours.MUTED)
            if share:
                ax.set_ylim(-0.04, 1.06)
            if logarithmic:
                ax.set_xscale("log")
            _named(ax, arms, places)
        return figure


def _places(arms: Sequence[str]) -> tuple[dict[str, float], bool]:
    try:
        numbers = {arm: float(arm) for arm in arms}
    except ValueError:
        return {arm: float(index) for index, arm in enumerate(arms)}, False
    positive = [n for n in numbers.values() if n > 0]
    spread = len(positive) == len(arms) > 1 and max(positive) / min(positive) > 8
    return numbers, spread


def _named(ax, arms: Sequence[str], places: Mapping[str, float]) -> None:
    """Ticks that name the arms, as many as there is room for."""
    step = max(1, -(-len(arms) // 6))
    chosen = list(arms)[::step]
    ax.minorticks_off()
    longest = max(len(arm) for arm in chosen)
    ax.set_xticks([places[arm] for arm in chosen], chosen, rotation=0 if longest * len(chosen) < 40 else 25)
