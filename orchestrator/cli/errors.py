"""`orchestrate errors [SWEEP]`: what is broken, why, where, and the command that mends it. Reads, never writes."""

from __future__ import annotations

from typing import Any

import click

from orchestrator.broken import Broken, Kind, broken_runs, kinds
from orchestrator.cli.common import print_json, resolve_sweep, workspace
from orchestrator.survey import survey


@click.command()
@click.argument("sweep", required=False)
@click.option("--class", "classes", multiple=True, help="Only failures of this class (repeatable).")
@click.option("--group", is_flag=True, help="One line a kind of failure, without evidence.")
@click.option("--limit", default=8, show_default=True, help="Kinds shown; 0 for all.")
@click.option("--json", "as_json", is_flag=True, help="Print every broken run as JSON.")
@click.pass_context
def command(
    ctx: click.Context, sweep: str | None, classes: tuple[str, ...], group: bool, limit: int, as_json: bool
) -> None:
    """Show what is broken in SWEEP (default: every sweep), by class and message: the lines of the log that matter, the
    machines, the attempts, and the command that mends it.

    Runs that will be tried again by themselves are counted, and marked in the JSON.
    """
    space = workspace(ctx)
    name = resolve_sweep(space, sweep) if sweep is not None else None
    seen = survey(space, None if name is None else [name])
    found = broken_runs(space, seen, classes)
    told = kinds(found)
    if as_json:
        print_json({"sweep": name, "broken": [kind_json(kind) for kind in told]})
        return
    from orchestrator.cli.errors_view import show_errors

    show_errors(space, seen, told, sweep=name, group=group, limit=limit)


def kind_json(kind: Kind) -> dict[str, Any]:
    """One kind of failure for scripts."""
    return {
        "class": str(kind.failure),
        "message": kind.message,
        "evidence": list(kind.evidence),
        "nodes": kind.nodes,
        "runs": [_run_json(run) for run in kind.runs],
    }


def _run_json(run: Broken) -> dict[str, Any]:
    return {
        "run": run.run,
        "pack": run.pack,
        "labels": dict(run.labels),
        "message": run.message,
        "again": run.again,
        "attempts": run.attempts,
        "attempt": run.attempt,
        "node": run.node,
        "step": run.step,
        "steps": run.steps,
        "log": str(run.log),
        **({} if run.memory is None else {"memory": run.memory.words, "memory_wanted_mb": run.memory.wanted_mb}),
    }
