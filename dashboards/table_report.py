"""The report of anybody's table: which kind it gets, from its columns and what it says of itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dashboards.sheet import Sheet
from dashboards.sheets import SHEETS, sheet_of
from dashboards.table_evidence import SCALES, Runs, means_columns, table_evidence
from dashboards.table_rows import TableRows
from sweeps.analysis.errors import AnalysisError


def table_sheet(
    table: TableRows,
    read: Callable[[], Runs],
    *,
    kind: str | None = None,
    baseline: str | None = None,
    metric: str | None = None,
    arm: str | None = None,
    scale: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Sheet:
    """The sheet of a table.

    Args:
        table: its rows.
        read: gives the rows as results; called only where a row is a run.
        kind: one of ``SHEETS`` or factorial; where absent, what the table says (``#: kind = ...``), or what it has.
        baseline, metric, arm, scale: as a person named them; None: as the table says, or by their usual names.
        options: alpha, correction, sigma, margin, lower_is_better.

    Raises:
        AnalysisError: a kind, column or baseline that the table does not have; it lists what there is.
    """
    chosen = kind or table.settings.get("kind") or _kind(table, scale)
    if chosen == "factorial":
        from dashboards.reports.factorial import factorial_sheet

        return factorial_sheet(table, metric)
    if chosen not in SHEETS:
        raise AnalysisError(
            f"a table has no {chosen} report; choose one of {', '.join(SHEETS)}, factorial (a matrix is a sweep's)"
        )
    runs = means_columns(table, arm, scale) if table.only_means else read()
    return sheet_of(chosen, table_evidence(table, runs, baseline, options or {}))


def _kind(table: TableRows, scale: str | None) -> str:
    column = scale or table.first(SCALES)
    return "scale" if column and len({row.get(column) for row in table.rows}) > 1 else "audit"
