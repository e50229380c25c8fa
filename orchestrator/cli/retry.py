"""`orchestrate retry [RUN]...`: run failed and cancelled runs again, exactly as the preview says."""

from __future__ import annotations

import click

from orchestrator.cli.common import print_json, selection_options, workspace


@click.command()
@selection_options
@click.option(
    "--from-checkpoint/--fresh",
    "resume",
    default=True,
    help="Go on from the newest whole checkpoint of the pack (default), or start at step 0 again.",
)
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
    resume: bool,
    as_json: bool,
) -> None:
    """Run RUNs that failed or were cancelled again (default: all of them; narrow with the options).

    The request is a file; a running `sweep` or `watch` takes it up at its next pass.
    """
    from jobs.state import RunState
    from orchestrator.cli.asking import ask, choose, preview

    space = workspace(ctx)
    states = (RunState.FAILED, RunState.CANCELLED)
    chosen = choose(space, runs, sweep, failures, labels, states, need_one=False)
    if as_json:
        rows = [{"run": c.run, "pack": c.pack, "from_step": c.checkpoint if resume else 0} for c in chosen]
        print_json({"request": "retry", "fresh": not resume, "dry_run": dry_run, "runs": rows})
    elif not chosen:
        click.echo("No failed or cancelled run to retry.")
    else:
        preview(chosen, limit, begin=lambda one: one.checkpoint if resume else 0)
    if not chosen:
        return
    if dry_run:
        click.echo("Nothing was asked for (--dry-run).", err=True)
        return
    ask(space, "retry", chosen, fresh=not resume, yes=yes)
    click.echo("Asked for. A running sweep takes it up by itself; else: orchestrate watch", err=True)
