"""A sweep as a table for the factorial report: one row a completed run, its labels and what it scored."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from dashboards.reports.means import layout_without_baseline
from dashboards.table_rows import TableRows, Value
from sweeps.analysis.errors import AnalysisError
from sweeps.layout import find_layout, text
from sweeps.scores import measured
from sweeps.tables import SUMMARY, Columns


def sweep_rows(root: Path, sweep: str, runs: Columns, block: Mapping[str, Any]) -> TableRows:
    """Rows of the compared stage; a run without a value keeps its row, with the reason.

    Raises:
        AnalysisError: no run in the compared stage.
    """
    layout = find_layout(runs, block=block) if block.get("baseline") else layout_without_baseline(runs, block)
    metric, values = measured(root, sweep, runs, layout, block)
    fixed = {layout.arm: layout.baseline, **layout.where}
    rows: list[dict[str, Value]] = []
    names = ("run", "stage", "labels", "seed", "state", "reason", SUMMARY + metric)
    for run, stage, labels, seed, state, reason, value in zip(*map(runs.values, names), strict=True):
        if layout.stage not in (None, stage):
            continue
        if values is not None:
            value = values.get(run)
        found = {name: text(level) for name, level in orjson.loads(labels).items() if name != "seed"}
        score = float(value) if value is not None and state == "completed" else None
        rows.append({**found, "seed": float(seed), metric: score, "reason": reason})
    if not rows:
        raise AnalysisError(f"the sweep {sweep!r} has no run of the compared stage")
    columns = tuple(dict.fromkeys(name for row in rows for name in row))
    reference = "; ".join(f"{name}: {name} = {level}" for name, level in fixed.items() if name in columns and level)
    labels = [name for name in columns if name not in ("seed", "search_seed", metric, "reason")]
    settings = {"metric": metric, "reference": reference, "labels": ", ".join(labels)}
    if layout.search is not None and any(row.get(layout.search) is not None for row in rows):
        settings["nested"] = layout.search
    source = str((runs.plan.get("source") or {}).get("file") or sweep)
    return TableRows(sweep, source, columns, tuple(rows), settings=settings)
