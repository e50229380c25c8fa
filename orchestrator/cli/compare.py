"""`orchestrate compare RESULTS`: verdicts on anybody's table of results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from orchestrator.cli.comparing import Asked, Loaded

CORRECTIONS = ("none", "bonferroni", "sidak", "holm", "hommel", "bh", "by", "dunnett")


@click.command()
@click.argument("results", metavar="RESULTS")
@click.option("--baseline", help="Arm the others are compared with; of a sweep: what its plan names.")
@click.option("--metric", help="Column (or summary value of a sweep) to compare.")
@click.option("--arm-column", help="Column of the arms.")
@click.option("--seed-column", help="Column of the seeds; 'none' where every row is a run of its own.")
@click.option("--task-column", help="Column of the tasks; each is compared on its own, in one family.")
@click.option("--scale-column", help="Column of the scales; ditto.")
@click.option("--search-column", help="Column of the search that seeds are nested in.")
@click.option("--item-column", help="Column of the test items, where there is a row per item.")
@click.option("--config-column", help="Column that decides the result, such as a config hash: one per arm.")
@click.option("--where", multiple=True, metavar="COLUMN=VALUE", help="Only rows with this value (repeatable).")
@click.option("--tracking-uri", envvar="MLFLOW_TRACKING_URI", help="MLflow store [$MLFLOW_TRACKING_URI].")
@click.option("--correction", type=click.Choice(CORRECTIONS), help="Default: what a sweep's plan says, else dunnett.")
@click.option(
    "--alpha",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Error rate; default: the plan's, or 0.05.",
)
@click.option("--margin", type=float, help="Equivalence margin, in the metric's unit.")
@click.option("--sigma", help="auto, own, pooled, baseline, or known:X; default: what a sweep's plan says, else auto.")
@click.option("--paired", is_flag=True, help="Pair by seed: only where equal seeds share their data order.")
@click.option("--directional", is_flag=True, help="Improvers and degraders as two one-sided families.")
@click.option(
    "--lower-is-better/--higher-is-better",
    default=None,
    help="Which way is better; default: the plan's goal, or lower for a metric called loss, perplexity, error ...",
)
@click.option("--chance", multiple=True, metavar="[TASK=]VALUE", help="Level at which diverged runs count.")
@click.option("--family", type=click.IntRange(1), help="Size of the family, if larger than the arms in the table.")
@click.option("--look", metavar="K/N", help="This is look K of N planned, evenly spaced; alpha is spent accordingly.")
@click.option(
    "--spending", type=click.Choice(["obrien-fleming", "pocock"]), default="obrien-fleming", show_default=True
)
@click.option("--protocol", type=click.Choice(["audit"]), help="The 2026 audit's own rule, and t beside it.")
@click.option("--checklist", is_flag=True, help="Grade the claim by what its table lacks (R1 to R12).")
@click.option("--drawn", is_flag=True, help="Print bootstrap intervals too: to draw in a figure, never to decide by.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON document.")
@click.pass_context
def command(
    ctx: click.Context, results: str, protocol: str | None, checklist: bool, drawn: bool, as_json: bool, **flags: Any
) -> None:
    """Compare every arm of RESULTS with a baseline, honestly.

    RESULTS is a CSV, TSV, Parquet or JSONL file with a row per run, mlflow:EXPERIMENT, or the name of a sweep.
    Each arm gets a verdict in words, with its test, n, degrees of freedom, sigma and family.
    """
    from orchestrator.cli.common import naming
    from orchestrator.cli.comparing import Asked, load

    asked = Asked(**flags)
    root = ctx.obj.root if ctx.obj is not None else Path("runs")
    with naming(results):
        _compare(load(results, asked, root), asked, protocol, checklist, drawn, as_json)


def _compare(table: Loaded, asked: Asked, protocol: str | None, checklist: bool, drawn: bool, as_json: bool) -> None:
    from orchestrator.cli import compare_view as view
    from orchestrator.cli.common import print_json
    from orchestrator.cli.comparing import options_of
    from orchestrator.gather.read_table import NUMBERED
    from sweeps.analysis import checklist as rules
    from sweeps.analysis.beside import combined_tasks, drawn_intervals
    from sweeps.analysis.comparison import compare
    from sweeps.analysis.item_errors import with_item_errors
    from sweeps.analysis.items import per_run

    options, runs = options_of(table, asked), per_run(table.results)
    if checklist:
        declared = asked.correction is not None or "alpha" in table.rule
        items = rules.checklist(runs, table.metric, options, declared=declared)
        print_json(view.plain_checklist(items)) if as_json else view.show_checklist(items)
    elif protocol == "audit":
        lines = view.audits(runs, options)
        print_json(view.plain_audits(lines, runs)) if as_json else view.show_audits(lines, options, runs)
    else:
        found = with_item_errors(compare(runs, options), table.results)
        combined = combined_tasks(found, runs, numbered=asked.seed_column == NUMBERED)
        intervals = drawn_intervals(found, table.results) if drawn or as_json else None
        if as_json:
            print_json(view.plain(found, table, combined, intervals or ()))
        else:
            view.show(found, table, combined, intervals)
