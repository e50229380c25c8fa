"""The transfer matrix of a sweep: its page, and the same numbers as files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dashboards import export, page
from dashboards.accounts import accounts
from dashboards.charts.curves import movement_figure, shapes_figure, training_figure
from dashboards.charts.matrix import matrix_figure
from dashboards.charts.style import inline, rendered
from dashboards.classes import FIELDS as CLASSES
from dashboards.classes import ClassScore, at_words, class_scores, class_sections
from dashboards.latex import latex
from dashboards.queries import Comparison, compare
from dashboards.reports.transfer_quotes import quotes
from dashboards.reports.transfer_sections import FIELDS as CONTRASTS
from dashboards.reports.transfer_sections import records as contrast_records
from dashboards.reports.transfer_sections import sections
from dashboards.series import by_task, movement, shapes, training_panels
from dashboards.sheet import Entry, Picture, Table
from dashboards.sheet_files import Written, as_csv, templates
from dashboards.stability import stability
from dashboards.transfer import Additions, additions
from jobs.durable import replace_file
from sweeps.tables import CELL_FIELDS, Columns, cells_parquet, records_parquet


def matrix_content(root: Path, sweep: str, runs: Columns, **asked: Any) -> dict[str, Any]:
    """The content of ``report.json`` without writing or drawing anything (``report --json``)."""
    comparison = compare(root, sweep, runs, **asked)
    content = export.report_json(sweep, comparison, accounts(runs), stability(comparison))
    content |= added_json(comparison, additions(root, sweep, runs, comparison))
    return content | classes_json(comparison, class_scores(root, sweep, runs, comparison))


def write_matrix(root: Path, sweep: str, runs: Columns, out: Path, **asked: Any) -> Written:
    """Write the page, the matrix as pictures and LaTeX, and the cells as CSV, Parquet and JSON.

    Raises:
        AnalysisError: the results cannot be compared as asked.
    """
    out.mkdir(parents=True, exist_ok=True)
    comparison = compare(root, sweep, runs, **asked)
    counted, stable = accounts(runs), stability(comparison)
    records = export.flat_records(comparison)
    added = additions(root, sweep, runs, comparison)
    classes = class_scores(root, sweep, runs, comparison)
    content = export.report_json(sweep, comparison, counted, stable) | added_json(comparison, added)
    content |= classes_json(comparison, classes)
    below = sections(comparison, added) if added else []
    below += [group] if (group := class_sections(comparison, classes)) else []
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
    files: dict[str, bytes] = {}
    shown: dict[str, str] = {}
    for part in (part for group in below for section in group for part in section.parts):
        if isinstance(part, Picture):
            figure = part.draw()
            files[f"{part.name}.svg"], files[f"{part.name}.png"] = rendered(figure, "svg"), rendered(figure, "png", 160)
            shown[part.name] = inline(figure)
        elif part.name:
            files[f"{part.name}.tex"] = latex(part, f"{sweep}-{part.name}").encode()
    files |= {
        "matrix.png": rendered(matrix, "png", dpi=180),
        "matrix.svg": rendered(matrix, "svg"),
        "cells.csv": as_csv(records, [name for name, _ in CELL_FIELDS]),
        "cells.parquet": cells_parquet(records),
        "report.json": export.as_json(content),
        "matrix.tex": latex(matrix_table(comparison), f"{sweep}-matrix").encode(),
    }
    if added is not None:
        files["contrasts.csv"] = as_csv(contrast_records(added), list(CONTRASTS))
        files["contrasts.parquet"] = records_parquet(contrast_records(added), CONTRASTS)
    if classes:
        scores = [score.record for score in classes]
        files["classes.csv"] = as_csv(scores, list(CLASSES))
        files["classes.parquet"] = records_parquet(scores, CLASSES)
    said = quotes(comparison, added)
    more = {"quotes": said, "pictures": pictures, "below": below, "shown": shown, "files": sorted(files)}
    html = templates(**page.FILTERS).get_template("report.html").render(view | more)
    for name, data in files.items():
        replace_file(out / name, data)
    replace_file(out / "index.html", html.encode())
    return Written(out / "index.html", tuple(out / name for name in files), content)


def classes_json(comparison: Comparison, scores: Sequence[ClassScore]) -> dict[str, Any]:
    """Scores by class, and where they were taken; an empty list where no run logged classes."""
    return {"classes": [s.record for s in scores], "classes_taken": at_words(comparison)}


def added_json(comparison: Comparison, added: Additions | None) -> dict[str, Any]:
    """What the JSON says beyond the matrix: the quotes, and for a transfer matrix what stands below it."""
    said = {"report": "matrix", "quotes": list(quotes(comparison, added))}
    if added is None:
        return said
    return said | {
        "specificity_index": asdict(added.index),
        "specificity": [
            {"column": s.against_others.column, "beaten": s.beaten, "rivals": s.rivals, "best_other": s.best_other}
            for s in added.specific
        ],
        "contrasts": contrast_records(added),
        "seed_spread": [asdict(s) for s in added.spreads],
        "steps_to_accuracy": [asdict(s) for s in added.speeds],
    }


def matrix_table(comparison: Comparison) -> Table:
    """The primary slice as a table for LaTeX: value, interval beside it, bold where decided."""
    part = comparison.primary
    columns = [c.name for c in comparison.columns]
    rows = []
    for row in [*comparison.rows, *(c for c in comparison.controls if c in part.matrix.rows)]:
        views = [page.cell_view(part, part.matrix.cell(row, column), 1.0) for column in columns]
        entries = [
            Entry(v.value + v.mark if v.value else v.reason, v.interval + ("*" if v.note else ""), kind=v.kind)
            for v in views
        ]
        rows.append((row, *entries))
    unit = "percentage points" if part.unit == "pp" else part.unit
    caption = f"{part.name}: {unit} against {comparison.layout.baseline}, with the intervals that decide; bold: decided"
    marked = dict.fromkeys(cell.basis.partition(":")[0] for cell in part.matrix.cells if cell.basis)
    caption += f"; *: {' or '.join(marked)}" if marked else ""
    return Table(("", *(c.label for c in comparison.columns)), tuple(rows), "l" + "r" * len(columns), caption)
