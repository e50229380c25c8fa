"""Where `orchestrate compare` takes its results from, and what it makes of its flags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.results import Result, without_value

if TYPE_CHECKING:
    from orchestrator.gather.read_table import Row
    from sweeps.analysis.looks import Look, Spending
    from sweeps.analysis.options import Options


@dataclass(frozen=True)
class Asked:
    """The flags of the command."""

    baseline: str | None = None
    metric: str | None = None
    arm_column: str | None = None
    seed_column: str | None = None
    task_column: str | None = None
    scale_column: str | None = None
    search_column: str | None = None
    item_column: str | None = None
    config_column: str | None = None
    where: tuple[str, ...] = ()
    tracking_uri: str | None = None
    correction: str | None = None
    alpha: float | None = None
    margin: float | None = None
    sigma: str | None = None
    paired: bool = False
    directional: bool = False
    lower_is_better: bool | None = None
    chance: tuple[str, ...] = ()
    family: int | None = None
    look: str | None = None
    spending: Spending = "obrien-fleming"


@dataclass(frozen=True)
class Loaded:
    """Results with what is known of them.

    Attributes:
        source: where they are from, for messages.
        metric: what is compared.
        baseline: the baseline the source names, or None.
        results: one a run (and item).
        notes: what a reader must know, such as departures from a frozen plan.
        looks: information shares of the planned looks, where the source has a plan.
        rule: what the source says of correction, sigma, alpha, margin, pairing and direction; flags come first.
        groups: what each result's task is called there, such as ``lr`` in a grid without tasks.
    """

    source: str
    metric: str
    baseline: str | None
    results: tuple[Result, ...]
    notes: tuple[str, ...] = ()
    looks: tuple[float, ...] = ()
    rule: Mapping[str, Any] = field(default_factory=dict)
    groups: str = "task"


def load(source: str, asked: Asked, root: Path) -> Loaded:
    """Read a table file, an MLflow experiment (``mlflow:NAME``), or a sweep of the workspace.

    Raises:
        AnalysisError: none of these, or a table that cannot be read; the message names place, value and fix.
    """
    from orchestrator.gather.mlflow_read import PREFIX, read_experiment
    from orchestrator.gather.read_table import read_rows

    if source.startswith(PREFIX):
        return _table(source, read_experiment(source.removeprefix(PREFIX), asked.tracking_uri), asked)
    path = Path(source)
    if path.suffix or path.exists():
        return _table(source, read_rows(path), asked)
    return _sweep(source, asked, root)


def options_of(table: Loaded, asked: Asked) -> Options:
    """The engine's options from the flags and from what the source says.

    Raises:
        AnalysisError: no baseline, or a flag that cannot be read.
    """
    from sweeps.analysis.looks import planned_look
    from sweeps.analysis.options import Options

    baseline = asked.baseline or table.baseline
    if baseline is None:
        arms = ", ".join(sorted({r.arm for r in table.results}))
        raise AnalysisError(f"{table.source}: which arm is the baseline? give --baseline one of {arms}")
    return Options(
        baseline=baseline,
        directional=asked.directional,
        look=_look(asked) if asked.look else planned_look(table.looks, table.results),
        chance=_chance(asked.chance, {r.task for r in table.results}),
        family=asked.family,
        **(dict(table.rule) | _said(asked)),
    )


def _said(asked: Asked) -> dict[str, Any]:
    """The rule's keywords that were given as flags."""
    names = ("correction", "alpha", "margin", "sigma", "lower_is_better")
    said = {name: getattr(asked, name) for name in names if getattr(asked, name) is not None}
    return said | ({"paired": True} if asked.paired else {})


def _table(source: str, rows: Sequence[Row], asked: Asked) -> Loaded:
    from orchestrator.gather.mixed_settings import mixed_settings
    from orchestrator.gather.read_table import find_columns, to_results
    from sweeps.analysis.direction import reads_as_lower

    notes = []
    for condition in asked.where:
        kept = _filtered(source, rows, condition)
        notes.append(f"only rows with {condition}, {len(kept)} of {len(rows)}: the family is what is left")
        rows = kept
    columns = find_columns(
        rows,
        source,
        arm=asked.arm_column,
        seed=asked.seed_column,
        metric=asked.metric,
        task=asked.task_column,
        scale=asked.scale_column,
        search=asked.search_column,
        item=asked.item_column,
        config=asked.config_column,
    )
    rule: dict[str, Any] = {}
    if asked.lower_is_better is None and reads_as_lower(columns.metric):
        rule["lower_is_better"] = True
        notes.append(f"lower is taken as better, by the name {columns.metric!r}; --higher-is-better says otherwise")
    notes += mixed_settings(rows, columns)
    results = tuple(to_results(rows, columns))
    if lacking := without_value(results):
        lost = sum(r.value is None for r in results)
        share = f"{lost} of {len(results)}"
        notes.append(f"rows without a value of {columns.metric}, which enter no mean: {share} ({lacking})")
    return Loaded(source, columns.metric, None, results, tuple(notes), rule=rule, groups=columns.task or "task")


def _sweep(name: str, asked: Asked, root: Path) -> Loaded:
    from dashboards.block import analysis_block, planned_options
    from jobs.workspace import Workspace
    from orchestrator.asked_metric import require_metric
    from orchestrator.cli.common import sweep_names
    from orchestrator.gather.parquet import gather
    from sweeps.analysis.direction import reads_as_lower
    from sweeps.layout import find_layout
    from sweeps.scores import load_results
    from sweeps.tables import read_runs

    space = Workspace(root)
    if not (space.sweeps / name / "plan.jsonl").is_file():
        raise AnalysisError(
            f"{name!r} is no file, no mlflow:EXPERIMENT and no sweep in {root} "
            f"(it has {', '.join(sweep_names(space)) or 'none'}); name one, or its workspace with --root"
        )
    gather(space, name)
    require_metric(space, name, asked.metric)
    runs = read_runs(root, name)
    block, departures, notes = analysis_block(root, name, runs, {"metric": asked.metric})
    layout = find_layout(runs, block)
    rule = planned_options(block)
    if asked.metric is not None and any(d.startswith("metric = ") for d in departures):
        # The planned goal and margin were meant for another metric.
        rule |= {"lower_is_better": reads_as_lower(asked.metric), "margin": None}
    chosen = {**_said(asked), **({"baseline": asked.baseline} if asked.baseline else {})}
    planned = {"correction": "dunnett", "sigma": "auto", **rule, "baseline": layout.baseline}
    departures += [f"{k} = {v!r}, planned {planned[k]!r}" for k, v in chosen.items() if planned[k] != v]
    looks = tuple(float(x) for x in block.get("looks") or ())
    if asked.look is not None:
        departures.append(f"look = {asked.look}, planned at {', '.join(f'{x:g}' for x in looks) or 'the end'}")
    notes = [*notes, *([f"exploratory: {'; '.join(departures)}"] if departures else [])]
    results = load_results(root, name, asked.metric, layout=layout)
    metric = str(block.get("metric") or asked.metric)
    groups = ", ".join(layout.columns) or "task"
    return Loaded(name, metric, layout.baseline, tuple(results), tuple(notes), looks, rule, groups)


def _filtered(source: str, rows: Sequence[Row], condition: str) -> list[Row]:
    column, sign, value = condition.partition("=")
    if not sign:
        raise AnalysisError(f"--where {condition!r}: write COLUMN=VALUE")
    if not any(column in row.values for row in rows):
        raise AnalysisError(f"{source}: no column {column!r} to filter by")
    kept = [row for row in rows if str(row.values.get(column)) == value]
    if not kept:
        levels = ", ".join(sorted({str(row.values.get(column)) for row in rows})[:12])
        raise AnalysisError(f"{source}: no row has {column} = {value!r}; it holds {levels}")
    return kept


def _look(asked: Asked) -> Look:
    from sweeps.analysis.looks import Look

    now, _, total = (asked.look or "").partition("/")
    if not (now.isdigit() and total.isdigit() and 1 <= int(now) <= int(total)):
        raise AnalysisError(f"--look {asked.look!r}: write K/N, such as 1/3 for the first of three planned looks")
    return Look(tuple((i + 1) / int(total) for i in range(int(total))), int(now), asked.spending)


def _chance(given: Sequence[str], tasks: set[str]) -> dict[str, float]:
    levels: dict[str, float] = {}
    for text in given:
        task, _, value = text.rpartition("=")
        try:
            level = float(value)
        except ValueError:
            raise AnalysisError(f"--chance {text!r}: write a number, or TASK=NUMBER") from None
        if task and task not in tasks:
            raise AnalysisError(f"--chance {text!r}: no task {task!r}; there are {', '.join(sorted(tasks))}")
        for name in [task] if task else sorted(tasks):
            levels[name] = level
    return levels
