"""From a table to evidence: its results or means, and what stands beside them in other columns."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dashboards.evidence import Conduct, Evidence, Key, Loss, Trace, number_setting
from dashboards.table_rows import COUNTS, TableRows, Value, words
from sweeps.analysis.decoupling import relative_loss
from sweeps.analysis.direction import reads_as_lower
from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.options import Options
from sweeps.analysis.results import Result
from sweeps.analysis.soundness import check_names
from sweeps.analysis.summaries import Summary

ARMS = ("arm", "method", "architecture", "modification", "model")
SCALES = ("scale", "size")
LOSSES = ("loss", "validation_loss", "val_loss", "test_loss")
EARLY = ("loss_first_128", "early_loss")
TASKS = ("task", "benchmark")


@dataclass(frozen=True)
class Runs:
    """A table's rows as results, and which column was what.

    Attributes:
        results: one a run and task, or empty where only means are known.
        arm, metric, scale: columns; ``kind`` that of classes, ``loss`` that of held-out losses; None: by its name.
    """

    arm: str
    metric: str
    results: tuple[Result, ...] = ()
    scale: str | None = None
    kind: str | None = None
    loss: str | None = None


def means_columns(table: TableRows, arm: str | None = None, scale: str | None = None) -> Runs:
    """The columns of a table of means.

    Raises:
        AnalysisError: no column of arms.
    """
    name = arm or table.settings.get("arm_column") or table.first(ARMS) or "arm"
    table.need(name, "arms", "--arm-column")
    return Runs(name, table.settings.get("metric", "mean"), scale=scale or table.first(SCALES))


def table_evidence(table: TableRows, runs: Runs, baseline: str | None, asked: Mapping[str, Any]) -> Evidence:
    """Evidence from a table.

    Args:
        table: its rows.
        runs: results and columns.
        baseline: the arm others are compared with; where absent, what the table says.
        asked: options that a person gave, None where he gave none.

    Raises:
        AnalysisError: a baseline that is not there; it lists the arms.
    """
    said, baseline = table.settings, baseline or table.settings.get("baseline")
    arms = list(dict.fromkeys(words(row[runs.arm]) for row in table.rows if row.get(runs.arm) is not None))
    if baseline is None or baseline not in arms:
        raise AnalysisError(
            f"{'no baseline was named' if baseline is None else f'no row of {table.file} has the arm {baseline!r}'}; "
            f"name one with --baseline (arms: {', '.join(arms)})"
        )
    reader = _Reader(table, runs.arm, runs.scale)
    chance = number_setting(said, "chance")
    tasks = {r.task for r in runs.results} or {"all"}
    return Evidence(
        name=table.name,
        metric=runs.metric,
        options=_options(baseline, runs.metric, said, asked),
        kicker=table.file,
        remarks=_remarks(table, runs.metric, asked),
        results=runs.results,
        means=reader.means() if not runs.results else (),
        classes=reader.classes(runs.kind or table.first(("class",))),
        losses=reader.losses(runs.loss or table.first(LOSSES), "loss_percent", baseline),
        task_losses=reader.task_losses(runs.loss or table.first(LOSSES), tasks, baseline),
        early=reader.losses(table.first(EARLY), "early_loss_percent", baseline),
        chance={} if chance is None else dict.fromkeys(tasks, chance),
        traces=reader.traces(),
        ranks=reader.whole("rank"),
        nan_steps=reader.whole("nan_step"),
        settings=said,
        conduct=_conduct(said),
    )


def _remarks(table: TableRows, metric: str, asked: Mapping[str, Any]) -> tuple[str, ...]:
    found = (" ".join(table.remarks),) if table.remarks else ()
    if asked.get("lower_is_better") is None and reads_as_lower(metric):
        found += (f"Lower is taken as better, by the name {metric}.",)
    return found


def _options(baseline: str, metric: str, said: Mapping[str, str], asked: Mapping[str, Any]) -> Options:
    stated: dict[str, Any] = {"lower_is_better": reads_as_lower(metric)}
    if "family" in said:
        stated["family"] = int(number_setting(said, "family") or 0)
    for name in ("alpha", "margin"):
        if name in said:
            stated[name] = number_setting(said, name)
    for name in ("correction", "sigma"):
        if name in said:
            stated[name] = said[name]
    return Options(baseline, **(stated | {k: v for k, v in asked.items() if v is not None}))


def _conduct(said: Mapping[str, str]) -> Conduct:
    books = number_setting(said, "codebases")
    yes = {"yes": True, "no": False}
    tuned = yes.get(said.get("tuned", ""))
    return Conduct(
        codebases=None if books is None else int(books),
        fixed_rates=None if tuned is None else not tuned,
        declared=yes.get(said.get("declared", "")),
        parity=yes.get(said.get("parity", "")),
        omitted=yes.get(said.get("omitted", "")),
    )


@dataclass(frozen=True)
class _Reader:
    table: TableRows
    arm: str
    scale: str | None

    def key(self, row: Mapping[str, Value]) -> Key:
        return words(row.get(self.arm)), self._scale(row)

    def _scale(self, row: Mapping[str, Value]) -> str | None:
        value = row.get(self.scale) if self.scale else None
        return None if value is None else words(value)

    def means(self) -> tuple[Summary, ...]:
        """What was published of every arm and scale.

        Raises:
            AnalysisError: two rows of one arm, an arm under two names, several tasks, what is no number.
        """
        count, made = self.table.first(COUNTS) or "seeds", []
        for row in self.table.rows:
            arm, scale = self.key(row)
            n, reason = self._published(row, count) or 0.0, row.get("reason")
            if n < 0 or not n.is_integer():
                raise AnalysisError(f"{self.table.file}: {count} of arm {arm!r} is {n:g}; give how many runs it is of")
            made.append(
                Summary(arm, int(n), self._published(row, "mean"), self._published(row, "sd"), scale=scale,
                        diverged=int(_number(row.get("diverged")) or 0), reason=None if reason is None else str(reason))
            )  # fmt: skip
        self._one_row_an_arm(made)
        return tuple(made)

    def _published(self, row: Mapping[str, Value], column: str) -> float | None:
        value, arm = row.get(column), words(row.get(self.arm))
        if value is not None and not isinstance(value, float):
            raise AnalysisError(
                f"{self.table.file}: {column} of arm {arm!r} is {value!r}, which is no number; "
                "leave it empty where there is none, and say why in a column `reason`"
            )
        if column == "sd" and value is not None and value < 0:
            raise AnalysisError(f"{self.table.file}: sd of arm {arm!r} is {value:g}; an sd is no less than 0")
        return value

    def _one_row_an_arm(self, made: Sequence[Summary]) -> None:
        task = self.table.first(TASKS)
        tasks = {words(row.get(task)) for row in self.table.rows} if task else set()
        if len(tasks) > 1:
            raise AnalysisError(
                f"{self.table.file}: means of several tasks ({', '.join(sorted(tasks)[:4])}) cannot share one "
                "baseline; keep the rows of one task, or give a row a run"
            )
        doubled = [key for key, count in Counter((s.arm, s.scale) for s in made).items() if count > 1]
        if doubled:
            arm, scale = doubled[0]
            at = "" if scale is None else f" at {scale}"
            raise AnalysisError(f"{self.table.file}: several rows of arm {arm!r}{at}; keep one mean of each")
        check_names([Result(s.arm, "all", seed=0, value=s.mean, scale=s.scale) for s in made])

    def classes(self, kind: str | None) -> dict[str, str]:
        if kind is None:
            return {}
        return {words(row[self.arm]): words(row[kind]) for row in self.table.rows if row.get(kind) is not None}

    def losses(self, column: str | None, percent: str, baseline: str) -> dict[Key, Loss]:
        """Relative losses, as the table gives them or from the runs' own losses against the baseline's mean."""
        if percent in self.table.columns:
            given = {self.key(row): _number(row.get(percent)) for row in self.table.rows}
            return {key: Loss(value, None) for key, value in given.items() if value is not None}
        if column is None:
            return {}
        found: dict[Key, list[float]] = {}
        for row in self.table.rows:
            if (value := _number(row.get(column))) is not None:
                found.setdefault(self.key(row), []).append(value)
        return relative_losses(found, baseline)

    def task_losses(self, column: str | None, tasks: set[str], baseline: str) -> dict[str, dict[Key, Loss]]:
        """The same task by task, where the table has a loss for each; empty with one task or none."""
        name = self.table.first(TASKS)
        if name is None or len(tasks) < 2 or "loss_percent" in self.table.columns:
            return {}
        parts = {task: [row for row in self.table.rows if words(row.get(name)) == task] for task in tasks}
        return {
            task: _Reader(replace(self.table, rows=tuple(rows)), self.arm, self.scale).losses(column, "", baseline)
            for task, rows in sorted(parts.items())
        }

    def traces(self) -> tuple[Trace, ...]:
        """Published points ``4000:27 5600:1578``, and the step of the first non-finite value after them."""
        made = []
        for row in self.table.rows:
            text = row.get("norms")
            if not isinstance(text, str):
                continue
            points = [point.split(":") for point in text.split()]
            steps, norms = [int(p[0]) for p in points], [float(p[1]) for p in points]
            if (end := _number(row.get("nan_step"))) is not None:
                steps, norms = [*steps, int(end)], [*norms, math.nan]
            made.append(
                Trace(words(row.get(self.arm)), tuple(steps), tuple(norms), published=True, scale=self._scale(row))
            )
        return tuple(made)

    def whole(self, column: str) -> dict[Key, int]:
        found = {self.key(row): _number(row.get(column)) for row in self.table.rows}
        return {key: int(value) for key, value in found.items() if value is not None}


def relative_losses(found: Mapping[Key, Sequence[float]], baseline: str) -> dict[Key, Loss]:
    """Percent against the baseline at the same scale, with the error of the ratio of two means (first order)."""
    made: dict[Key, Loss] = {}
    for (arm, scale), values in found.items():
        base = found.get((baseline, scale))
        if not base:
            continue
        ours, theirs = math.fsum(values) / len(values), math.fsum(base) / len(base)
        parts = [_relative_variance(values, ours), _relative_variance(base, theirs)]
        known = [part for part in parts if part is not None]
        error = 100 * ours / theirs * math.sqrt(math.fsum(known)) if len(known) == 2 else None
        made[arm, scale] = Loss(relative_loss(ours, theirs), error)
    return made


def _relative_variance(values: Sequence[float], mean: float) -> float | None:
    if len(values) < 2:
        return None
    return math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1) / len(values) / mean**2


def _number(value: Value) -> float | None:
    return value if isinstance(value, float) else None
