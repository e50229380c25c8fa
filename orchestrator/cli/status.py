"""`orchestrate status [SWEEP]`: what is running, waiting and broken, and why. Reads, never writes."""

from __future__ import annotations

import sys
from typing import Any

import click

from orchestrator.cli.again import to_type
from orchestrator.cli.common import print_json, resolve_sweep, sweep_names, workspace
from orchestrator.status import SweepStatus, summary


@click.command()
@click.argument("sweep", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the state as JSON.")
@click.option("--strict", is_flag=True, help="Exit 1 if a run has failed, 4 if one has not ended.")
@click.option("--limit", default=8, show_default=True, help="Rows of each list; 0 for all.")
@click.pass_context
def command(ctx: click.Context, sweep: str | None, as_json: bool, strict: bool, limit: int) -> None:
    """What is running, waiting and broken in SWEEP (default: every sweep), and why."""
    space = workspace(ctx)
    names = [resolve_sweep(space, sweep)] if sweep is not None else sweep_names(space)
    found = [summary(space, name) for name in names]
    if as_json:
        print_json({"root": str(space.root), "sweeps": [status_json(status) for status in found]})
    elif not found:
        click.echo(f"Nothing has been planned in {space.root} yet. Start with: {to_type(space, 'sweep')} FILE")
    else:
        from orchestrator.cli.status_view import show_status

        show_status(space, found, limit)
    if strict:
        from orchestrator.exit_codes import Exit

        failed = any(status.counts["failed"] for status in found)  # type: ignore[index]
        unfinished = any(status.ended < status.total for status in found)
        sys.exit(Exit.RUNS_FAILED if failed else Exit.UNFINISHED if unfinished else Exit.OK)


def status_json(status: SweepStatus) -> dict[str, Any]:
    """One sweep for scripts."""
    return {
        "sweep": status.sweep,
        "runs": status.total,
        "ended": status.ended,
        "counts": {str(state): count for state, count in status.counts.items()},
        "running": [
            {
                "pack": live.pack,
                "attempt": live.attempt,
                "state": str(live.state),
                "runs": live.runs,
                "host": live.host,
                "step": live.step,
                "steps": live.steps,
                "eta_s": live.eta_s,
                "silent_s": live.silent_s,
                "over": live.over,
            }
            for live in status.live
        ],
        "waiting": dict(status.waiting),
        "queued": dict(status.queued),
        "scheduler": list(status.trouble),
        "broken": [dict(row) for row in status.broken],
        "cost_s": dict(status.cost),
        "cost_unit": status.unit,
        "seen": status.seen,
    }
