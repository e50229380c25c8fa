"""The report of a sweep: which kind it gets, and where it is written. The same results give the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dashboards.block import analysis_block
from dashboards.sheet_files import Written, sheet_json, write_sheet
from dashboards.sheets import SHEETS, sheet_of
from jobs.workspace import Workspace
from sweeps.analysis.errors import AnalysisError
from sweeps.tables import Columns, read_runs


def report_content(root: Path, sweep: str, kind: str | None = None, **asked: Any) -> dict[str, Any]:
    """The content of the report's JSON without writing or drawing anything (``report --json``)."""
    runs = read_runs(root, sweep)
    sheet = _sheet(root, sweep, runs, kind, asked)
    if sheet is not None:
        return sheet_json(sheet)
    from dashboards.matrix_report import matrix_content

    return matrix_content(root, sweep, runs, **asked)


def write_report(
    root: Path, sweep: str, out_dir: Path | None = None, *, kind: str | None = None, **asked: Any
) -> Written:
    """Write the page, its pictures, and the same numbers as CSV, Parquet, JSON and LaTeX.

    Args:
        root: the workspace.
        sweep: name of a sweep that was gathered.
        out_dir: where to write; ``<root>/sweeps/<sweep>/report`` where absent (below it, for another kind than the
            sweep's own).
        kind: one of ``KINDS``; where absent, what the sweep has.
        asked: keys of the analysis block to depart from (``metric=``, ``baseline=``, ``alpha=`` ...); the report then
            calls itself exploratory.

    Raises:
        AnalysisError: nothing was gathered, or the results cannot be compared as asked.
    """
    out = out_dir if out_dir is not None else Workspace(root).report(sweep)
    runs = read_runs(root, sweep)
    sheet = _sheet(root, sweep, runs, kind, asked)
    if sheet is not None:
        return write_sheet(sheet, out if kind is None or out_dir is not None else out / kind)
    from dashboards.matrix_report import write_matrix

    return write_matrix(root, sweep, runs, out, **asked)


def _sheet(root: Path, sweep: str, runs: Columns, kind: str | None, asked: dict[str, Any]) -> Any:
    """The sheet of any kind but the matrix; None for the matrix."""
    block, _, _ = analysis_block(root, sweep, runs, asked)
    if not block.get("baseline") and kind != "factorial":
        from dashboards.reports.means import means_sheet

        if kind in SHEETS:
            raise AnalysisError(
                f"the sweep {sweep!r} names no baseline, and a report of kind {kind} needs one (--baseline)"
            )
        return means_sheet(root, sweep, runs, block)
    if kind == "factorial":
        from dashboards.reports.factorial import factorial_sheet
        from dashboards.sweep_rows import sweep_rows

        return factorial_sheet(sweep_rows(root, sweep, runs, block))
    if kind in SHEETS:
        from dashboards.sweep_evidence import sweep_evidence

        return sheet_of(kind, sweep_evidence(root, sweep, runs, asked))
    return None
