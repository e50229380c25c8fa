"""A slice of a comparison as a picture."""

from __future__ import annotations

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from dashboards import colours
from dashboards.charts.style import STYLE
from dashboards.queries import Comparison, Slice
from dashboards.words import PERCENT, between, signed


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
                x + 0.5, -0.12, info.label, ha="center", weight="bold", color=colours.MUTED if faint else colours.INK
            )
        unit = "percentage points" if part.unit == PERCENT else part.unit
        subtitle = f"{part.name}: {unit} against {comparison.layout.baseline}; by the interval shown, "
        subtitle += "bold: decided, hatched: undecided"
        if any(cell.diverged for cell in part.matrix.cells):
            subtitle += "; †: some runs diverged"
        axes.text(0, high + 0.42, subtitle, color=colours.MUTED, fontsize=8)
        return figure


def _matrix_cell(axes: Axes, x: float, y: float, part: Slice, row: str, column: str, span: float) -> None:
    cell = part.matrix.cell(row, column)
    box = {"xy": (x + 0.02, y + 0.02), "width": 0.96, "height": 0.96}
    if cell.value is None:
        axes.add_patch(Rectangle(**box, facecolor="#f4f5f7", edgecolor="none"))
        words = wrapped(cell.reason or cell.verdict, 15, 3)
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
    middle, below = (0.33, 0.63) if cell.basis else (0.40, 0.76)
    axes.text(x + 0.5, y + middle, value, ha="center", va="center", fontsize=9, weight=weight, color=ink)
    if cell.interval is not None:
        words = between(*cell.interval, part.unit)
        axes.text(x + 0.5, y + below, words, ha="center", va="center", fontsize=5.8, color=ink)
    axes.text(x + 0.5, y + 0.84, cell.basis, ha="center", va="center", fontsize=5.2, style="italic", color=ink)


def wrapped(words: str, width: int, lines: int) -> str:
    out: list[str] = [""]
    for word in words.split():
        if out[-1] and len(out[-1]) + 1 + len(word) > width:
            out.append("")
        out[-1] = f"{out[-1]} {word}".strip()
    return "\n".join(out[:lines]) + ("…" if len(out) > lines else "")
