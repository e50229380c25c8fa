"""`orchestrate watch [SWEEP]...`: the loop by itself, for sweeps that are planned already."""

from __future__ import annotations

import sys

import click

from orchestrator.cli.again import typed
from orchestrator.cli.common import backend_options, print_json, resolve_sweep, workspace


@click.command()
@click.argument("sweeps", nargs=-1, metavar="[SWEEP]...")
@click.option("--once", is_flag=True, help="One pass, then leave: for a cron line on hosts that forbid long processes.")
@click.option("--report", is_flag=True, help="Gather and write the report of each sweep when all is done.")
@click.option("--json", "as_json", is_flag=True, help="Print the state after the last pass as JSON.")
@backend_options
@click.pass_context
def command(
    ctx: click.Context,
    sweeps: tuple[str, ...],
    once: bool,
    report: bool,
    as_json: bool,
    backend: str,
    max_in_flight: int | None,
) -> None:
    """Take up SWEEPs (default: all of the workspace) where they stand: launch, retry, close, until all is done.

    Any number of watchers may work at once, and each may be killed at any moment.
    """
    from rich.console import Console

    from orchestrator.cli.finishing import write_results
    from orchestrator.cli.running import Detached, conclude, counted, make_loop, say_detached, watch
    from orchestrator.exit_codes import Exit

    space = workspace(ctx)
    resolve_sweep(space, None)  # says so where nothing has been planned
    names = [resolve_sweep(space, name) for name in sweeps] or None
    loop = make_loop(space, backend, names, max_in_flight)
    try:
        seen = loop.tick() if once else watch(loop, Console(stderr=True))
    except Detached:
        say_detached(typed(ctx, space))
        return
    finally:
        loop.close()
    for name in (names or seen.counts) if report and seen.done else ():
        click.echo(f"Report: {write_results(space, name)}", err=as_json)
    if as_json:
        counts = {name: {str(k): v for k, v in of.items()} for name, of in seen.counts.items()}
        print_json({"counts": counts, "in_flight": seen.in_flight, "done": seen.done, "trouble": list(seen.trouble)})
    else:
        click.echo(counted(seen))
    code = conclude(seen)
    sys.exit(Exit.OK if once and code == Exit.UNFINISHED else code)
