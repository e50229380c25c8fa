"""How a plan is shown: what will run, what is done, what is left out and why, what it costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from orchestrator.cli.units import hours, plural, size
from orchestrator.foresight import power_of
from orchestrator.job_limits import StageLimit
from orchestrator.planning import Prepared
from sweeps.cost import Cost


def show_plan(
    console: Console,
    prepared: Prepared,
    cost: Cost,
    done: Collection[str],
    verbose: bool,
    notices: Sequence[str] = (),
    limits: Sequence[StageLimit] = (),
) -> None:
    """Print a plan; the table by cell only where ``verbose``. ``notices``: besides the design's own."""
    design = prepared.design
    source = design.source
    title = f"[bold]{design.name}[/bold]  {source['file']}"
    if source.get("preset"):
        title += f", preset {source['preset']}"
    console.print(title, highlight=False)
    total = Counter(design.cells[run.cell].stage for run in design.runs)
    ended = Counter(design.cells[run.cell].stage for run in design.runs if run.id in done)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("stage", "runs", "done already", "packs to run", "model-steps", "hours", "wall"):
        table.add_column(name, justify="left" if name == "stage" else "right")
    for stage in cost.stages:
        table.add_row(
            stage.name,
            f"{total[stage.name]:,}",
            f"{ended[stage.name]:,}",
            f"{stage.packs:,}",
            f"{stage.model_steps:,}",
            hours(stage.hours),
            hours(stage.wall_hours),
        )
    console.print(table)
    if verbose:
        console.print(_cells(cost))
    basis = "a guess, good to a factor of a few" if cost.guessed else "from earlier runs here"
    console.print(
        f"about [bold]{hours(cost.wall_hours)}[/bold] with {cost.slots} packs at once ({basis}), "
        f"{cost.flops:.2g} FLOPs, checkpoints up to {size(cost.checkpoint_bytes)}",
        highlight=False,
    )
    for one in limits:
        console.print(f"{one.stage}: {plural(one.packs, 'job')}, {one.limit.words}", highlight=False)
    if (line := power_of(design)) is not None:
        console.print(line, highlight=False)
    for reason, count in Counter(skipped.reason for skipped in design.skipped).most_common():
        console.print(f"[dim]left out: {plural(count, 'combination')}: {reason}[/dim]", highlight=False, markup=True)
    told = dict.fromkeys(f"{one.stage}: {note}" for one in limits for note in one.limit.notes)
    for notice in (*design.notices, *notices, *told):
        console.print(f"[yellow]notice:[/yellow] {notice}", highlight=False)
    if prepared.unlisted:
        console.print(
            f"[yellow]notice:[/yellow] {len(prepared.unlisted)} runs of the plan before this one are no longer listed; "
            f"nothing is cancelled (`orchestrate cancel` does that)",
            highlight=False,
        )


def _cells(cost: Cost) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("cell", "runs", "parameters", "steps", "models", "FLOPs a step", "FLOPs", "hours"):
        table.add_column(name, justify="left" if name == "cell" else "right")
    for cell in cost.cells:
        table.add_row(
            cell.name,
            f"{cell.runs:,}",
            f"{cell.parameters:,}",
            f"{cell.steps:,}",
            f"{cell.models}",
            f"{cell.flops_per_step:.3g}",
            f"{cell.flops:.3g}",
            hours(cell.hours),
        )
    return table


def plan_json(
    prepared: Prepared,
    cost: Cost,
    done: Collection[str],
    notices: Sequence[str] = (),
    limits: Sequence[StageLimit] = (),
) -> dict[str, Any]:
    """The plan for scripts."""
    design = prepared.design
    return {
        "sweep": design.name,
        "source": dict(design.source),
        "changed": prepared.changed,
        "runs": len(design.runs),
        "done": len(done),
        "packs": len(design.packs),
        "hours": cost.hours,
        "wall_hours": cost.wall_hours,
        "slots": cost.slots,
        "guessed": cost.guessed,
        "flops": cost.flops,
        "checkpoint_bytes": cost.checkpoint_bytes,
        "power": power_of(design),
        "stages": [
            {"stage": s.name, "runs": s.runs, "packs": s.packs, "model_steps": s.model_steps, "hours": s.hours}
            for s in cost.stages
        ],
        "cells": [
            {
                "cell": c.name,
                "runs": c.runs,
                "parameters": c.parameters,
                "steps": c.steps,
                "flops_per_step": c.flops_per_step,
                "hours": c.hours,
            }
            for c in cost.cells
        ],
        "skipped": [{"labels": dict(s.labels), "reason": s.reason} for s in design.skipped],
        "unlisted": list(prepared.unlisted),
        "notices": [*design.notices, *notices],
        "limits": [one.payload() for one in limits],
    }
