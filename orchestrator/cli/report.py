"""`orchestrate report SWEEP`: the page, pictures and tables."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from orchestrator.cli.common import print_json, resolve_sweep, workspace


@click.command()
@click.argument("sweep", required=False)
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Where to write; default: the sweep's own."
)
@click.option("--metric", help="Another metric than the sweep's (makes the report exploratory).")
@click.option("--alpha", type=click.FloatRange(0, 1, min_open=True, max_open=True), help="Another error rate (ditto).")
@click.option("--strict", is_flag=True, help="Exit 1 if a cell has no number; an undecided one is fine.")
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
    A sweep that names no baseline gets a page of means and intervals, without verdicts.
    """
    from dashboards.report import report_content, write_report
    from orchestrator.exit_codes import Exit
    from orchestrator.gather.parquet import gather

    space = workspace(ctx)
    name = resolve_sweep(space, sweep)
    gather(space, name)
    asked: dict[str, Any] = {key: value for key, value in (("metric", metric), ("alpha", alpha)) if value is not None}
    if as_json:
        content = report_content(space.root, name, **asked)
        print_json(content)
    else:
        paths = write_report(space.root, name, out, **asked)
        content = paths.content
        click.echo(f"Report: {paths.page}")
        click.echo(f"Also:   {' '.join(path.name for path in paths.files)}")
    if strict and (blanks := content["without_number"]):
        click.echo(f"{blanks} cell{'s' if blanks > 1 else ''} without a number", err=True)
        sys.exit(Exit.RUNS_FAILED)
