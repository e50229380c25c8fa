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

Row = dict[str, Any]


def pack_rows(plan: Plan, pack: str, evidence: PackEvidence) -> list[Row]:
    """Rows of a pack's runs that belong to this plan, in the order of the pack."""
    members = plan.packs[pack].runs
    shared = shared_columns(evidence, len(members))
    rows = []
    for run in members:
        if run not in plan.runs:
            continue
        status = evidence.status(run)
        row = planned_columns(plan, run) | shared
        row |= {
            "pack": pack,
            "state": status.state.value,
            "reason": reason_of(status),
            "failure": status.failure.value if status.failure else None,
            "message": status.reason or None,
            "step": status.step if evidence.records else None,
        }
        if (fact := status.finished) is not None:
            row |= _finished_columns(evidence.addresses[status.attempt], fact, row["inexact"])
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


def reason_of(status: RunStatus) -> str | None:
    """Why a run has no result, in a few words that runs of one kind share; None for a completed one."""
    if status.state == RunState.COMPLETED:
        return None
    if status.failure == FailureClass.DIVERGED:
        return f"diverged at step {status.step}"
    if status.state == RunState.FAILED:
        return f"failed: {(status.failure or FailureClass.UNKNOWN).value.replace('_', ' ')}"
    return status.state.value


def _finished_columns(place: str, fact: Finished, inexact: Sequence[str]) -> Row:
    products = {name: f"{place}/{product.path}" for name, product in sorted(fact.products.items())}
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
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
    factors = [name[len(LABEL) :] for name in names if name.startswith(LABEL)]
    flagged = [name[len(FLAG) :] for name in names if name.startswith(FLAG)]
    kept = [name[len(SUMMARY) :] for name in names if name.startswith(SUMMARY)]
    texts = [name for name in kept if any(isinstance(row.get(SUMMARY + name), str) for row in rows)]
    numbers = {*kept, *flagged} - set(texts)
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
