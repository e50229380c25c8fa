"""`orchestrate logs RUN [-f]`: what a run's attempts wrote, oldest first."""

from __future__ import annotations

import time

import click

from jobs.facts import read_closed
from jobs.state import RunState
from jobs.workspace import AttemptDir
from orchestrator.cli.common import workspace
from orchestrator.log_tail import Follower, last_lines
from orchestrator.run_view import run_view

POLL_S = 0.5
OVER = (RunState.COMPLETED, RunState.FAILED, RunState.CANCELLED)


@click.command()
@click.argument("run")
@click.option(
    "-f", "--follow", is_flag=True, help="Go on as the log grows, into later attempts, until the run is over."
)
@click.option("-n", "--lines", default=50, show_default=True, help="Lines of each attempt shown first; 0 for none.")
@click.option("--attempt", type=click.IntRange(1), help="Only this attempt.")
@click.pass_context
def command(ctx: click.Context, run: str, follow: bool, lines: int, attempt: int | None) -> None:
    """Show the log of RUN (an id or its beginning, or a pack's), across its attempts. A pack's members share it."""
    space = workspace(ctx)
    view = run_view(space, run)
    shown: dict[int, Follower] = {}

    def show_new() -> None:
        for place in space.attempts(view.pack):
            if attempt not in (None, place.number):
                continue
            if place.number not in shown:
                shown[place.number] = _show_tail(place, lines)
            for line in shown[place.number].lines():
                click.echo(line)

    show_new()
    if not shown and not follow:
        raise click.UsageError(f"{view.run} has no attempt{f' {attempt}' if attempt else ''} yet: it has not started")
    while follow and run_view(space, view.run).verdict.state not in OVER:
        time.sleep(POLL_S)
        show_new()
    show_new()


def _show_tail(place: AttemptDir, lines: int) -> Follower:
    click.echo(click.style(_title(place), bold=True), err=True)
    if not place.log.exists():
        return Follower(place.log)
    text, offset = last_lines(place.log, lines)
    for line in text:
        click.echo(line)
    return Follower(place.log, offset)


def _title(place: AttemptDir) -> str:
    closed = read_closed(place.closed)
    if closed is None:
        return f"==> attempt {place.number}, not ended: {place.log}"
    why = f" ({closed.failure})" if closed.failure else ""
    return f"==> attempt {place.number}, {closed.outcome}{why}: {place.log}"
