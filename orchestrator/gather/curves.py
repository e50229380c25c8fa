"""Metric rows of a pack's attempts -> one curve a run: the last attempt wins from its first step on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from jobs.durable import read_log
from sweeps.tables import CURVES

FLAGS = {"nan": "nan", "inf": "inf", "-inf": "-inf", "NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}
"""Spellings of what is not finite -> the flag that stands for it."""

Point = tuple[str, int, str, str, float | None, str | None, int]
"""run, step, split, metric, value, flag, attempt"""


def split_name(key: str) -> tuple[str, str]:
    """``test/accuracy`` -> ("test", "accuracy"); a key without a slash has the split ""."""
    split, slash, metric = key.partition("/")
    return (split, metric) if slash else ("", key)


def flagged(value: Any) -> tuple[float | None, str | None]:
    """A recorded value as (number, flag): exactly one of them is None."""
    if isinstance(value, str):
        return None, FLAGS.get(value, "nan")
    if value is None:
        return None, "nan"
    return float(value), None


def merged_points(logs: Iterable[tuple[int, Path]], members: Sequence[str]) -> list[Point]:
    """Points of a pack's members, by member, step and key.

    Args:
        logs: (attempt number, its ``metrics.jsonl``), oldest attempt first.
        members: run ids, in the order of the plan; rows of other runs are ignored.
    """
    rows: dict[str, dict[int, tuple[int, dict[str, Any]]]] = {run: {} for run in members}
    for attempt, path in logs:
        fresh: dict[str, dict[int, tuple[int, dict[str, Any]]]] = {}
        for record in read_log(path)[0]:
            if not isinstance(record, dict) or record.get("run") not in rows or "step" not in record:
                continue
            run, step = record.pop("run"), int(record.pop("step"))
            found = fresh.setdefault(run, {})
            # One step's row may be written twice by one attempt (train and test values apart, or a repeat).
            found[step] = (attempt, found[step][1] | record if step in found else record)
        for run, steps in fresh.items():
            first = min(steps)
            rows[run] = {step: row for step, row in rows[run].items() if step < first} | steps
    return [
        (run, step, *split_name(key), *flagged(value), attempt)
        for run in members
        for step, (attempt, values) in sorted(rows[run].items())
        for key, value in sorted(values.items())
    ]


def points_table(points: Sequence[Point]) -> pa.Table:
    """Points as a table with the columns of ``curves.parquet``."""
    columns: list[Any] = [list(column) for column in zip(*points, strict=True)] or [[] for _ in CURVES]
    arrays = []
    for column, field in zip(columns, CURVES, strict=True):
        if pa.types.is_dictionary(field.type):
            arrays.append(pa.array(column, pa.string()).dictionary_encode().cast(field.type))
        else:
            arrays.append(pa.array(column, field.type))
    return pa.table(arrays, schema=CURVES)
