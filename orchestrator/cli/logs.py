"""`orchestrate logs RUN [-f]`: what a run's attempts wrote, oldest first, and each of their processes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import click

from jobs.facts import read_closed
from jobs.state import RunState
from jobs.workspace import AttemptDir
from orchestrator.cli.common import workspace
from orchestrator.log_tail import AttemptLogs, Line
from orchestrator.run_view import run_view

POLL_S = 0.5
OVER = (RunState.COMPLETED, RunState.FAILED, RunState.CANCELLED)


@click.command()
@click.argument("run")
@click.option(
    "-f", "--follow", is_flag=True, help="Go on as the log grows, into later attempts, until the run is over."
)
@click.option(
    "-n", "--lines", default=50, show_default=True, help="Lines of each attempt (of each process) shown first; 0: none."
)
@click.option("--attempt", type=click.IntRange(1), help="Only this attempt.")
@click.option("--rank", type=click.IntRange(0), help="Only this process; 0 is the first. Default: all of them.")
@click.option("--json", "as_json", is_flag=True, help="One object a line: attempt, rank, line.")
@click.pass_context
def command(
    ctx: click.Context, run: str, follow: bool, lines: int, attempt: int | None, rank: int | None, as_json: bool
) -> None:
    """Show the log of RUN (an id or its beginning, or a pack's), across its attempts. A pack's members share it.

    Where an attempt is several processes each has a log of its own; their lines are marked `[rank 1]`.
    """
    space = workspace(ctx)
    view = run_view(space, run)
    shown: dict[int, AttemptLogs] = {}
    write: Callable[[Line], None] = _as_json if as_json else _as_text

    def show_new() -> None:
        for place in space.attempts(view.pack):
            if attempt not in (None, place.number):
                continue
            if place.number not in shown:
                shown[place.number] = AttemptLogs(place, lines, rank)
                if not as_json:
                    click.echo(click.style(_title(place), bold=True), err=True)
            for line in shown[place.number].new():
                write(line)

    show_new()
    if not shown and not follow:
        raise click.UsageError(f"{view.run} has no attempt{f' {attempt}' if attempt else ''} yet: it has not started")
    while follow and run_view(space, view.run).verdict.state not in OVER:
        time.sleep(POLL_S)
        show_new()
    show_new()
    if rank is not None and shown and not any(logs.seen for logs in shown.values()):
        ranks = sorted({rank for logs in shown.values() for rank in logs.place.logs()})
        raise click.UsageError(f"no process {rank} has a log there; those that have: {', '.join(map(str, ranks))}")


def _as_text(line: Line) -> None:
    click.echo(f"[rank {line.rank}] {line.text}" if line.marked else line.text)


def _as_json(line: Line) -> None:
    click.echo(json.dumps({"attempt": line.attempt, "rank": line.rank, "line": line.text}))


def _title(place: AttemptDir) -> str:
    closed = read_closed(place.closed)
    if closed is None:
        return f"==> attempt {place.number}, not ended: {place.log}"
    why = f" ({closed.failure})" if closed.failure else ""
    return f"==> attempt {place.number}, {closed.outcome}{why}: {place.log}"
