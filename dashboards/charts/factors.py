"""The outcome over the number of harmful choices."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
from matplotlib.figure import Figure

from dashboards import colours
from dashboards.charts.style import STYLE


def count_figure(counts: Sequence[int], outcomes: Sequence[float], line: tuple[float, float], outcome: str) -> Figure:
    """One dot a run, moved aside where they would cover each other; ``line`` is (intercept, slope)."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(5.4, 3.6))
        axes = figure.add_axes((0.13, 0.14, 0.85, 0.82))
        order = sorted(range(len(counts)), key=lambda i: (counts[i], outcomes[i]))
        aside = {i: ((place % 3) - 1) * 0.05 for place, i in enumerate(order)}
        axes.plot([counts[i] + aside[i] for i in order], [outcomes[i] for i in order], "o", color=colours.OWN,
                  markersize=5, alpha=0.75)  # fmt: skip
        ends = min(counts) - 0.3, max(counts) + 0.3
        axes.plot(ends, [line[0] + line[1] * x for x in ends], color="#6a737d", linewidth=1.2, linestyle="--")
        axes.set_xticks(range(min(counts), max(counts) + 1))
        axes.set_xlabel("harmful choices")
        axes.set_ylabel(outcome)
        return figure
