"""`orchestrate retry [RUN]...`: run failed and cancelled runs again, exactly as the preview says."""

from __future__ import annotations

import click

from orchestrator.cli.again import to_type, typed, watch_words
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

    A pack's id (`p...`) stands for all its runs.

    The preview says of each pack where it would go on and how exactly: exact, not exact (why), or refused (why; it is
    not asked for, and the exit code is 3); on a cluster also the time limit, the warning and the memory that it would
    ask for, and by whose word. The request is a file; a running `sweep` or `watch` takes it up at its next pass.
    """
    from jobs.state import RunState
    from orchestrator.cli.asking import ask, choose, preview
    from orchestrator.cli.common import Refused
    from orchestrator.job_limits import retried
    from orchestrator.resume import foretell

    space = workspace(ctx)
    states = (RunState.FAILED, RunState.CANCELLED)
    choice = choose(space, runs, sweep, failures, labels, states, need_one=False)
    resumes = {
        pack: foretell(space, of[0].pack, [c.run for c in of], choice.wishes, fresh=not resume, policy=choice.policy)
        for pack, of in choice.packs.items()
    }
    asks = retried(space, choice, {pack: resume.step for pack, resume in resumes.items()})
    if as_json:
        rows = [
            {
                "run": c.run,
                "pack": c.pack.id,
                "from_step": resumes[c.pack.id].step,
                "resume": resumes[c.pack.id].verdict,
                "why": resumes[c.pack.id].why,
                **asks[c.pack.id].payload(),
            }
            for c in choice.runs
        ]
        print_json({"request": "retry", "fresh": not resume, "dry_run": dry_run, "runs": rows})
    elif not choice.runs:
        click.echo("No failed or cancelled run to retry.")
    else:
        preview(space, choice, limit, resumes, asks)
    if not choice.runs:
        return
    refused = [c for c in choice.runs if resumes[c.pack.id].verdict == "refused"]
    taken = [c for c in choice.runs if c not in refused]
    if dry_run:
        click.echo(f"Nothing was asked for. Next: {typed(ctx, space, without=('dry_run', 'as_json'))}", err=True)
    elif taken:
        ask(space, "retry", taken, fresh=not resume, yes=yes)
        again = to_type(space, *watch_words(space))
        click.echo(f"Asked for. A running sweep takes it up by itself; else: {again}", err=True)
    if refused:
        raise Refused(f"{len(refused)} of {len(choice.runs)} runs cannot be resumed: {resumes[refused[0].pack.id].why}")
