"""Facts and metric rows of a sweep -> ``runs.parquet`` and ``curves.parquet``.

Gathering is incremental and idempotent. Each table carries a cursor in its file metadata: for every pack whose rows
are final, how many attempts they come from. A later gather reads only the packs that are not in it or have another
attempt by now, and takes the other rows from the old table. The result is the table that a gather of everything would
write, and each file is replaced whole, so a reader meets the old table or the new one.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from jobs.durable import replace_file
from jobs.workspace import Workspace
from orchestrator.gather.curves import merged_points, points_table
from orchestrator.gather.evidence import PackEvidence, read_pack
from orchestrator.gather.rows import joined, pack_rows, rows_table
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


def gather(workspace: Workspace, sweep: str) -> Gathered:
    """Bring a sweep's tables up to date.

    Raises:
        SweepError: there is no plan of that name.
    """
    with _collector_paused():
        return _gather(workspace, sweep)


def _gather(workspace: Workspace, sweep: str) -> Gathered:
    plan = load_plan(workspace, sweep)
    existing = _launched_packs(workspace)
    workspace.runs_table(sweep).parent.mkdir(parents=True, exist_ok=True)
    seen: dict[str, PackEvidence] = {}

    def evidence(pack: str) -> PackEvidence:
        if pack not in seen:
            launched = pack in existing
            seen[pack] = read_pack(workspace, pack, plan.packs[pack].runs) if launched else PackEvidence(pack)
        return seen[pack]

    def fresh_runs(packs: Iterable[str]) -> pa.Table:
        return rows_table([row for pack in packs for row in pack_rows(plan, pack, evidence(pack))])

    def fresh_curves(packs: Iterable[str]) -> pa.Table:
        tables = [points_table([])]
        for pack in packs:
            members = [run for run in plan.packs[pack].runs if run in plan.runs]
            logs = [(place.number, place.metrics) for place in evidence(pack).places]
            if points := merged_points(logs, members):
                tables.append(points_table(points))
        return pa.concat_tables(tables)

    update = _Update(workspace, plan, existing, evidence)
    # Curves first: a run that the runs table calls completed has its whole curve.
    curves = update.apply(workspace.curves_table(sweep), fresh_curves, pa.concat_tables)
    runs = update.apply(workspace.runs_table(sweep), fresh_runs, joined)
    return Gathered(len(runs), len(curves), sum(1 for e in seen.values() if e.records), _count(runs))


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


@dataclass
class _Update:
    workspace: Workspace
    plan: Plan
    existing: set[str]
    evidence: Callable[[str], PackEvidence]

    def apply(
        self, path: Path, fresh: Callable[[Iterable[str]], pa.Table], join: Callable[[list[pa.Table]], pa.Table]
    ) -> pa.Table:
        """Rewrite one table where anything changed."""
        old, cursor = self._old(path)
        stale = [pack for pack in self.plan.packs if not self._final(cursor, pack)]
        kept = old
        if old is not None and stale:
            changed = {run for pack in stale for run in self.plan.packs[pack].runs}
            column = old.column("run")
            kept = old.filter(pc.invert(pc.is_in(column, pa.array(list(changed), pa.string()))))
        if old is not None and not stale:
            return old
        tables = ([] if kept is None else [kept]) + [fresh(stale)]
        table = self._ordered(join(tables) if len(tables) > 1 else tables[0])
        for pack in stale:
            cursor.pop(pack, None)
            if (found := self.evidence(pack)).records and found.settled:
                cursor[pack] = 0 if found.completed(self.plan.packs[pack].runs) else len(found.records)
        metadata = {
            PLAN_KEY: plan_metadata(self.plan),
            CURSOR_KEY: orjson.dumps({"version": VERSION, "packs": cursor}, option=orjson.OPT_SORT_KEYS),
        }
        _write(path, table.replace_schema_metadata(metadata))
        return table

    def _old(self, path: Path) -> tuple[pa.Table | None, dict[str, int]]:
        """The table as it stands and its cursor; nothing where the plan or the layout has changed."""
        if not path.exists():
            return None, {}
        table = read_parquet(path)
        metadata = table.schema.metadata or {}
        cursor = orjson.loads(metadata.get(CURSOR_KEY, b"{}"))
        if cursor.get("version") != VERSION or metadata.get(PLAN_KEY) != plan_metadata(self.plan):
            return None, {}
        return table, cursor["packs"]

    def _final(self, cursor: dict[str, int], pack: str) -> bool:
        """0 marks a pack all of whose runs completed: it is never launched again."""
        attempts = cursor.get(pack)
        if attempts is None:
            return False
        return attempts == 0 or attempts == len(self.workspace.attempts(pack))

    def _ordered(self, table: pa.Table) -> pa.Table:
        """Rows in the order of the plan's runs, and within a run as they stand."""
        order = {run: index for index, run in enumerate(self.plan.runs)}
        column = table.column("run").combine_chunks()
        column = column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
        known = pa.array(list(order), pa.string())
        ranks = pc.index_in(column, value_set=known)
        indices = pc.sort_indices(
            pa.table({"rank": ranks, "row": pa.array(range(len(table)), pa.int64())}),
            sort_keys=[("rank", "ascending"), ("row", "ascending")],
        )
        return _encoded(table.take(indices).combine_chunks())


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Hundreds of thousands of records live until the table is written: looking through them for garbage would take
    as long as everything else together, and find none."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _encoded(table: pa.Table) -> pa.Table:
    """Dictionaries in the order of appearance, so that the same rows are the same bytes however they came together."""
    for index, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            column = table.column(index).cast(pa.string()).combine_chunks().dictionary_encode().cast(field.type)
            table = table.set_column(index, field, column)
    return table


def _launched_packs(workspace: Workspace) -> set[str]:
    """Packs with a directory: a plan of 100,000 runs is mostly packs that have none yet."""
    found: set[str] = set()
    try:
        prefixes = list(os.scandir(workspace.packs))
    except FileNotFoundError:
        return found
    for prefix in prefixes:
        if prefix.is_dir():
            found.update(entry.name for entry in os.scandir(prefix.path))
    return found


def _write(path: Path, table: pa.Table) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    replace_file(path, sink.getvalue().to_pybytes())


def _count(runs: pa.Table) -> dict[str, int]:
    counted = pc.value_counts(runs.column("state")).to_pylist()
    return {pair["values"]: pair["counts"] for pair in sorted(counted, key=lambda p: str(p["values"]))}
