"""A finished pilot sweep as rows for the written rule of ``sweeps.rates``."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

from jobs.runners import validate_config
from jobs.workspace import Workspace
from orchestrator.errors import OrchestratorError
from orchestrator.gather.parquet import gather, load_plan
from sweeps.rates import ACCURACY, LOSS
from sweeps.tables import read_curves, read_runs


def pilot_rows(space: Workspace, sweep: str) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """(Evaluations of the pilot's runs, chance level of each task).

    Raises:
        OrchestratorError: runs have not ended, or have no labels ``task`` and ``lr``.
    """
    gather(space, sweep)
    plan = load_plan(space, sweep)
    runs = read_runs(space.root, sweep)
    states = dict(zip(runs.values("run"), runs.values("state"), strict=True))
    failures = dict(zip(runs.values("run"), runs.values("failure"), strict=True))
    unfinished = [r for r, state in states.items() if state != "completed" and failures[r] != "diverged"]
    if unfinished:
        raise OrchestratorError(
            f"{len(unfinished)} of {len(states)} runs of {sweep} have not completed (e.g. {unfinished[0]}); "
            f"finish it first: orchestrate watch {sweep}"
        )
    points: dict[tuple[str, int], dict[str, float]] = defaultdict(dict)
    curves = read_curves(space.root, sweep, [tuple(LOSS.split("/")), tuple(ACCURACY.split("/"))])  # type: ignore[misc]
    columns = (curves.values(name) for name in ("run", "step", "split", "metric", "value"))
    for run, step, split, metric, value in zip(*columns, strict=True):
        points[run, step][f"{split}/{metric}"] = math.nan if value is None else value
    rows: list[dict[str, Any]] = []
    for (run, step), values in points.items():
        labels = plan.labels(run)
        if not {"task", "lr"} <= labels.keys():
            raise OrchestratorError(f"{sweep} is no pilot: its runs have no labels `task` and `lr`")
        if LOSS in values and ACCURACY in values:
            diverged = states[run] != "completed"
            seed = plan.runs[run]["seed"]
            rows.append({"task": labels["task"], "lr": labels["lr"], "seed": seed, "step": step, "diverged": diverged})
            rows[-1].update(values)
    chance = {}
    for cell in plan.cells.values():
        config: Any = validate_config(cell["runner"], cell["config"])
        chance[cell["labels"]["task"]] = float(config.task.chance)
    return rows, chance
