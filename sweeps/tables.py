"""The two tables of a sweep (``runs.parquet``, ``curves.parquet``): their columns, and how to read them.

Every column is described in ``docs/tables.md`` (checked by a test). ``orchestrator.gather`` writes the tables; whoever
analyses or shows results reads them here and gets plain Python and numpy. No file holds a NaN or an infinity: such a
value is null and named in a flag column beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from jobs.workspace import Workspace
from sweeps.analysis.errors import AnalysisError

pc: Any = pyarrow.compute
"""Its functions are made at import, where no checker sees them."""

LABEL, SUMMARY, FLAG = "label.", "summary.", "flag."
"""Prefixes of the columns that depend on the sweep: one a factor, one a summary value, one a value with flags."""

RUN_FIELDS: tuple[tuple[str, pa.DataType], ...] = (
    ("run", pa.string()),
    ("sweep", pa.string()),
    ("stage", pa.string()),
    ("cell", pa.int64()),
    ("runner", pa.string()),
    ("pack", pa.string()),
    ("seed", pa.int64()),
    ("state", pa.string()),
    ("reason", pa.string()),
    ("attempts", pa.int64()),
    ("failure", pa.string()),
    ("message", pa.string()),
    ("step", pa.int64()),
    ("seconds", pa.float64()),
    ("lost_seconds", pa.float64()),
    ("resumes", pa.int64()),
    ("inexact", pa.list_(pa.string())),
    ("host", pa.string()),
    ("code", pa.string()),
    ("started", pa.float64()),
    ("finished", pa.float64()),
    ("labels", pa.string()),
    ("inputs", pa.string()),
    ("products", pa.string()),
)
CURVE_FIELDS: tuple[tuple[str, pa.DataType], ...] = (
    ("run", pa.dictionary(pa.int32(), pa.string())),
    ("step", pa.int64()),
    ("split", pa.dictionary(pa.int32(), pa.string())),
    ("metric", pa.dictionary(pa.int32(), pa.string())),
    ("value", pa.float64()),
    ("flag", pa.dictionary(pa.int32(), pa.string())),
    ("attempt", pa.int64()),
)
CURVES = pa.schema(CURVE_FIELDS)
PLAN_KEY, CURSOR_KEY = b"orchestrate.plan", b"orchestrate.cursor"
"""Keys of the file metadata: the plan's header with its skipped pairs and notices; what was read to make the table."""


def runs_schema(factors: Iterable[str], texts: Iterable[str], numbers: Iterable[str], flagged: Iterable[str]) -> Any:
    """Columns of a runs table: the fixed ones, then labels, summary values and flags in the order of their names."""
    fields = list(RUN_FIELDS)
    fields += [(LABEL + name, pa.string()) for name in sorted(factors)]
    kinds = dict.fromkeys(numbers, pa.float64()) | dict.fromkeys(texts, pa.string())
    fields += [(SUMMARY + name, kinds[name]) for name in sorted(kinds)]
    fields += [(FLAG + name, pa.string()) for name in sorted(flagged)]
    return pa.schema(fields)


@dataclass(frozen=True)
class Columns:
    """A table as plain columns. A column the table lacks reads as nulls."""

    table: pa.Table

    def __len__(self) -> int:
        return self.table.num_rows

    @property
    def names(self) -> list[str]:
        return self.table.column_names

    @property
    def metrics(self) -> list[str]:
        """Names of the summary values."""
        return [name[len(SUMMARY) :] for name in self.names if name.startswith(SUMMARY)]

    @property
    def factors(self) -> list[str]:
        return [name[len(LABEL) :] for name in self.names if name.startswith(LABEL)]

    @cached_property
    def plan(self) -> dict[str, Any]:
        """Header of the plan (``sweep``, ``analysis``, ``settings``, ``stages``) with ``skipped``, ``notices``, and
        ``cells`` (index -> stage, runner, config, labels, shape)."""
        metadata = self.table.schema.metadata or {}
        return orjson.loads(metadata.get(PLAN_KEY, b"{}"))

    def values(self, name: str) -> list[Any]:
        """One Python value a row, None where there is none."""
        if name not in self.table.column_names:
            return [None] * len(self)
        return self.table.column(name).to_pylist()

    def label(self, factor: str) -> list[str | None]:
        """One level a row, as text; None where a run has no such label."""
        return self.values(LABEL + factor)

    def floats(self, name: str) -> np.ndarray:
        """float64 of shape (rows,), NaN where there is none (in memory only)."""
        if name not in self.table.column_names:
            return np.full(len(self), np.nan)
        return self.table.column(name).to_numpy().astype(float)

    def codes(self, name: str) -> tuple[np.ndarray, list[str]]:
        """A text column as integer codes of shape (rows,), -1 for null, and the words they index."""
        column = self.table.column(name).combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], pa.string())
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        return column.indices.fill_null(-1).to_numpy(zero_copy_only=False), column.dictionary.to_pylist()


def read_runs(root: Path, sweep: str) -> Columns:
    """One row a run, in the order of the plan.

    Raises:
        AnalysisError: the table does not exist yet.
    """
    return Columns(_read(Workspace(root).runs_table(sweep), sweep))


def read_curves(
    root: Path, sweep: str, metrics: Sequence[tuple[str, str]] | None = None, runs: Iterable[str] | None = None
) -> Columns:
    """One row a point, runs in the order of the plan, steps ascending.

    Args:
        metrics: only these (split, metric) pairs, where given.
        runs: only these runs, where given.
    """
    table = _read(Workspace(root).curves_table(sweep), sweep)
    if metrics is not None:
        keep = pa.array(np.zeros(len(table), bool))
        for split, metric in metrics:
            same = pc.and_(pc.equal(table.column("split"), split), pc.equal(table.column("metric"), metric))
            keep = pc.or_(keep, same)
        table = table.filter(keep)
    if runs is not None:
        table = table.filter(pc.is_in(table.column("run"), value_set=pa.array(sorted(runs), pa.string())))
    return Columns(table)


def _read(path: Path, sweep: str) -> pa.Table:
    if not path.exists():
        raise AnalysisError(f"{path} does not exist: nothing of the sweep {sweep!r} was gathered; run `gather {sweep}`")
    return read_parquet(path)


def read_parquet(path: Path) -> pa.Table:
    """One file, whatever its path looks like (``a=b`` in a folder's name is no partition)."""
    with pq.ParquetFile(path) as file:
        return file.read()


CELL_FIELDS: tuple[tuple[str, pa.DataType], ...] = (
    ("slice", pa.string()),
    ("metric", pa.string()),
    ("primary", pa.bool_()),
    ("row", pa.string()),
    ("column", pa.string()),
    ("value", pa.float64()),
    ("low", pa.float64()),
    ("high", pa.float64()),
    ("unit", pa.string()),
    ("n", pa.int64()),
    ("n_baseline", pa.int64()),
    ("searches", pa.int64()),
    ("verdict", pa.string()),
    ("reason", pa.string()),
    ("p", pa.float64()),
    ("p_adjusted", pa.float64()),
    ("p_guard", pa.float64()),
    ("df_guard", pa.float64()),
    ("uncorrected_low", pa.float64()),
    ("uncorrected_high", pa.float64()),
    ("standard_error", pa.float64()),
    ("df", pa.float64()),
    ("sigma", pa.string()),
    ("diverged", pa.int64()),
    ("survivors", pa.float64()),
    ("n_survivors", pa.int64()),
    ("words", pa.string()),
)
"""Columns of a report's ``cells.parquet`` and ``cells.csv``."""


def cells_parquet(records: Sequence[dict[str, Any]]) -> bytes:
    """A report's cells as the bytes of a Parquet file."""
    return _parquet(records, pa.schema(CELL_FIELDS))


_TYPES = {str: pa.string(), float: pa.float64(), int: pa.int64(), bool: pa.bool_()}


def records_parquet(records: Sequence[Mapping[str, Any]], fields: Mapping[str, type]) -> bytes:
    """Flat records as the bytes of a Parquet file; ``fields`` gives each column's Python type."""
    return _parquet(records, pa.schema([(name, _TYPES[kind]) for name, kind in fields.items()]))


def _parquet(records: Sequence[Mapping[str, Any]], schema: pa.Schema) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist([dict(r) for r in records], schema=schema), sink, compression="zstd")
    return sink.getvalue().to_pybytes()
