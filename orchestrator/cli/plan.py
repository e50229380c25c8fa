"""`orchestrate plan FILE`: what a sweep would run and cost. Launches nothing, writes nothing."""

from __future__ import annotations

import shlex

import click

from orchestrator.cli.common import backend_options, prefix, print_json, workspace


@click.command()
@click.argument("file")
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
@backend_options
@click.pass_context
def command(
    ctx: click.Context, file: str, overrides: tuple[str, ...], as_json: bool, backend: str, max_in_flight: int | None
) -> None:
    """Show what FILE (a path or a shipped recipe) would run: runs, what is done already, what is left out and why,
    parameters and FLOPs of each cell (-v), hours, disk.

    KEY=VALUE overrides the file, in OmegaConf's dot-list syntax; preset=NAME chooses one of its presets.
    """
    from rich.console import Console

    from orchestrator.cli.plan_view import plan_json, show_plan
    from orchestrator.cli.pricing import price
    from orchestrator.planning import prepare
    from orchestrator.site_notices import site_notices

    space = workspace(ctx)
    prepared = prepare(space, file, overrides)
    cost, done = price(space, prepared, backend, max_in_flight)
    notices = site_notices(prepared.design.packs, backend)
    if as_json:
        print_json(plan_json(prepared, cost, done, notices))
    else:
        show_plan(Console(), prepared, cost, done, ctx.obj.verbose > 0, notices)
        click.echo(f"Nothing was launched. Next: orchestrate {prefix(space)}{shlex.join(('sweep', file, *overrides))}")
