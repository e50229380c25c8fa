"""From a sweep's tables to the results that an analysis compares: one a run, with a value or a reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from sweeps.analysis.results import NOT_PLANNED, Result
from sweeps.layout import Layout, column_name, find_layout, in_slice, row_name, search_of
from sweeps.tables import FLAG, SUMMARY, Columns, read_curves, read_runs

DEFAULT_METRIC = "test/accuracy"


def load_results(root: Path, sweep: str, metric: str | None = None, *, layout: Layout | None = None) -> list[Result]:
    """What each run of the compared stage scored, or why it did not; skipped pairs carry the plan's reason.

    Args:
        root: the workspace.
        sweep: name of the sweep.
        metric: a summary value such as ``test/accuracy@T``; where absent, what the plan's analysis block asks for.
        layout: rows and columns; found from the plan where absent.
    """
    runs = read_runs(root, sweep)
    layout = layout or find_layout(runs)
    if metric is not None:
        return results_of(runs, metric, layout)
    name, values = measured(root, sweep, runs, layout, runs.plan.get("analysis") or {})
    return results_of(runs, name, layout, values)


def measured(
    root: Path, sweep: str, runs: Columns, layout: Layout, block: Mapping[str, Any]
) -> tuple[str, dict[str, float] | None]:
    """What an analysis block compares: a summary value's name, or a name and each run's value at a step.

    A ``step`` (one number, or column -> number) that is every run's own T is the summary value ``<metric>@T``;
    any other is looked up in the curves.
    """
    metric, step = str(block.get("metric") or DEFAULT_METRIC), block.get("step")
    if step is None or "@" in metric:
        return metric, None
    configs = {cell["index"]: cell.get("config") or {} for cell in runs.plan.get("cells", [])}
    steps, own = {}, {}
    names = ("run", "stage", "cell", "labels")
    for run, stage, cell, labels in zip(*map(runs.values, names), strict=True):
        if layout.stage in (None, stage):
            wanted = step.get(column_name(layout, orjson.loads(labels))) if isinstance(step, Mapping) else step
            steps[run] = int(wanted) if wanted is not None else -1
            own[run] = configs.get(cell, {}).get("t_task")
    if steps == own and f"{metric}@T" in runs.metrics:
        return f"{metric}@T", None
    return f"{metric}@step", values_at(root, sweep, runs, metric, steps)


def results_of(runs: Columns, metric: str, layout: Layout, values: Mapping[str, float] | None = None) -> list[Result]:
    """``load_results`` from a table that is already in memory.

    Args:
        values: run -> value, instead of the summary's ``metric``.
    """
    names = ("run", "stage", "labels", "seed", "state", "reason", "failure", SUMMARY + metric, FLAG + metric)
    results = []
    for run, stage, labels, seed, state, reason, failure, value, flag in zip(*map(runs.values, names), strict=True):
        found = orjson.loads(labels)
        if (layout.stage is not None and stage != layout.stage) or not in_slice(layout, found):
            continue
        if (arm := row_name(layout, found)) is None:
            continue
        if values is not None:
            value = values.get(run)
        why = None
        if value is None or state != "completed":
            value = None
            why = f"{metric} is {flag}" if flag and state == "completed" else reason or f"no {metric} recorded"
        results.append(
            Result(
                arm=arm,
                task=column_name(layout, found),
                seed=seed,
                search=search_of(layout, found),
                value=value,
                reason=why,
                diverged=failure == "diverged",
            )
        )
    return results + _skipped(runs, layout, results)


def values_at(root: Path, sweep: str, runs: Columns, metric: str, steps: Mapping[str, int]) -> dict[str, float]:
    """Run -> the curve's value at a step of its own; runs that recorded nothing there are absent.

    Args:
        metric: such as ``test/accuracy``.
        steps: run -> step.
    """
    split, slash, name = metric.partition("/")
    curves = read_curves(root, sweep, [(split, name) if slash else ("", split)], steps)
    rows = zip(curves.values("run"), curves.values("step"), curves.values("value"), strict=True)
    return {run: value for run, step, value in rows if value is not None and steps[run] == step}


def _skipped(runs: Columns, layout: Layout, results: Sequence[Result]) -> list[Result]:
    present = {(r.arm, r.task) for r in results}
    skipped: dict[tuple[str, str], Result] = {}
    for pair in runs.plan.get("skipped", []):
        labels = pair.get("skipped") or {}
        arm = row_name(layout, labels)
        if arm is None or not in_slice(layout, labels) or (key := (arm, column_name(layout, labels))) in present:
            continue
        skipped.setdefault(key, Result(*key, seed=-1, reason=f"{NOT_PLANNED}: {pair.get('reason', 'no reason given')}"))
    return list(skipped.values())
