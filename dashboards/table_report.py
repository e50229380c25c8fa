"""The report of anybody's table: which kind it gets, from its columns and what it says of itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dashboards.sheet import Sheet
from dashboards.sheets import SHEETS, sheet_of
from dashboards.table_evidence import Names, table_evidence
from dashboards.table_rows import TableRows, read_rows
from sweeps.analysis.errors import AnalysisError


def table_sheet(path: Path, kind: str | None = None, **asked: Any) -> Sheet:
    """The sheet of a table.

    Args:
        path: CSV, JSON lines or Parquet.
        kind: one of ``SHEETS``; where absent, what the table says (``#: kind = ...``), or what it has.
        asked: ``arm_column``, ``seed_column``, ``metric``, ``scale_column``, ``task_column``, ``class_column``,
            ``loss_column``, ``baseline``; ``alpha``, ``correction``, ``sigma``, ``margin``, ``lower_is_better``.

    Raises:
        AnalysisError: a kind, column or baseline that the table does not have; it lists what there is.
    """
    table = read_rows(path)
    chosen = kind or table.settings.get("kind") or _kind(table, asked)
    if chosen == "factorial":
        from dashboards.reports.factorial import factorial_sheet

        return factorial_sheet(table, asked.get("metric"))
    if chosen not in SHEETS:
        raise AnalysisError(
            f"a table has no {chosen} report; choose one of {', '.join(SHEETS)}, factorial (a matrix is a sweep's)"
        )
    columns = {name: asked.get(f"{name}_column") for name in ("arm", "seed", "scale", "task", "loss")}
    options = {name: asked.get(name) for name in ("alpha", "correction", "sigma", "margin")}
    if asked.get("lower_is_better"):
        options["lower_is_better"] = True
    names = Names(
        **columns,
        kind=asked.get("class_column"),
        metric=asked.get("metric"),
        baseline=asked.get("baseline"),
        options=options,
    )
    return sheet_of(chosen, table_evidence(table, names))


def _kind(table: TableRows, asked: dict[str, Any]) -> str:
    scale = asked.get("scale_column") or table.first(("scale", "size"))
    if scale and len({row.get(scale) for row in table.rows}) > 1:
        return "scale"
    return "audit"
