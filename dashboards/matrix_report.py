"""The transfer matrix of a sweep: its page, and the same numbers as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dashboards import export, page
from dashboards.accounts import accounts
from dashboards.charts.curves import movement_figure, shapes_figure, training_figure
from dashboards.charts.matrix import matrix_figure
from dashboards.charts.style import inline, rendered
from dashboards.queries import compare
from dashboards.series import by_task, movement, shapes, training_panels
from dashboards.sheet_files import Written, as_csv, templates
from dashboards.stability import stability
from jobs.durable import replace_file
from sweeps.tables import CELL_FIELDS, Columns, cells_parquet


def matrix_content(root: Path, sweep: str, runs: Columns, **asked: Any) -> dict[str, Any]:
    """The content of ``report.json`` without writing or drawing anything (``report --json``)."""
    comparison = compare(root, sweep, runs, **asked)
    return export.report_json(sweep, comparison, accounts(runs), stability(comparison))


def write_matrix(root: Path, sweep: str, runs: Columns, out: Path, **asked: Any) -> Written:
    """Write the page, the matrix as pictures and LaTeX, and the cells as CSV, Parquet and JSON.

    Raises:
        AnalysisError: the results cannot be compared as asked.
    """
    out.mkdir(parents=True, exist_ok=True)
    comparison = compare(root, sweep, runs, **asked)
    counted, stable = accounts(runs), stability(comparison)
    records = export.flat_records(comparison)
    content = export.report_json(sweep, comparison, counted, stable)
    span = page.colour_span(comparison)
    matrix = matrix_figure(comparison, comparison.primary, span)
    panels = training_panels(root, sweep, runs, comparison)
    learned = shapes(root, runs)
    moved = movement(root, sweep, runs)
    splines = by_task(learned, "learned")
    training = training_figure(panels, comparison.columns, comparison.layout.baseline, comparison.is_transfer)
    pictures = {
        "training": inline(training),
        "shapes": inline(shapes_figure(splines)) if splines else None,
        "movement": inline(movement_figure(moved)) if any(p.lines for p in moved) else None,
    }
    view = page.view(sweep, runs, comparison, counted, stable, learned, span)
    html = templates(**page.FILTERS).get_template("report.html").render(view | {"pictures": pictures})
    files = {
        "matrix.png": rendered(matrix, "png", dpi=180),
        "matrix.svg": rendered(matrix, "svg"),
        "cells.csv": as_csv(records, [name for name, _ in CELL_FIELDS]),
        "cells.parquet": cells_parquet(records),
        "report.json": export.as_json(content),
    }
    for name, data in files.items():
        replace_file(out / name, data)
    replace_file(out / "index.html", html.encode())
    return Written(out / "index.html", tuple(out / name for name in files), content)
