"""One self-contained page for a sweep, and the same numbers as files; the same results give the same bytes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from dashboards import export, page
from dashboards.accounts import accounts
from dashboards.charts.curves import movement_figure, shapes_figure, training_figure
from dashboards.charts.matrix import matrix_figure
from dashboards.charts.style import inline, rendered
from dashboards.queries import compare
from dashboards.series import by_task, movement, shapes, training_panels
from dashboards.stability import stability
from jobs.durable import replace_file
from jobs.workspace import Workspace
from sweeps.tables import cells_parquet, read_runs


@dataclass(frozen=True)
class ReportPaths:
    """What ``write_report`` wrote, and the content of ``json`` for printing."""

    page: Path
    png: Path
    svg: Path
    csv: Path
    parquet: Path
    json: Path
    content: dict[str, Any]


def report_content(root: Path, sweep: str, **asked: Any) -> dict[str, Any]:
    """The content of ``report.json`` without writing or drawing anything (``report --json``)."""
    runs = read_runs(root, sweep)
    comparison = compare(root, sweep, runs, **asked)
    return export.report_json(sweep, comparison, accounts(runs), stability(comparison))


def write_report(root: Path, sweep: str, out_dir: Path | None = None, **asked: Any) -> ReportPaths:
    """Write the page, the matrix as pictures, and the cells as CSV, Parquet and JSON.

    Args:
        root: the workspace.
        sweep: name of a sweep that was gathered.
        out_dir: where to write; ``<root>/sweeps/<sweep>/report`` where absent.
        asked: keys of the analysis block to depart from (``metric=``, ``baseline=``, ``alpha=`` ...); the report then
            calls itself exploratory.

    Raises:
        AnalysisError: nothing was gathered, or the results cannot be compared as asked.
    """
    out = out_dir if out_dir is not None else Workspace(root).report(sweep)
    out.mkdir(parents=True, exist_ok=True)
    runs = read_runs(root, sweep)
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
    pictures = {
        "training": inline(
            training_figure(panels, comparison.columns, comparison.layout.baseline, comparison.is_transfer)
        ),
        "shapes": inline(shapes_figure(splines)) if splines else None,
        "movement": inline(movement_figure(moved)) if any(p.lines for p in moved) else None,
    }
    view = page.view(sweep, runs, comparison, counted, stable, learned, span)
    html = _template().render(view | {"pictures": pictures})
    paths = ReportPaths(
        page=out / "index.html",
        png=out / "matrix.png",
        svg=out / "matrix.svg",
        csv=out / "cells.csv",
        parquet=out / "cells.parquet",
        json=out / "report.json",
        content=content,
    )
    replace_file(paths.png, rendered(matrix, "png", dpi=180))
    replace_file(paths.svg, rendered(matrix, "svg"))
    replace_file(paths.csv, export.as_csv(records))
    replace_file(paths.parquet, cells_parquet(records))
    replace_file(paths.json, export.as_json(content))
    replace_file(paths.page, html.encode())
    return paths


def _template() -> Any:
    environment = Environment(
        loader=PackageLoader("dashboards"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= page.FILTERS
    return environment.get_template("report.html")
