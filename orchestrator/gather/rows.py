"""A plan's runs as rows of the runs table: what was planned, joined with what the attempts left behind."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa

from jobs.facts import FailureClass, Finished
from jobs.state import RunState, RunStatus
from orchestrator.gather.curves import FLAGS
from orchestrator.gather.evidence import PackEvidence, shared_columns
from sweeps.layout import text
from sweeps.plan_file import Plan
from sweeps.tables import FLAG, LABEL, RUN_FIELDS, SUMMARY, runs_schema


def reason_of(status: RunStatus) -> str | None:
    """Why a run has no result, in a few words that runs of one kind share; None for a completed one."""
    if status.state == RunState.COMPLETED:
        return None
    if status.failure == FailureClass.DIVERGED:
        return f"diverged at step {status.step}"
    if status.state == RunState.FAILED:
        return f"failed: {(status.failure or FailureClass.UNKNOWN).value.replace('_', ' ')}"
    return status.state.value


class RunColumns:
    """Rows of the runs table, taken up pack by pack and kept as columns: a dictionary for each of a hundred thousand
    runs, and turning them, would take longer than reading all that they hold."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._columns: dict[str, list[Any]] = {name: [] for name, _ in RUN_FIELDS}
        """A column ends at the last row that has something there."""

    def add(self, pack: str, evidence: PackEvidence) -> None:
        """The rows of a pack's runs that belong to the plan, in the order of the pack."""
        members = self._plan.packs[pack].runs
        runs = [run for run in members if run in self._plan.runs]
        block = _Block(len(runs))
        shared = {"pack": pack, "sweep": self._plan.header["sweep"], **shared_columns(evidence, len(members))}
        block.columns |= {name: [value] * len(runs) for name, value in shared.items()}
        block.add_planned(self._plan, runs)
        block.add_statuses([evidence.status(run) for run in runs], evidence)
        first = len(self._columns["run"])
        for name, values in block.columns.items():
            column = self._columns.setdefault(name, [])
            column += [None] * (first - len(column))
            column += values

    def table(self) -> pa.Table:
        """All rows, in the order they were taken up, as a table of the runs schema."""
        factors = [name[len(LABEL) :] for name in self._columns if name.startswith(LABEL)]
        flagged = [name[len(FLAG) :] for name in self._columns if name.startswith(FLAG)]
        kept = [name[len(SUMMARY) :] for name in self._columns if name.startswith(SUMMARY)]
        texts = [name for name in kept if str in set(map(type, self._columns[SUMMARY + name]))]
        schema = runs_schema(factors, texts, {*kept, *flagged} - set(texts), flagged)
        for name in texts:
            column = self._columns[SUMMARY + name]
            column[:] = [None if value is None else text(value) for value in column]
        length = len(self._columns["run"])
        columns = [self._columns.get(field.name, []) for field in schema]
        padded = [column + [None] * (length - len(column)) for column in columns]
        return pa.table([pa.array(column, field.type) for column, field in zip(padded, schema, strict=True)], schema)


class _Block:
    """Rows of one pack. A column that some row has is as long as the pack."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self.columns: dict[str, list[Any]] = {}

    def _add(self, name: str, values: list[Any]) -> None:
        """A column that exists where some row has something there."""
        if values.count(None) < self._rows:
            self.columns[name] = values

    def add_planned(self, plan: Plan, runs: Sequence[str]) -> None:
        """Columns that the plan alone decides."""
        lines = [plan.runs[run] for run in runs]
        cells = [plan.cells[line["cell"]] for line in lines]
        labels = [{**cell["labels"], **line.get("labels", {})} for cell, line in zip(cells, lines, strict=True)]
        self.columns |= {
            "run": list(runs),
            "stage": [cell.get("stage") for cell in cells],
            "cell": [line["cell"] for line in lines],
            "runner": [cell.get("runner") for cell in cells],
            "seed": [line.get("seed") for line in lines],
            "labels": [_json(own) for own in labels],
            "inputs": [_json(line["inputs"]) if line.get("inputs") else "{}" for line in lines],
        }
        for name in {name for own in labels for name in own}:
            levels = [own.get(name) for own in labels]
            self._add(LABEL + name, [None if level is None else text(level) for level in levels])

    def add_statuses(self, statuses: Sequence[RunStatus], evidence: PackEvidence) -> None:
        """Columns that the attempts decide."""
        facts = [status.finished for status in statuses]
        step = [status.step for status in statuses] if evidence.records else [None] * self._rows
        self.columns |= {
            "state": [status.state.value for status in statuses],
            "reason": [reason_of(status) for status in statuses],
            "failure": [status.failure.value if status.failure else None for status in statuses],
            "message": [status.reason or None for status in statuses],
            "step": [at if fact is None else fact.step for at, fact in zip(step, facts, strict=True)],
            "seconds": [None if fact is None else fact.seconds for fact in facts],
            "finished": [None if fact is None else fact.time for fact in facts],
            "products": ["{}"] * self._rows,
        }
        for row, (status, fact) in enumerate(zip(statuses, facts, strict=True)):
            if fact is not None and fact.products:
                place = evidence.addresses[status.attempt]
                paths = {name: f"{place}/{product.path}" for name, product in sorted(fact.products.items())}
                self.columns["products"][row] = orjson.dumps(paths).decode()
            if fact is not None and (verdicts := [*self.columns["inexact"][row], *fact.exact]):
                self.columns["inexact"][row] = list(dict.fromkeys(verdicts))
        self._add_summaries(facts)

    def _add_summaries(self, facts: Sequence[Finished | None]) -> None:
        for name in {name for fact in facts if fact is not None for name in fact.summary}:
            values = [None if fact is None else fact.summary.get(name) for fact in facts]
            flags = [_flag(value) for value in values]
            self._add(FLAG + name, flags)
            kept = [_kept(value) if flag is None else None for value, flag in zip(values, flags, strict=True)]
            self._add(SUMMARY + name, kept)


Value = float | int | str | None


def _flag(value: Value) -> str | None:
    """What stands for a value that is not finite."""
    if isinstance(value, str):
        return FLAGS.get(value)
    return None if value is None or math.isfinite(value) else str(float(value))


def _kept(value: Value) -> float | str | None:
    return value if value is None or isinstance(value, str) else float(value)


def _json(value: Mapping[str, Any]) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Tables of several gathers as one, with the columns one gather of everything would have made."""
    texts = {f.name for t in tables for f in t.schema if f.name.startswith(SUMMARY) and f.type == pa.string()}
    tables = [_with_texts(table, texts) for table in tables]
    whole = pa.concat_tables(tables, promote_options="default")
    fixed = {name for name, _ in RUN_FIELDS}
    used = [name for name in whole.column_names if name in fixed or whole.column(name).null_count < len(whole)]
    factors = [name[len(LABEL) :] for name in used if name.startswith(LABEL)]
    flagged = [name[len(FLAG) :] for name in used if name.startswith(FLAG)]
    present = {name[len(SUMMARY) :] for name in used if name.startswith(SUMMARY)}
    words = [name for name in present if SUMMARY + name in texts]
    schema = runs_schema(factors, words, (present | set(flagged)) - set(words), flagged)
    return whole.select(schema.names).cast(schema)


def _with_texts(table: pa.Table, texts: set[str]) -> pa.Table:
    for index, name in enumerate(table.column_names):
        if name in texts and table.schema.field(name).type != pa.string():
            table = table.set_column(index, pa.field(name, pa.string()), _as_text(table.column(name)))
    return table


def _as_text(column: pa.ChunkedArray) -> pa.Array:
    return pa.array([None if value is None else text(value) for value in column.to_pylist()], pa.string())
