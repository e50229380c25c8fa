"""Anybody's table of results, as results: which column is what, and what each cell says."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from orchestrator.gather.delimiters import check_delimiter
from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.results import Result
from sweeps.analysis.soundness import check_configs

NUMBERED = "none"
"""As a seed column: the table has none; runs of an arm are numbered in the order of their rows."""
_GUESSES = {
    "arm": ("arm", "method", "variant", "modification", "model"),
    "seed": ("seed", "trial", "replicate"),
    "task": ("task", "benchmark"),
    "scale": ("scale", "size"),
    "search": ("search", "search_seed"),
    "item": ("item",),
    "config": ("config", "config_hash"),
    "diverged": ("diverged",),
    "reason": ("reason", "status"),
}
_NO_VALUE = ("", "na", "n/a", "none", "null", "-")
_UNFINISHED = (
    *("running", "pending", "queued", "scheduled", "submitted", "starting", "fail", "error", "crashed", "killed"),
    *("cancel", "abort", "interrupt", "preempt", "timeout", "timed", "out of memory", "oom"),
)
"""How the status begins of a run that is not at its end: the last value it logged is not what it scored."""


@dataclass(frozen=True)
class Row:
    """One row and where it stands (``results.csv line 7``), for messages."""

    where: str
    values: Mapping[str, Any]


@dataclass(frozen=True)
class TableColumns:
    """Names of the columns that matter; None where the table has none.

    ``seed`` may be `NUMBERED`.
    """

    arm: str
    seed: str
    metric: str
    task: str | None = None
    scale: str | None = None
    search: str | None = None
    item: str | None = None
    config: str | None = None
    diverged: str | None = None
    reason: str | None = None


def read_rows(path: Path) -> list[Row]:
    """Read a CSV, TSV, Parquet or JSONL file, known by its ending.

    Raises:
        AnalysisError: another ending, a row that does not fit the header, a line that is no JSON object, no rows.
    """
    readers = {".csv": _csv, ".tsv": _csv, ".parquet": _parquet, ".jsonl": _jsonl, ".ndjson": _jsonl}
    ending = path.suffix.lower()
    if ending not in readers:
        raise AnalysisError(f"{path}: cannot read {ending or 'a file without an ending'}; give {', '.join(readers)}")
    if not path.is_file():
        raise AnalysisError(f"{path}: no such file")
    rows = readers[ending](path)
    if not rows:
        raise AnalysisError(f"{path}: the table has no rows")
    return rows


def find_columns(rows: Sequence[Row], source: str, **chosen: str | None) -> TableColumns:
    """Take the columns named, and find the others by their usual names.

    Args:
        rows: the table.
        source: its name, for messages.
        chosen: role -> column, None to look for one. ``metric`` is looked for too: the only other numeric column.

    Raises:
        AnalysisError: a named column that is not there, or an arm, seed or metric that cannot be found.
    """
    names = list(dict.fromkeys(name for row in rows for name in row.values))
    found: dict[str, str | None] = {}
    for role, wanted in chosen.items():
        if wanted is not None and wanted not in names and not (role == "seed" and wanted == NUMBERED):
            raise AnalysisError(f"{source}: no column {wanted!r} for the {role}; its columns are {', '.join(names)}")
        found[role] = wanted
    for role, guesses in _GUESSES.items():
        if found.get(role) is None:
            found[role] = next((g for g in guesses if g in names), None)
    for role in ("arm", "seed"):
        if found[role] is None:
            hint = f", or --seed-column {NUMBERED} where every row is a run of its own" if role == "seed" else ""
            hint += "; published means are for `orchestrate report`" if hint and "mean" in names else ""
            raise AnalysisError(
                f"{source}: which column holds the {role}? give --{role}-column one of {', '.join(names)}{hint}"
            )
    metric = found.pop("metric", None) or _only_number(rows, names, found, source)
    return TableColumns(metric=metric, **found)  # type: ignore[arg-type]


def to_results(rows: Sequence[Row], columns: TableColumns) -> list[Result]:
    """One result a row; a missing value becomes a reason, labels of seeds and searches become numbers.
    What a run that is running, or that failed, has logged so far is no value either.

    Raises:
        AnalysisError: a value that is no number, a row without an arm or a seed, an arm with two configs, a number
            written in two ways.
    """
    for role in ("arm", "seed", "task", "scale", "search"):
        _one_spelling(rows, getattr(columns, role), role)
    seeds = _numbering(rows, columns.seed)
    searches = _numbering(rows, columns.search)
    counts: dict[tuple, int] = {}
    results, configs = [], []
    for row in rows:
        arm = _label(row, columns.arm, "arm")
        task, scale = _optional(row, columns.task), _optional(row, columns.scale)
        item, search = _optional(row, columns.item), _optional(row, columns.search)
        if columns.seed == NUMBERED:
            key = (arm, task, scale, search, item)
            seed = counts[key] = counts.get(key, -1) + 1
        else:
            seed = seeds[_label(row, columns.seed, "seed")]
        value, reason = _value(row, columns)
        words = _optional(row, columns.reason)
        if value is not None and words is not None and words.lower().startswith(_UNFINISHED):
            value, words = None, f"{words}, {columns.metric} so far not counted"
        lost = _diverged(row, columns, words if value is None else None)
        results.append(
            Result(
                arm=arm,
                task=task or columns.metric,
                seed=seed,
                search=None if search is None else searches[search],
                value=value,
                reason=(words if lost else None) if value is not None else words or reason,
                diverged=lost,
                scale=scale,
                item=item,
            )
        )
        if (config := _optional(row, columns.config)) is not None:
            configs.append((arm if scale is None else f"{arm} at {scale}", config))
    check_configs(configs)
    return results


def _csv(path: Path) -> list[Row]:
    try:
        lines = enumerate(io.StringIO(path.read_bytes().decode("utf-8-sig"), newline=""), 1)
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        found = f"byte 0x{error.object[error.start]:02x}"
        raise AnalysisError(f"{path} line {line}: {found} is not UTF-8; save the table as UTF-8") from None
    numbered = [(number, line) for number, line in lines if line.strip() and not line.startswith("#")]
    reader = csv.reader((line for _, line in numbered), delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
    try:
        table = [[cell.strip() for cell in cells] for cells in reader]
    except csv.Error as error:
        raise AnalysisError(f"{path} row {reader.line_num}: cannot be read as a table: {error}") from None
    if not table:
        return []
    header = table[0]
    check_delimiter(path, header)
    doubled = sorted({name for name in header if header.count(name) > 1})
    if doubled:
        raise AnalysisError(f"{path}: the header names {doubled[0]!r} twice; name each column once")
    rows = []
    # A quoted cell may run over lines, so line numbers are exact only while rows and lines agree.
    exact = len(table) == len(numbered)
    for index, cells in enumerate(table[1:], 1):
        where = f"{path} line {numbered[index][0]}" if exact else f"{path} row {index}"
        if len(cells) != len(header):
            raise AnalysisError(f"{where}: {len(cells)} cells under a header of {len(header)}")
        rows.append(Row(where, dict(zip(header, cells, strict=True))))
    return rows


def _jsonl(path: Path) -> list[Row]:
    rows = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        try:
            values = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise AnalysisError(f"{path} line {number}: no JSON ({error}); NaN is null there") from None
        if not isinstance(values, dict):
            raise AnalysisError(f"{path} line {number}: each line must be an object, and this is {values!r}")
        rows.append(Row(f"{path} line {number}", values))
    return rows


def _parquet(path: Path) -> list[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except pa.ArrowInvalid as error:
        raise AnalysisError(f"{path}: no Parquet file ({error})") from None
    return [Row(f"{path} row {i}", values) for i, values in enumerate(table.to_pylist(), 1)]


def _only_number(rows: Sequence[Row], names: Iterable[str], found: Mapping[str, str | None], source: str) -> str:
    taken = set(found.values())
    numeric = [n for n in names if n not in taken and any(_is_number(r.values.get(n)) for r in rows)]
    if len(numeric) == 1:
        return numeric[0]
    choice = f"one of {', '.join(numeric)}" if numeric else f"a numeric one of {', '.join(names)}"
    raise AnalysisError(f"{source}: which column is the metric? give --metric {choice}")


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return not isinstance(value, bool)


def _value(row: Row, columns: TableColumns) -> tuple[float | None, str | None]:
    raw = row.values.get(columns.metric)
    if raw is None or (isinstance(raw, str) and raw.lower() in _NO_VALUE):
        return None, f"no {columns.metric} in the table"
    if not _is_number(raw):
        raise AnalysisError(f"{row.where}: {columns.metric} is {raw!r}, which is no number")
    value = float(raw)
    if math.isfinite(value):
        return value, None
    return None, f"non-finite {columns.metric} ({value})"


def _diverged(row: Row, columns: TableColumns, words: str | None) -> bool:
    flag = str(row.values.get(columns.diverged or "", "")).lower()
    if flag in ("true", "1", "1.0", "yes"):
        return True
    if flag not in ("", "false", "0", "0.0", "no", "none"):
        raise AnalysisError(f"{row.where}: {columns.diverged} is {flag!r}; write true or false")
    return bool(words) and words.lower().startswith("diverged")  # type: ignore[union-attr]


def _label(row: Row, column: str, role: str) -> str:
    text = _optional(row, column)
    if text is None:
        raise AnalysisError(f"{row.where}: no {role} (column {column!r} is empty)")
    return text


def _optional(row: Row, column: str | None) -> str | None:
    value = None if column is None else row.values.get(column)
    if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
        return None
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _one_spelling(rows: Sequence[Row], column: str | None, role: str) -> None:
    """Refuse a column that writes one number in two ways, such as ``1`` and ``1.0``: it would count as two."""
    seen: dict[float, str] = {}
    labels = dict.fromkeys(_optional(row, column) for row in rows) if column not in (None, NUMBERED) else ()
    for label in labels:
        try:
            number = float(label or "nan")
        except ValueError:
            continue
        if not math.isnan(number) and seen.setdefault(number, label or "") != label:
            raise AnalysisError(
                f"column {column!r} writes one {role} as {seen[number]!r} and as {label!r}; write it one way"
            )


def _numbering(rows: Sequence[Row], column: str | None) -> dict[str, int]:
    """Label -> number: whole numbers stand for themselves, other labels are numbered in sorted order."""
    if column is None or column == NUMBERED:
        return {}
    labels = sorted({label for row in rows if (label := _optional(row, column)) is not None})
    try:
        numbers = {label: float(label) for label in labels}
    except ValueError:
        numbers = {}
    if numbers and all(number.is_integer() for number in numbers.values()):
        return {label: int(number) for label, number in numbers.items()}
    return {label: number for number, label in enumerate(labels)}
