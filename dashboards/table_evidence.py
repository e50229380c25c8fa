"""From a table's rows to evidence: which column is what, run by run or only means."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dashboards.evidence import Conduct, Evidence, Key, Loss, Trace, number_setting
from dashboards.table_rows import TableRows, Value, words
from sweeps.analysis.decoupling import relative_loss
from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.options import Options
from sweeps.analysis.results import Result
from sweeps.analysis.summaries import Summary

ARMS = ("arm", "method", "architecture", "modification", "model")
COUNTS = ("seeds", "n", "runs")
LOSSES = ("loss", "validation_loss", "val_loss", "test_loss")
EARLY = ("loss_first_128", "early_loss")


@dataclass(frozen=True)
class Names:
    """Which column is what, as far as a person (or the table's own ``#:`` lines) said; None: found by its name."""

    arm: str | None = None
    seed: str | None = None
    metric: str | None = None
    scale: str | None = None
    task: str | None = None
    kind: str | None = None
    loss: str | None = None
    baseline: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def table_evidence(table: TableRows, names: Names | None = None) -> Evidence:
    """Evidence from a table.

    Raises:
        AnalysisError: a column or the baseline that is not there; it lists what there is.
    """
    names = names or Names()
    said = table.settings
    arm = names.arm or said.get("arm_column") or table.first(ARMS) or "arm"
    table.need(arm, "arms", "--arm-column")
    seed = names.seed or table.first(("seed",))
    count = table.first(COUNTS)
    only_means = seed is None and count is not None and "mean" in table.columns
    metric = "mean" if only_means else names.metric or said.get("metric")
    if metric is None:
        known = ", ".join(table.columns)
        raise AnalysisError(f"say which column of {table.file} is compared: --metric (columns: {known})")
    table.need(metric, "metric", "--metric")
    if not only_means:
        table.need(seed or "seed", "seeds", "--seed-column")
    scale = names.scale or table.first(("scale", "size"))
    baseline = names.baseline or said.get("baseline")
    arms = list(dict.fromkeys(words(row[arm]) for row in table.rows if row.get(arm) is not None))
    if baseline is None or baseline not in arms:
        raise AnalysisError(
            f"{'no baseline was named' if baseline is None else f'no row of {table.file} has the arm {baseline!r}'}; "
            f"name one with --baseline (arms: {', '.join(arms)})"
        )
    options = _options(baseline, said, names.options)
    task = names.task or table.first(("task",))
    kind = names.kind or table.first(("class",))
    reader = _Reader(table, arm, scale)
    chance = number_setting(said, "chance")
    tasks = {words(r[task]) for r in table.rows if r.get(task) is not None} if task else {"all"}
    return Evidence(
        name=table.name,
        metric=said.get("metric", metric) if only_means else metric,
        options=options,
        kicker=table.file,
        remarks=(" ".join(table.remarks),) if table.remarks else (),
        results=() if only_means else reader.results(metric, seed or "seed", task),
        means=reader.means(count or "seeds") if only_means else (),
        classes=reader.classes(kind),
        losses=reader.losses(names.loss or table.first(LOSSES), "loss_percent", baseline),
        early=reader.losses(table.first(EARLY), "early_loss_percent", baseline),
        chance={} if chance is None else dict.fromkeys(tasks, chance),
        traces=reader.traces(),
        ranks=reader.whole("rank"),
        nan_steps=reader.whole("nan_step"),
        settings=said,
        conduct=_conduct(said),
    )


def _options(baseline: str, said: Mapping[str, str], asked: Mapping[str, Any]) -> Options:
    stated: dict[str, Any] = {}
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

    def results(self, metric: str, seed: str, task: str | None) -> tuple[Result, ...]:
        made = []
        for index, row in enumerate(self.table.rows, start=1):
            arm, scale = self.key(row)
            number = row.get(seed)
            if not isinstance(number, float) or number != int(number):
                raise AnalysisError(f"{self.table.file}, row {index}: seed {number!r} is no whole number")
            value = row.get(metric)
            reason = row.get("reason")
            if isinstance(value, str):
                reason, value = f"{metric} is {value}", None
            lost = row.get("diverged") in (1.0, "true", "True", "yes")
            why = str(reason or "no value in the table")
            made.append(
                Result(arm, words(row[task]) if task and row.get(task) is not None else "all", int(number),
                       value=value, reason=None if value is not None else why, diverged=lost, scale=scale)
            )  # fmt: skip
        return tuple(made)

    def means(self, count: str) -> tuple[Summary, ...]:
        made = []
        for row in self.table.rows:
            arm, scale = self.key(row)
            n, reason = _number(row.get(count)), row.get("reason")
            made.append(
                Summary(arm, int(n or 0), _number(row.get("mean")), _number(row.get("sd")), scale=scale,
                        diverged=int(_number(row.get("diverged")) or 0), reason=None if reason is None else str(reason))
            )  # fmt: skip
        return tuple(made)

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
