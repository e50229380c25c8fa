"""`orchestrate report TABLE`: anybody's table, read as `orchestrate compare` reads it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dashboards.sheet import Sheet

OPTIONS = ("alpha", "correction", "sigma", "margin", "lower_is_better")


def sheet_of_table(path: Path, **asked: Any) -> Sheet:
    """The report of a table file.

    Args:
        path: CSV, TSV, JSON lines or Parquet.
        asked: ``kind``, ``baseline``, ``metric``; ``arm_column``, ``seed_column``, ``scale_column``, ``task_column``,
            ``class_column``, ``loss_column``; ``alpha``, ``correction``, ``sigma``, ``margin``, ``lower_is_better``.

    Raises:
        AnalysisError: a column, a kind or a baseline that the table does not have; it lists what there is.
    """
    from dashboards.table_evidence import Runs
    from dashboards.table_report import table_sheet
    from dashboards.table_rows import table_of
    from orchestrator.gather.read_table import find_columns, read_rows, to_results
    from sweeps.analysis.items import per_run

    rows = read_rows(path)
    table = table_of(path, [row.values for row in rows])

    def runs() -> Runs:
        names = {role: asked.get(f"{role}_column") for role in ("arm", "seed", "scale", "task")}
        names["metric"] = asked.get("metric") or table.settings.get("metric")
        names["arm"] = names["arm"] or table.settings.get("arm_column")
        found = find_columns(rows, path.name, **names)
        results = tuple(per_run(to_results(rows, found)))
        return Runs(found.arm, found.metric, results, found.scale, asked.get("class_column"), asked.get("loss_column"))

    options = {name: asked.get(name) for name in OPTIONS}
    return table_sheet(
        table,
        runs,
        kind=asked.get("kind"),
        baseline=asked.get("baseline"),
        metric=asked.get("metric"),
        arm=asked.get("arm_column"),
        scale=asked.get("scale_column"),
        options=options,
    )
