"""`orchestrate report SWEEP_OR_TABLE`: pages, pictures and tables."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from orchestrator.cli.common import naming, print_json, resolve_sweep, workspace
from orchestrator.cli.compare import CORRECTIONS

KINDS = ("matrix", "audit", "scale", "decoupling", "factorial")


@click.command()
@click.argument("source", required=False, metavar="[SWEEP_OR_TABLE]")
@click.option("--kind", type=click.Choice(KINDS), help="What to report; default: what the sweep or the table has.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where to write; default: the sweep's own, or NAME-KIND here for a table.",
)
@click.option("--metric", help="What is compared: a metric (another than the sweep's: exploratory), or a column.")
@click.option("--baseline", help="Arm that all others are compared with (a table's; a sweep names its own).")
@click.option("--alpha", type=click.FloatRange(0, 1, min_open=True, max_open=True), help="Error rate (ditto).")
@click.option("--correction", type=click.Choice(CORRECTIONS), help="For how many tests, and how.")
@click.option("--sigma", help="Which noise: auto, pooled, own, baseline or known:X.")
@click.option("--margin", type=click.FloatRange(0, min_open=True), help="Equivalence margin, in the metric's unit.")
@click.option("--arm-column", help="A table's column of arms [arm, method, variant, modification, model].")
@click.option("--seed-column", help="A table's column of seeds [seed, trial, replicate]; none: every row is a run.")
@click.option("--scale-column", help="A table's column of scales [scale, size].")
@click.option("--task-column", help="A table's column of tasks [task, benchmark].")
@click.option("--class-column", help="A table's column of classes of change [class].")
@click.option("--loss-column", help="A table's column of held-out losses [loss, validation_loss ...].")
@click.option(
    "--lower-is-better/--higher-is-better",
    default=None,
    help="Which way is better; default: the plan's goal, or lower for a metric called loss, perplexity, error ...",
)
@click.option("--strict", is_flag=True, help="Exit 1 if a cell has no number; an undecided one is fine.")
@click.option("--json", "as_json", is_flag=True, help="Print the numbers as JSON and write no page.")
@click.pass_context
def command(
    ctx: click.Context, source: str | None, out: Path | None, strict: bool, as_json: bool, **asked: Any
) -> None:
    """Write the report of a sweep (default: the newest) or of anybody's table (CSV, TSV, JSON lines, Parquet): one page
    that opens from disk, PNG, SVG, CSV, Parquet, JSON, LaTeX.

    Works on a sweep that is not finished: what is missing carries its reason. The tables are brought up to date first.
    A sweep that names no baseline gets a page of means and intervals, without verdicts.

    A table has a row a run, with columns for arm, seed and metric; or a row an arm with `seeds`, `mean` and `sd`, where
    only means were published. audit.csv and olmpool.csv are shipped.
    """
    from dashboards.table_rows import find_table
    from orchestrator.exit_codes import Exit

    table = find_table(source) if source else None
    content = _of_table(table, out, as_json, asked) if table else _of_sweep(ctx, source, out, as_json, asked)
    if as_json:
        print_json(content)
    if strict and (blanks := content["without_number"]):
        click.echo(f"{blanks} cell{'s' if blanks > 1 else ''} without a number", err=True)
        sys.exit(Exit.RUNS_FAILED)


def _of_sweep(
    ctx: click.Context, source: str | None, out: Path | None, as_json: bool, asked: dict[str, Any]
) -> dict[str, Any]:
    from dashboards.report import report_content, write_report
    from dashboards.table_rows import SUFFIXES
    from orchestrator.asked_metric import require_metric
    from orchestrator.gather.parquet import gather

    columns = [name for name, value in asked.items() if name.endswith("_column") and value is not None]
    if columns:
        raise click.UsageError(f"--{columns[0].replace('_', '-')} is for tables; a sweep's labels are its columns")
    space = workspace(ctx)
    if source and Path(source).suffix not in ("", ".yaml"):
        wrong = "no table of this ending can be read" if Path(source).is_file() else "no such file or shipped table"
        raise click.UsageError(f"{source}: {wrong}; give {', '.join(SUFFIXES)}, or the name of a sweep")
    name = resolve_sweep(space, source)
    gather(space, name)
    require_metric(space, name, asked["metric"])
    keys = ("metric", "alpha", "correction", "sigma", "margin")
    block: dict[str, Any] = {key: asked[key] for key in keys if asked[key] is not None}
    if asked["baseline"] is not None:
        block["baseline"] = asked["baseline"]
    if asked["lower_is_better"] is not None:
        block["goal"] = "min" if asked["lower_is_better"] else "max"
    if as_json:
        return report_content(space.root, name, asked["kind"], **block)
    return _said(write_report(space.root, name, out, kind=asked["kind"], **block))


def _of_table(table: Path, out: Path | None, as_json: bool, asked: dict[str, Any]) -> dict[str, Any]:
    from dashboards.sheet_files import sheet_json, write_sheet
    from orchestrator.cli.table_sheets import sheet_of_table

    with naming(table.name):
        sheet = sheet_of_table(table, **asked)
    if as_json:
        return sheet_json(sheet)
    return _said(write_sheet(sheet, out or Path(f"{table.stem}-{sheet.kind}")))


def _said(written: Any) -> dict[str, Any]:
    click.echo(f"Report: {written.page}")
    click.echo(f"Also:   {' '.join(path.name for path in written.files)}")
    return written.content
