"""From a sweep's tables to evidence: every scale, every task, losses and gradient norms, and how it was carried out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from dashboards.block import analysis_block, planned_options
from dashboards.evidence import Conduct, Evidence, Key, Loss, Trace
from dashboards.levels import column_levels
from dashboards.queries import column_config
from dashboards.table_evidence import relative_losses
from jobs.workspace import Workspace
from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.looks import planned_look
from sweeps.analysis.options import Options
from sweeps.analysis.results import Result
from sweeps.layout import Layout, column_labels, column_name, find_layout, in_slice, row_name, text
from sweeps.scores import measured, results_of
from sweeps.tables import SUMMARY, Columns, read_curves

SCALES = ("scale", "size")
RATES = ("rate", "lr")
LOSSES = ("validation/loss", "test/loss")
EARLY = "loss_first_"
NORMS = ("gradient_norm", "grad_norm")
OWN_RUNNERS = ("train",)
"""Runners whose held-out metrics come from the trainer's own forward pass."""


def sweep_evidence(root: Path, sweep: str, runs: Columns, asked: Mapping[str, Any]) -> Evidence:
    """Evidence from a sweep that names a baseline.

    Raises:
        AnalysisError: no baseline, or an analysis block that cannot be followed.
    """
    block, departures, notes = analysis_block(root, sweep, runs, asked)
    layout = find_layout(runs, block=block)
    scale = next((name for name in SCALES if name in runs.factors and name != layout.arm), None)
    layout = _without(layout, scale)
    metric, values = measured(root, sweep, runs, layout, block)
    levels = _levels(runs, scale, layout.stage)
    results = _results(runs, metric, layout, scale, levels, values)
    if not results:
        raise AnalysisError(f"the sweep {sweep!r} has no run of the compared stage")
    classes = {
        arm: kind
        for arm, kind in zip(runs.label(layout.arm), runs.label("class"), strict=True)
        if arm is not None and kind is not None
    }
    look = planned_look([float(x) for x in block.get("looks") or ()], results)
    said: dict[str, Any] = {name: str(asked[name]) for name in ("correction", "sigma") if asked.get(name) is not None}
    cells = [cell for cell in runs.plan.get("cells", []) if cell.get("stage") == layout.stage]
    tasks = list(dict.fromkeys(r.task for r in results))
    early, of_tasks = _early(runs), _losses(runs, LOSSES, layout, scale, levels)
    chance = {task: column_levels(column_config(cells, layout, task), block, task).chance for task in tasks}
    return Evidence(
        name=sweep,
        metric=metric,
        options=Options(layout.baseline, look=look, **{**planned_options(block), **said}),
        kicker=str((runs.plan.get("source") or {}).get("file") or ""),
        remarks=tuple(notes),
        results=tuple(results),
        classes=classes,
        losses=_averaged(of_tasks),
        task_losses=of_tasks,
        early=_averaged(_losses(runs, [early] if early else [], layout, scale, levels)),
        early_positions=early.rpartition("_")[2] if early else "128",
        chance={task: level for task, level in chance.items() if level is not None},
        heads=column_labels(layout, cells),
        traces=_traces(root, sweep, runs, layout, scale),
        settings=_settings(cells),
        nan_steps=_nan_steps(runs, layout, scale),
        conduct=_conduct(root, sweep, runs, layout, tuple(departures), cells),
        exploratory=tuple(departures),
    )


def _without(layout: Layout, scale: str | None) -> Layout:
    """The layout with the scale as a factor of its own, neither column nor fixed."""
    if scale is None:
        return layout
    where = {name: level for name, level in layout.where.items() if name != scale}
    return replace(layout, columns=tuple(c for c in layout.columns if c != scale), where=where)


def _levels(runs: Columns, scale: str | None, stage: str | None) -> list[str | None]:
    if scale is None:
        return [None]
    pairs = zip(runs.values("stage"), runs.label(scale), strict=True)
    return list(dict.fromkeys(level for at, level in pairs if level is not None and stage in (None, at)))


def _results(
    runs: Columns,
    metric: str,
    layout: Layout,
    scale: str | None,
    levels: Sequence[str | None],
    values: Mapping[str, float] | None = None,
) -> list[Result]:
    found: list[Result] = []
    for level in levels:
        where = dict(layout.where) if scale is None or level is None else {**layout.where, scale: level}
        found += [replace(r, scale=level) for r in results_of(runs, metric, replace(layout, where=where), values)]
    return found


def _early(runs: Columns) -> str | None:
    """The loss at the first positions that these runs recorded, such as ``validation/loss_first_128``."""
    found = [name for split in ("validation", "test") for name in runs.metrics if name.startswith(f"{split}/{EARLY}")]
    return next((name for name in found if "@" not in name), None)


def _losses(
    runs: Columns, names: Sequence[str], layout: Layout, scale: str | None, levels: Sequence[str | None]
) -> dict[str, dict[Key, Loss]]:
    """Relative loss of each arm, task by task."""
    metric = next((name for name in names if SUMMARY + name in runs.names), None)
    if metric is None:
        return {}
    by_task: dict[str, dict[Key, list[float]]] = {}
    for r in _results(runs, metric, layout, scale, levels):
        if r.value is not None:
            by_task.setdefault(r.task, {}).setdefault((r.arm, r.scale), []).append(r.value)
    return {task: relative_losses(found, layout.baseline) for task, found in by_task.items()}


def _averaged(of_tasks: Mapping[str, Mapping[Key, Loss]]) -> dict[Key, Loss]:
    """The mean over tasks of each arm's relative loss."""
    parts: dict[Key, list[Loss]] = {}
    for found in of_tasks.values():
        for key, loss in found.items():
            parts.setdefault(key, []).append(loss)
    made = {}
    for key, losses in parts.items():
        errors = [loss.error for loss in losses if loss.error is not None]
        error = math.sqrt(math.fsum(e**2 for e in errors)) / len(losses) if len(errors) == len(losses) else None
        made[key] = Loss(math.fsum(loss.percent for loss in losses) / len(losses), error)
    return made


def _settings(cells: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """What the runs' configs say that a report asks for."""
    warm_ups = {(cell.get("config") or {}).get("warmup_steps") for cell in cells}
    known = [w for w in warm_ups if isinstance(w, int)]
    return {"warm_up": str(max(known))} if known else {}


def _traces(root: Path, sweep: str, runs: Columns, layout: Layout, scale: str | None) -> tuple[Trace, ...]:
    """Gradient norms of every run of an arm in the slice, where they were logged; NaN at the step it diverged."""
    arms, ends = {}, {}
    names = ("run", "seed", "labels", "failure", "step")
    for run, seed, labels, failure, step in zip(*map(runs.values, names), strict=True):
        found = orjson.loads(labels)
        if in_slice(layout, found) and (arm := row_name(layout, found)) is not None:
            level = found.get(scale) if scale else None
            arms[run] = arm, seed, None if level is None else text(level)
            if failure == "diverged" and step is not None:
                ends[run] = step
    table = read_curves(root, sweep, [("train", name) for name in NORMS], arms)
    codes, runs_of = table.codes("run")
    steps, values = table.floats("step").astype(int), table.floats("value")
    made = []
    for code in dict.fromkeys(codes.tolist()):
        chosen = np.flatnonzero(codes == code)
        run = runs_of[code]
        arm, seed, level = arms[run]
        at, norms = steps[chosen].tolist(), values[chosen].tolist()
        if run in ends:
            before = [(s, n) for s, n in zip(at, norms, strict=True) if s < ends[run]]
            at, norms = [*(s for s, _ in before), ends[run]], [*(n for _, n in before), math.nan]
        made.append(Trace(arm, tuple(at), tuple(norms), seed, scale=level))
    return tuple(made)


def _nan_steps(runs: Columns, layout: Layout, scale: str | None) -> dict[Key, int]:
    """First step at which a run of the arm was given up as diverged."""
    found: dict[Key, int] = {}
    levels = runs.label(scale) if scale else [None] * len(runs)
    names = zip(runs.label(layout.arm), levels, runs.values("failure"), runs.values("step"), strict=True)
    for arm, level, failure, step in names:
        if arm is not None and failure == "diverged" and step is not None:
            found[arm, level] = min(step, found.get((arm, level), step))
    return found


def _conduct(
    root: Path,
    sweep: str,
    runs: Columns,
    layout: Layout,
    departures: tuple[str, ...],
    cells: Sequence[Mapping[str, Any]],
) -> Conduct:
    rate = next((name for name in RATES if name in runs.factors and name != layout.arm), None)
    several = rate is not None and len({level for level in runs.label(rate) if level is not None}) > 1
    rescued = set()
    if rate is not None:
        states = zip(runs.label(layout.arm), runs.label(rate), runs.values("state"), strict=True)
        rescued = {
            arm for arm, level, state in states if arm and state == "completed" and level != layout.where.get(rate)
        }
    return Conduct(
        codebases=1,
        fixed_rates=_same_optimizer(cells, layout),
        other_rates=several,
        declared=Workspace(root).frozen(sweep).exists(),
        departures=departures,
        one_path=bool(cells) and all(cell.get("runner") in OWN_RUNNERS for cell in cells),
        left_out=tuple(dict.fromkeys(str(pair.get("reason")) for pair in runs.plan.get("skipped", []))),
        rescued=tuple(sorted(rescued)),
    )


def _same_optimizer(cells: Sequence[Mapping[str, Any]], layout: Layout) -> bool | None:
    """Whether all arms of a column have one optimiser and one number of steps; None where no config says."""
    found: dict[str, set[bytes]] = {}
    for cell in cells:
        labels, config = cell.get("labels") or {}, cell.get("config") or {}
        if row_name(layout, labels) is not None and in_slice(layout, labels) and "optimizer" in config:
            said = orjson.dumps([config["optimizer"], config.get("steps")], option=orjson.OPT_SORT_KEYS)
            found.setdefault(column_name(layout, labels), set()).add(said)
    return all(len(said) == 1 for said in found.values()) if found else None
