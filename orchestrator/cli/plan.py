"""`orchestrate plan FILE`: what a sweep would run and cost. Launches nothing, writes nothing."""

from __future__ import annotations

import click

from jobs.workspace import Workspace
from orchestrator.cli.again import typed
from orchestrator.cli.common import backend_options, print_json, workspace


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

    from orchestrator.cli.piloting import prepare_study
    from orchestrator.cli.plan_view import plan_json, show_plan
    from orchestrator.cli.pricing import price
    from orchestrator.fitting import fit_notices
    from orchestrator.job_limits import planned_limits
    from orchestrator.site_notices import site_notices

    space = workspace(ctx)
    study = prepare_study(space, file, overrides, backend, max_in_flight)
    cost, done = price(space, study.prepared, backend, max_in_flight)
    design = study.prepared.design
    notices = [*study.notices(space), *site_notices(design.packs, backend), *fit_notices(space, design)]
    limits = planned_limits(space, design, backend, done)
    if as_json:
        print_json({**plan_json(study.prepared, cost, done, notices, limits), **study.payload()})
    else:
        study.show(Console(), ctx.obj.verbose > 0)
        show_plan(Console(), study.prepared, cost, done, ctx.obj.verbose > 0, notices, limits)
        click.echo(f"Nothing was launched. Next: {_next(ctx, space)}")


def _next(ctx: click.Context, space: Workspace) -> str:
    """The command that carries out what was shown: `plan` or `sweep --dry-run` as typed, less the showing."""
    origin = ctx.parent if ctx.parent is not None and ctx.parent.info_name == "sweep" else ctx
    return typed(origin, space, verb="sweep", without=("dry_run", "as_json"))
