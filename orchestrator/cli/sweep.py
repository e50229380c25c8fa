"""`orchestrate sweep FILE`: plan, ask if it is long, launch, watch, gather, report. Safe to type again at any time."""

from __future__ import annotations

import sys

import click

from jobs.workspace import Workspace
from orchestrator.cli.again import to_type, typed
from orchestrator.cli.common import backend_options, check_writable, confirm, print_json, workspace

ASK_ABOVE_HOURS = 0.5


@click.command()
@click.argument("file")
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("-n", "--dry-run", is_flag=True, help="Show the plan and launch nothing (the same as `plan`).")
@click.option("-y", "--yes", is_flag=True, envvar="ORCHESTRATE_YES", help="Ask nothing [$ORCHESTRATE_YES].")
@click.option("-d", "--detach", is_flag=True, help="Launch in the background and return at once.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
@backend_options
@click.pass_context
def command(
    ctx: click.Context,
    file: str,
    overrides: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    detach: bool,
    as_json: bool,
    backend: str,
    max_in_flight: int | None,
) -> None:
    """Run every run of FILE (a path or a shipped recipe), watch it, gather the results and write the report.

    KEY=VALUE overrides the file, in OmegaConf's dot-list syntax; preset=NAME chooses one of its presets. What has been
    done already, in this sweep or any other of the workspace, is not done again. Ctrl-C detaches; the same command (or
    `orchestrate watch`) takes up again. Where a pilot must choose values of FILE first, it is run first.
    """
    if dry_run:
        from orchestrator.cli.plan import command as plan

        ctx.invoke(plan, file=file, overrides=overrides, as_json=as_json, backend=backend, max_in_flight=max_in_flight)
        return
    from rich.console import Console

    from orchestrator.cli.detaching import detach_sweep, detach_watch
    from orchestrator.cli.finishing import finish
    from orchestrator.cli.piloting import prepare_study, question, run_pilots
    from orchestrator.cli.plan_view import show_plan
    from orchestrator.cli.pricing import price
    from orchestrator.fitting import fit_notices
    from orchestrator.job_limits import planned_limits
    from orchestrator.planning import commit, freeze_analysis, prepare
    from orchestrator.site_notices import site_notices

    space = workspace(ctx)
    check_writable(space)
    console = Console(stderr=True)
    study = prepare_study(space, file, overrides, backend, max_in_flight)
    prepared = study.prepared
    cost, done = price(space, prepared, backend, max_in_flight)
    # A mistake in the site profile is told before the plan.
    notices = [*site_notices(prepared.design.packs, backend), *fit_notices(space, prepared.design)]
    if not as_json:
        study.show(console, ctx.obj.verbose > 0)
        limits = planned_limits(space, prepared.design, backend, done)
        show_plan(console, prepared, cost, done, ctx.obj.verbose > 0, [*study.notices(space), *notices], limits)
    if cost.wall_hours + study.pilot_hours > ASK_ABOVE_HOURS:
        smaller = _smaller(space, prepared.design.source, file)
        confirm(question(study, cost), yes=yes, otherwise=f"say --yes to go on{smaller}")
    if study.first:
        again = typed(ctx, space)
        if detach:
            detach_sweep(space, prepared.name, file, overrides, backend, max_in_flight, as_json=as_json)
            return
        tables = run_pilots(space, file, overrides, backend, max_in_flight, console, again)
        prepared = prepare(space, file, overrides, tables)
        if not as_json:
            cost, done = price(space, prepared, backend, max_in_flight)
            limits = planned_limits(space, prepared.design, backend, done)
            show_plan(console, prepared, cost, done, ctx.obj.verbose > 0, notices, limits)
    commit(space, prepared)
    if not freeze_analysis(space, prepared):
        click.echo(
            "notice: the analysis block differs from the one frozen at first launch; reports keep the frozen one",
            err=True,
        )
    limit = max_in_flight or prepared.design.settings.get("max_in_flight")
    if detach:
        detach_watch(space, prepared.name, backend, limit, as_json=as_json)
        return
    outcome = finish(space, prepared.name, backend, limit, console, as_json=as_json)
    if as_json:
        print_json(outcome.payload)
    sys.exit(outcome.code)


def _smaller(space: Workspace, source: object, file: str) -> str:
    """Names the preset that fits a machine like this one, where the recipe has one and it was not asked for."""
    from sweeps.shipped import presets_of

    presets = [name for name in presets_of(file) if name == "mini"]
    if not presets or (isinstance(source, dict) and source.get("preset") == "mini"):
        return ""
    return f", or run the smaller preset: {to_type(space, 'sweep', file, 'preset=mini')}"
