"""Facts and metric rows of a sweep -> ``runs.parquet`` and ``curves.parquet``.

Gathering is incremental and idempotent. Each table carries a cursor in its file metadata: for every pack whose rows
are final, how many attempts they come from. A later gather reads only the packs that are not in it or have another
attempt by now, and takes the other rows from the old table. The result is the table that a gather of everything would
write, and each file is replaced whole, so a reader meets the old table or the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from jobs.durable import replace_file
from jobs.workspace import Workspace
from orchestrator.collector import collector_paused
from orchestrator.gather.curves import merged_points, points_table
from orchestrator.gather.evidence import PackEvidence, read_pack
from orchestrator.gather.rows import RunColumns, joined
from orchestrator.workspace_id import packs_on_disk
from sweeps.errors import SweepError
from sweeps.plan_file import Plan, read_plan
from sweeps.tables import CURSOR_KEY, PLAN_KEY, read_parquet

pc: Any = pyarrow.compute
"""Its functions are made at import, where no checker sees them."""

VERSION = 1
"""Of the tables' layout: tables of another version are gathered anew."""


@dataclass(frozen=True)
class Gathered:
    """What a gather saw."""

    runs: int
    points: int
    packs_read: int
    states: dict[str, int]


@collector_paused()
def gather(workspace: Workspace, sweep: str) -> Gathered:
    """Bring a sweep's tables up to date.

    Raises:
        SweepError: there is no plan of that name.
    """
    plan = load_plan(workspace, sweep)
    workspace.runs_table(sweep).parent.mkdir(parents=True, exist_ok=True)
    runs = _Update(workspace, plan, workspace.runs_table(sweep))
    curves = _Update(workspace, plan, workspace.curves_table(sweep))
    launched = packs_on_disk(workspace)  # a plan of 100,000 runs is mostly packs that have no directory yet
    columns, points = RunColumns(plan), [points_table([])]
    read = 0
    # Pack by pack: what the attempts of a hundred thousand runs left behind need not be held all at once.
    for pack in (pack for pack in plan.packs if pack in runs.stale or pack in curves.stale):
        members = plan.packs[pack].runs
        found = read_pack(workspace, pack, members) if pack in launched else PackEvidence(pack)
        read += bool(found.records)
        final = _final_attempts(found, members)
        if pack in runs.stale:
            runs.note(pack, final)
            columns.add(pack, found)
        if pack in curves.stale:
            curves.note(pack, final)
            logs = [(place.number, place.metrics) for place in found.places]
            if rows := merged_points(logs, [run for run in members if run in plan.runs]):
                points.append(points_table(rows))
    # Curves first: a run that the runs table calls completed has its whole curve.
    curve_rows = curves.write(lambda: pa.concat_tables(points), pa.concat_tables)
    run_rows = runs.write(columns.table, joined)
    return Gathered(len(run_rows), len(curve_rows), read, _count(run_rows))


def load_plan(workspace: Workspace, sweep: str) -> Plan:
    """Raises SweepError naming the sweeps there are."""
    path = workspace.plan(sweep)
    if not path.exists():
        known = sorted(p.parent.name for p in workspace.sweeps.glob("*/plan.jsonl"))
        raise SweepError(f"no sweep {sweep!r} under {workspace.root}; there are: {', '.join(known) or 'none'}")
    with open(path, "rb") as lines:
        return read_plan(lines)


def plan_metadata(plan: Plan) -> bytes:
    """What tables carry of the plan besides its runs (``sweeps.tables.PLAN_KEY``)."""
    cells = [{"index": index, **{k: v for k, v in c.items() if k != "cell"}} for index, c in plan.cells.items()]
    skipped = [{"skipped": pair.labels, "reason": pair.reason} for pair in plan.skipped]
    content = {**plan.header, "skipped": skipped, "notices": plan.notices, "cells": cells}
    return orjson.dumps(content, option=orjson.OPT_SORT_KEYS)


class _Update:
    """One table on its way to its next state.

    Attributes:
        stale: packs whose rows must be made anew.
    """

    def __init__(self, workspace: Workspace, plan: Plan, path: Path) -> None:
        self._workspace = workspace
        self._plan = plan
        self._path = path
        self._metadata = plan_metadata(plan)
        self._old, self._cursor = self._read()
        self.stale = {pack for pack in plan.packs if not self._final(pack)}

    def note(self, pack: str, final: int | None) -> None:
        """A stale pack was read: from how many attempts its rows are final (``_final_attempts``)."""
        self._cursor.pop(pack, None)
        if final is not None:
            self._cursor[pack] = final

    def write(self, fresh: Callable[[], pa.Table], join: Callable[[list[pa.Table]], pa.Table]) -> pa.Table:
        """Replace the file where anything is stale. ``fresh`` makes the rows of the stale packs."""
        old = self._old
        if old is None:
            table = fresh()
        elif self.stale:
            changed = pa.array([run for pack in self.stale for run in self._plan.packs[pack].runs], pa.string())
            table = join([old.filter(pc.invert(pc.is_in(old.column("run"), changed))), fresh()])
        else:
            return old
        table = self._ordered(table)
        metadata = {
            PLAN_KEY: self._metadata,
            CURSOR_KEY: orjson.dumps({"version": VERSION, "packs": self._cursor}, option=orjson.OPT_SORT_KEYS),
        }
        _write(self._path, table.replace_schema_metadata(metadata))
        return table

    def _read(self) -> tuple[pa.Table | None, dict[str, int]]:
        """The table as it stands and its cursor; nothing where the plan or the layout has changed."""
        if not self._path.exists():
            return None, {}
        table = read_parquet(self._path)
        metadata = table.schema.metadata or {}
        cursor = orjson.loads(metadata.get(CURSOR_KEY, b"{}"))
        if cursor.get("version") != VERSION or metadata.get(PLAN_KEY) != self._metadata:
            return None, {}
        return table, cursor["packs"]

    def _final(self, pack: str) -> bool:
        """0 marks a pack all of whose runs completed: it is never launched again."""
        attempts = self._cursor.get(pack)
        if attempts is None:
            return False
        return attempts == 0 or attempts == len(self._workspace.attempts(pack))

    def _ordered(self, table: pa.Table) -> pa.Table:
        """Rows in the order of the plan's runs, and within a run as they stand."""
        column = table.column("run").combine_chunks()
        column = column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
        known = pa.array(list(self._plan.runs), pa.string())
        ranks = pc.index_in(column, value_set=known)
        rows = pa.array(np.arange(len(table)))
        indices = pc.sort_indices(
            pa.table({"rank": ranks, "row": rows}), sort_keys=[("rank", "ascending"), ("row", "ascending")]
        )
        if not indices.equals(rows.cast(indices.type)):
            table = table.take(indices)
        return _encoded(table.combine_chunks())


def _final_attempts(found: PackEvidence, members: Collection[str]) -> int | None:
    """How many attempts a pack's rows come from, 0 where no other will be made; None while they can still change."""
    if not found.records or not found.settled:
        return None
    return 0 if found.completed(members) else len(found.records)


def _encoded(table: pa.Table) -> pa.Table:
    """Dictionaries in the order of appearance, so that the same rows are the same bytes however they came together."""
    for index, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            column = table.column(index).cast(pa.string()).combine_chunks().dictionary_encode().cast(field.type)
            table = table.set_column(index, field, column)
    return table


def _write(path: Path, table: pa.Table) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    replace_file(path, sink.getvalue().to_pybytes())


def _count(runs: pa.Table) -> dict[str, int]:
    counted = pc.value_counts(runs.column("state")).to_pylist()
    return {pair["values"]: pair["counts"] for pair in sorted(counted, key=lambda p: str(p["values"]))}
