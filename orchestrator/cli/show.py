"""`orchestrate show RUN`: everything that is known of one run."""

from __future__ import annotations

from typing import Any

import click

from orchestrator.cli.common import print_json, workspace
from orchestrator.run_view import RunView, run_view


@click.command()
@click.argument("run")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@click.pass_context
def command(ctx: click.Context, run: str, as_json: bool) -> None:
    """Show RUN: its spec, state and why, attempts, verdicts, checkpoints, products.

    RUN is an id or its beginning; of a pack (`p...`, as `status` names them) its first run is shown.
    """
    space = workspace(ctx)
    view = run_view(space, run)
    if as_json:
        print_json(view_json(view))
        return
    from orchestrator.cli.show_view import show_run

    show_run(space, view)


def view_json(view: RunView) -> dict[str, Any]:
    """One run for scripts."""
    verdict = view.verdict
    return {
        "run": view.run,
        "spec": view.spec.payload(),
        "labels": dict(view.labels),
        "sweeps": list(view.sweeps),
        "state": str(verdict.state),
        "reason": verdict.message,
        "pack": view.pack,
        "members": list(view.members),
        "attempts": [
            {
                "attempt": a.number,
                "outcome": a.outcome,
                "failure": a.failure,
                "message": a.message,
                "started": a.started,
                "last": a.last,
                "host": a.host,
                "first_step": a.first_step,
                "step": a.step,
                "steps": a.steps,
                "checkpoint": a.checkpoint,
                "exact": a.exact,
                "log": str(a.log),
                "exit": None if a.exit is None else dict(a.exit),
            }
            for a in view.attempts
        ],
        "checkpoints": [
            {"path": str(c.path), "step": c.step, "attempt": c.attempt, "verdict": c.verdict, "bytes": c.bytes}
            for c in view.checkpoints
        ],
        "inputs": {k: {"run": run, "product": name, "state": s} for k, (run, name, s) in view.inputs.items()},
        "products": {name: str(path) for name, path in view.products.items()},
    }
