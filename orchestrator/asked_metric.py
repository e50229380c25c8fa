"""Is there a metric of the name that somebody typed? Asked before a page of empty cells is written."""

from __future__ import annotations

from pydantic import ValidationError

from jobs.errors import JobError
from jobs.workspace import Workspace
from sweeps.errors import Problem, SweepError
from sweeps.metric_check import known_metrics, plainest_first
from sweeps.tables import read_curves, read_runs


def require_metric(space: Workspace, sweep: str, metric: str | None) -> None:
    """Do nothing where a gathered sweep's runs can leave this metric, or left it, or where nobody can know yet.

    Raises:
        SweepError: naming what there is.
    """
    if metric is None:
        return
    runs = read_runs(space.root, sweep)
    cells = {cell["index"]: cell for cell in runs.plan.get("cells") or ()}.values()
    try:
        known = known_metrics((cell["runner"], cell["config"]) for cell in cells)
    except (ValidationError, JobError):  # planned by another version: what it left says it
        known = None
    if not known or metric not in known:
        left = _left(space, sweep, runs.metrics)
        known = plainest_first({*(known or ()), *left}) if known or left else None
    if known and metric not in known:
        raise SweepError([Problem("--metric", f"no run of {sweep} leaves this metric", value=metric, choices=known)])


def _left(space: Workspace, sweep: str, summaries: list[str]) -> set[str]:
    """Names of summary values and curves that have been recorded."""
    table = read_curves(space.root, sweep).table.select(["split", "metric"])
    pairs = table.group_by(["split", "metric"]).aggregate([]).to_pylist()
    curves = {f"{pair['split']}/{pair['metric']}" if pair["split"] else pair["metric"] for pair in pairs}
    return {*summaries, *curves}
