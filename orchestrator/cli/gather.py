"""`orchestrate gather [SWEEP]`: facts into Parquet tables, and into MLflow."""

from __future__ import annotations

import dataclasses
import sys

import click

from orchestrator.cli.common import print_json, resolve_sweep, workspace


@click.command()
@click.argument("sweep", required=False)
@click.option("--mlflow/--no-mlflow", default=True, help="Also fill the MLflow tracking store.")
@click.option("--tracking-uri", help="The store; default $MLFLOW_TRACKING_URI, else SQLite beside the tables.")
@click.option("--json", "as_json", is_flag=True, help="Print what was gathered as JSON.")
@click.pass_context
def command(ctx: click.Context, sweep: str | None, mlflow: bool, tracking_uri: str | None, as_json: bool) -> None:
    """Bring the tables of SWEEP (default: the newest) up to date, and send what has ended to MLflow.

    Safe at any time and as often as you like: nothing is sent twice, and a store that is down is caught up later.
    """
    from orchestrator.exit_codes import Exit
    from orchestrator.gather.mlflow_export import default_uri, export_sweep
    from orchestrator.gather.parquet import gather

    space = workspace(ctx)
    name = resolve_sweep(space, sweep)
    gathered = gather(space, name)
    exported = export_sweep(space, name, tracking_uri) if mlflow else None
    if as_json:
        payload = {"sweep": name, "tables": dataclasses.asdict(gathered)}
        print_json({**payload, "mlflow": None if exported is None else dataclasses.asdict(exported)})
    else:
        states = ", ".join(f"{count} {state}" for state, count in gathered.states.items() if count)
        click.echo(f"{name}: {gathered.runs} runs ({states}), {gathered.points} points on curves")
        click.echo(f"Tables: {space.runs_table(name).parent}")
        if exported is not None:
            click.echo(
                f"MLflow: {exported.sent} runs sent, {exported.already} there already, {exported.left} left "
                f"({tracking_uri or default_uri(space)})"
            )
    if exported is not None and exported.error:
        click.echo(f"MLflow could not take everything: {exported.error}; `orchestrate gather` tries again", err=True)
        sys.exit(Exit.UNREACHABLE)
