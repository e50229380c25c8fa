"""Finished pilot sweeps as rows for the written rule of ``sweeps.rates``."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from jobs.workspace import Workspace
from orchestrator.errors import OrchestratorError, PilotUnfinished
from orchestrator.gather.parquet import gather, load_plan
from sweeps.plan_file import Plan
from sweeps.rates import ACCURACY, LOSS, chance_of
from sweeps.tables import read_curves, read_runs


def pilot_rows(
    space: Workspace, sweeps: Sequence[str], *, column: str = "task", factor: str = "lr"
) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """(Evaluations of the pilots' runs, chance level of each task). A run that several pilots share counts once.

    Args:
        column: label of what a rate is chosen for; ``task`` in the rows.
        factor: label of the rates; ``lr`` in the rows.

    Raises:
        PilotUnfinished: runs have not completed, for other reasons than divergence.
        OrchestratorError: runs have no such labels, or their tasks know no chance level.
    """
    rows: list[dict[str, Any]] = []
    chance: dict[str, float] = {}
    seen: set[str] = set()
    for sweep in sweeps:
        plan = load_plan(space, sweep)
        states = _ended(space, sweep)
        for (run, step), values in _points(space, sweep).items():
            if run in seen or not {LOSS, ACCURACY} <= values.keys():
                continue
            labels = plan.labels(run)
            if not {column, factor} <= labels.keys():
                raise OrchestratorError(f"{sweep} is no pilot: its runs have no labels `{column}` and `{factor}`")
            row = {"task": str(labels[column]), "lr": labels[factor], "seed": plan.runs[run]["seed"], "step": step}
            rows.append({**row, "diverged": states[run] != "completed", **values})
        seen |= states.keys()
        chance |= _chance(plan, sweep, column)
    return rows, chance


def _ended(space: Workspace, sweep: str) -> dict[str, str]:
    """Run -> state. Brings the tables up to date."""
    gather(space, sweep)
    runs = read_runs(space.root, sweep)
    states = dict(zip(runs.values("run"), runs.values("state"), strict=True))
    failures = dict(zip(runs.values("run"), runs.values("failure"), strict=True))
    unfinished = [r for r, state in states.items() if state != "completed" and failures[r] != "diverged"]
    if unfinished:
        raise PilotUnfinished(
            f"{len(unfinished)} of {len(states)} runs of {sweep} have not completed (e.g. {unfinished[0]}); "
            f"see `orchestrate errors {sweep}`, then finish it: orchestrate watch {sweep}"
        )
    return states


def _points(space: Workspace, sweep: str) -> dict[tuple[str, int], dict[str, float]]:
    """(run, step) -> metric -> value; NaN where it was not finite."""
    points: dict[tuple[str, int], dict[str, float]] = defaultdict(dict)
    curves = read_curves(space.root, sweep, [tuple(LOSS.split("/")), tuple(ACCURACY.split("/"))])  # type: ignore[misc]
    columns = (curves.values(name) for name in ("run", "step", "split", "metric", "value"))
    for run, step, split, metric, value in zip(*columns, strict=True):
        points[run, step][f"{split}/{metric}"] = math.nan if value is None else value
    return points


def _chance(plan: Plan, sweep: str, column: str) -> dict[str, float]:
    chance: dict[str, float] = {}
    for cell in plan.cells.values():
        level = chance_of(cell["runner"], cell["config"])
        if level is None:
            raise OrchestratorError(f"{sweep} is no pilot: its runner {cell['runner']!r} knows no chance level")
        chance[str(cell["labels"].get(column))] = level
    return chance
