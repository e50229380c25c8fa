"""Anybody's table of results as plain rows, with what its comment lines say.

In a CSV a line that begins with ``#`` is a remark on the source, one that begins with ``#:`` a setting (``#: baseline =
softmax``), so that a table can say how it wants to be read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweeps.analysis.errors import AnalysisError

SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
SHIPPED = Path(__file__).parents[1] / "sweeps" / "data"
"""Published tables that come with the project, found by name."""
Value = str | float | None
COUNTS = ("seeds", "n", "runs")
"""Columns that hold how many runs are behind a published mean."""


@dataclass(frozen=True)
class TableRows:
    """A table.

    Attributes:
        name: of the file, without its suffix.
        file: the file's name.
        columns: in their order.
        rows: column -> text, number, or None where there is no value.
        remarks: comment lines.
        settings: what ``#:`` lines say.
    """

    name: str
    file: str
    columns: tuple[str, ...]
    rows: tuple[Mapping[str, Value], ...]
    remarks: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)

    def need(self, column: str, what: str, flag: str) -> str:
        """The column, or an error that lists the columns there are.

        Raises:
            AnalysisError: no such column.
        """
        if column not in self.columns:
            raise AnalysisError(
                f"{self.file} has no column {column!r} for the {what}; name it with {flag} "
                f"(columns: {', '.join(self.columns)})"
            )
        return column

    @property
    def only_means(self) -> bool:
        """Whether a row is an arm with its mean and its number of runs, and not a run."""
        return "seed" not in self.columns and "mean" in self.columns and self.first(COUNTS) is not None

    def first(self, names: Sequence[str]) -> str | None:
        """The first of these columns that the table has."""
        return next((name for name in names if name in self.columns), None)


def find_table(text: str) -> Path | None:
    """The file of this path, or the shipped table of this name; None where neither is one."""
    path = Path(text)
    if path.suffix in SUFFIXES and path.is_file():
        return path
    shipped = SHIPPED / path.name
    return shipped if len(path.parts) == 1 and path.suffix in SUFFIXES and shipped.is_file() else None


def table_of(path: Path, rows: Sequence[Mapping[str, Any]]) -> TableRows:
    """A table from its rows; numbers become floats, empty and NA entries None, and what is not finite stays text.

    Raises:
        AnalysisError: no row.
    """
    if not rows:
        raise AnalysisError(f"{path.name} has no row")
    columns = tuple(dict.fromkeys(str(name) for row in rows for name in row))
    clean = tuple({str(name): _value(value) for name, value in row.items()} for row in rows)
    remarks, settings = _comments(path) if path.suffix == ".csv" else ((), {})
    return TableRows(path.stem, path.name, columns, clean, remarks, settings)


def _comments(path: Path) -> tuple[tuple[str, ...], dict[str, str]]:
    """A CSV's remarks and settings."""
    remarks: list[str] = []
    settings: dict[str, str] = {}
    for line in path.read_text(encoding="utf-8-sig").splitlines():
        if line.startswith("#:"):
            name, _, value = line[2:].partition("=")
            settings[name.strip()] = value.strip()
        elif line.startswith("#"):
            remarks.append(line[1:].strip())
    return tuple(remarks), settings


def _value(value: Any) -> Value:
    if value is None or isinstance(value, bool):
        return None if value is None else float(value)
    if isinstance(value, int | float):
        return float(value) if math.isfinite(value) else str(value)
    text = str(value).strip()
    if text in ("", "NA"):
        return None
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) else text


def words(value: Value) -> str:
    """A value as a name: 3.0 is ``3``."""
    return f"{value:g}" if isinstance(value, float) else str(value)
