"""The second half of `sweep`: run the loop to its end, then gather, export and report, and say where everything is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click
from rich.console import Console

from jobs.state import RunState
from jobs.workspace import Workspace
from orchestrator.cli.again import to_type
from orchestrator.cli.running import Detached, conclude, make_loop, say_detached, watch
from orchestrator.exit_codes import Exit
from orchestrator.loop import TickReport


@dataclass(frozen=True)
class Outcome:
    code: Exit
    payload: dict[str, Any]


def run_to_end(
    space: Workspace, sweep: str, backend: str, max_in_flight: int | None, console: Console, again: str
) -> TickReport:
    """Watch a planned sweep until nothing is left to do; exits by itself where the person detaches.

    Args:
        again: command that takes it up again.
    """
    loop = make_loop(space, backend, [sweep], max_in_flight)
    try:
        return watch(loop, console)
    except Detached:
        say_detached(again)
        raise AssertionError("unreachable") from None
    finally:
        loop.close()


def finish(
    space: Workspace, sweep: str, backend: str, max_in_flight: int | None, console: Console, *, as_json: bool = False
) -> Outcome:
    """Watch a planned sweep to its end and write its report. ``as_json``: stdout is kept for the outcome."""
    limit = ("--max-in-flight", str(max_in_flight)) if max_in_flight else ()
    again = to_type(space, "watch", sweep, "--report", *(("--backend", backend) if backend != "local" else ()), *limit)
    report = run_to_end(space, sweep, backend, max_in_flight, console, again)
    page = write_results(space, sweep)
    counts = {str(state): report.total(state) for state in RunState}
    code = conclude(report)
    said = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    click.echo(f"{sweep}: {said}", err=True)
    if code == Exit.RUNS_FAILED:
        click.echo(f"Some runs failed; see why with: {to_type(space, 'errors', sweep)}", err=True)
    click.echo(f"Report: {page}", err=as_json)
    click.echo(f"Next:   {to_type(space, 'report', sweep, '--json')}   (or open the page in a browser)", err=as_json)
    return Outcome(code, {"sweep": sweep, "counts": counts, "report": str(page), "exit_code": int(code)})


def write_results(space: Workspace, sweep: str) -> str:
    """Gather, start the export to MLflow (nobody waits for it), write the report; returns the page's path."""
    from dashboards.report import write_report
    from orchestrator.gather.mlflow_export import spawn_export
    from orchestrator.gather.parquet import gather

    gather(space, sweep)
    spawn_export(space, sweep)
    return str(write_report(space.root, sweep).page)
