"""`orchestrate cancel [RUN]...`: stop runs, or a whole sweep, exactly as the preview says."""

from __future__ import annotations

import click

from orchestrator.cli.again import to_type, typed, watch_words
from orchestrator.cli.common import print_json, selection_options, workspace


@click.command()
@selection_options
@click.option("--json", "as_json", is_flag=True, help="Print what was (or would be) asked for as JSON.")
@click.pass_context
def command(
    ctx: click.Context,
    runs: tuple[str, ...],
    sweep: str | None,
    failures: tuple[str, ...],
    labels: tuple[str, ...],
    limit: int,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Cancel RUNs that have not ended (or choose them with the options). A pack's id (`p...`) stands for all its runs.

    What has finished stays. A run that shares its pack with others is let go, and the job is stopped when nobody in it
    is wanted any more: it is told to leave (TERM), may save a checkpoint, and is killed if it has not left a minute
    later. `retry` takes a cancel back.

    The request is a file; a running `sweep` or `watch` acts on it. Where none is alive, `orchestrate watch --once`
    does: once to ask the jobs to leave, and again after the minute to kill those that have not.
    """
    from jobs.state import RunState
    from orchestrator.cli.asking import ask, choose, preview

    space = workspace(ctx)
    states = (RunState.PENDING, RunState.QUEUED, RunState.RUNNING)
    choice = choose(space, runs, sweep, failures, labels, states, need_one=True)
    if as_json:
        rows = [{"run": c.run, "pack": c.pack.id} for c in choice.runs]
        print_json({"request": "cancel", "dry_run": dry_run, "runs": rows})
    elif not choice.runs:
        click.echo("No run to cancel: all that you named have ended.")
    else:
        preview(space, choice, limit, None)
    if not choice.runs:
        return
    if dry_run:
        click.echo(f"Nothing was asked for. Next: {typed(ctx, space, without=('dry_run', 'as_json'))}", err=True)
        return
    ask(space, "cancel", choice.runs, fresh=False, yes=yes)
    again = to_type(space, *watch_words(space), "--once")
    click.echo(f"Asked for. A running sweep takes it up by itself; else: {again}", err=True)
