"""A plan's runs as rows of the runs table: what was planned, joined with what the attempts left behind."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa

from jobs.facts import FailureClass, Finished
from orchestrator.gather.curves import FLAGS
from orchestrator.gather.evidence import Attempt, PackEvidence, attempt_columns
from orchestrator.gather.plan_lines import Plan
from sweeps.layout import text
from sweeps.tables import FLAG, LABEL, RUN_FIELDS, SUMMARY, runs_schema

Row = dict[str, Any]


@dataclass(frozen=True)
class Standing:
    """A run's state with the words for it."""

    state: str
    reason: str | None = None
    failure: str | None = None
    message: str | None = None


def pack_rows(plan: Plan, pack: str, evidence: PackEvidence) -> list[Row]:
    """Rows of a pack's runs that belong to this plan, in the order of the pack."""
    members = plan.packs[pack]
    shared = attempt_columns(evidence, len(members))
    rows = []
    for run in members:
        if run not in plan.runs:
            continue
        row = planned_columns(plan, run) | shared
        attempt, fact = evidence.finished.get(run, (None, None))
        standing = standing_of(evidence, run)
        row |= {"pack": pack, "state": standing.state, "reason": standing.reason, "failure": standing.failure}
        row["message"] = standing.message
        if fact is not None and attempt is not None:
            row |= _finished_columns(plan, attempt, fact, row["inexact"])
        rows.append(row)
    return rows


def planned_columns(plan: Plan, run: str) -> Row:
    """Columns that the plan alone decides."""
    line = plan.runs[run]
    cell = plan.cells[line["cell"]]
    labels = {**cell["labels"], **line.get("labels", {})}
    row: Row = {
        "run": run,
        "sweep": plan.header["sweep"],
        "stage": cell.get("stage"),
        "cell": line["cell"],
        "runner": cell.get("runner"),
        "seed": line.get("seed"),
        "labels": orjson.dumps(labels, option=orjson.OPT_SORT_KEYS).decode(),
        "inputs": orjson.dumps(line.get("inputs", {}), option=orjson.OPT_SORT_KEYS).decode(),
        "products": "{}",
    }
    for name, level in labels.items():
        if level is not None:
            row[LABEL + name] = text(level)
    return row


def standing_of(evidence: PackEvidence, run: str) -> Standing:
    """State of one run, from its pack's attempts."""
    fact = evidence.finished[run][1] if run in evidence.finished else None
    if fact is not None and fact.status == "completed":
        return Standing("completed")
    last = evidence.attempts[-1] if evidence.attempts else None
    if last is None:
        return Standing("pending", "pending")
    if fact is not None and evidence.finished[run][0].number == last.number:
        return _failed(fact.failure, fact.message, fact.step)
    if last.closed is None:
        state = "running" if last.claimed else "queued"
        return Standing(state, state)
    closed = last.closed
    if closed.outcome == "cancelled":
        return Standing("cancelled", "cancelled", FailureClass.CANCELLED.value, closed.message or None)
    if closed.outcome in ("preempted", "completed"):
        return Standing("pending", "pending: to be continued", None, closed.message or None)
    return _failed(closed.failure or FailureClass.UNKNOWN, closed.message, closed.step)


def _failed(failure: FailureClass | None, message: str, step: int | None) -> Standing:
    name = (failure or FailureClass.UNKNOWN).value
    reason = f"failed: {name.replace('_', ' ')}"
    if failure == FailureClass.DIVERGED and step is not None:
        reason = f"diverged at step {step}"
    return Standing("cancelled" if failure == FailureClass.CANCELLED else "failed", reason, name, message or None)


def _finished_columns(plan: Plan, attempt: Attempt, fact: Finished, inexact: Sequence[str]) -> Row:
    place = attempt.place
    base = f"packs/{place.pack[:3]}/{place.pack}/{place.path.name}"
    products = {name: f"{base}/{product.path}" for name, product in sorted(fact.products.items())}
    row: Row = {
        "step": fact.step,
        "seconds": fact.seconds,
        "finished": fact.time,
        "inexact": list(dict.fromkeys([*inexact, *fact.exact])),
        "products": orjson.dumps(products).decode(),
    }
    for name, value in fact.summary.items():
        if isinstance(value, str):
            row[FLAG + name if value in FLAGS else SUMMARY + name] = FLAGS.get(value, value)
        elif value is not None:
            finite = math.isfinite(value)
            row[SUMMARY + name if finite else FLAG + name] = float(value) if finite else FLAGS[str(float(value))]
    return row


def rows_table(rows: Sequence[Row]) -> pa.Table:
    """Rows as a table of the runs schema."""
    names = dict.fromkeys(name for row in rows for name in row)
    factors = [name[len(LABEL) :] for name in names if name.startswith(LABEL)]
    flagged = [name[len(FLAG) :] for name in names if name.startswith(FLAG)]
    values = {name: [row.get(name) for row in rows] for name in names if name.startswith(SUMMARY)}
    kept = {name[len(SUMMARY) :]: column for name, column in values.items()}
    texts = [name for name, column in kept.items() if any(isinstance(value, str) for value in column)]
    numbers = [name for name in {*kept, *flagged} if name not in texts]
    schema = runs_schema(factors, texts, numbers, flagged)
    columns: Mapping[str, list[Any]] = {f.name: [row.get(f.name) for row in rows] for f in schema}
    for name in texts:
        column = columns[SUMMARY + name]
        column[:] = [value if value is None or isinstance(value, str) else text(value) for value in column]
    return pa.table({f.name: pa.array(columns[f.name], f.type) for f in schema}, schema=schema)


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
