"""`orchestrate report SWEEP`: the page, pictures and tables."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from orchestrator.cli.common import print_json, resolve_sweep, workspace


@click.command()
@click.argument("sweep", required=False)
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Where to write; default: the sweep's own."
)
@click.option("--metric", help="Another metric than the sweep's (makes the report exploratory).")
@click.option("--alpha", type=click.FloatRange(0, 1, min_open=True, max_open=True), help="Another error rate (ditto).")
@click.option("--strict", is_flag=True, help="Exit 1 if a cell has a reason instead of a number.")
@click.option("--json", "as_json", is_flag=True, help="Print the report's numbers as JSON and write nothing.")
@click.pass_context
def command(
    ctx: click.Context,
    sweep: str | None,
    out: Path | None,
    metric: str | None,
    alpha: float | None,
    strict: bool,
    as_json: bool,
) -> None:
    """Write the report of SWEEP (default: the newest): one page that opens from disk, PNG, SVG, CSV, Parquet, JSON.

    Works on a sweep that is not finished: what is missing carries its reason. The tables are brought up to date first.
    """
    from dashboards.report import report_content, write_report
    from orchestrator.exit_codes import Exit
    from orchestrator.gather.parquet import gather

    space = workspace(ctx)
    name = resolve_sweep(space, sweep)
    gather(space, name)
    asked = {key: value for key, value in (("metric", metric), ("alpha", alpha)) if value is not None}
    if as_json:
        content = report_content(space.root, name, **asked)
        print_json(content)
    else:
        paths = write_report(space.root, name, out, **asked)
        content = paths.content
        click.echo(f"Report: {paths.page}")
        click.echo(f"Also:   {paths.png.name} {paths.svg.name} {paths.csv.name} {paths.parquet.name} {paths.json.name}")
    if strict and any(cell["reason"] for cell in content["cells"]):
        sys.exit(Exit.RUNS_FAILED)
