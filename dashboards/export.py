"""A report's numbers as JSON, CSV and Parquet: every cell has a number, an interval and a count, or a reason."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import orjson

from dashboards.accounts import Accounts
from dashboards.queries import ColumnInfo, Comparison, Slice
from dashboards.stability import Stability
from sweeps.analysis.matrix import Cell
from sweeps.tables import CELL_FIELDS


def report_json(sweep: str, comparison: Comparison, accounts: Accounts, stable: list[Stability]) -> dict[str, Any]:
    """What ``report --json`` prints: plain data, no NaN, no infinity."""
    primary = comparison.primary
    return {
        "sweep": sweep,
        "metric": primary.metric,
        "baseline": comparison.layout.baseline,
        "alpha": primary.matrix.alpha,
        "correction": "holm",
        "family": primary.matrix.family,
        "unit": "percentage points" if primary.unit == "pp" else primary.unit,
        "exploratory": list(comparison.exploratory),
        "notes": list(comparison.notes),
        "slice": primary.name,
        "rows": list(comparison.rows),
        "controls": list(comparison.controls),
        "columns": [column_record(column) for column in comparison.columns],
        "without_number": sum(cell.value is None for cell in primary.matrix.cells),
        "cells": [cell_record(primary, cell) for cell in primary.matrix.cells],
        "other_slices": [
            {"slice": part.name, "metric": part.metric, "cells": [cell_record(part, c) for c in part.matrix.cells]}
            for part in comparison.slices[1:]
        ],
        "stability": [
            {"row": s.row, "column": s.column, "keeps_sign": s.keeps, "words": s.words, "slices": len(s.signs)}
            for s in stable
        ],
        "runs": {"all": accounts.runs, **accounts.states},
        "cost": [asdict(stage) for stage in accounts.stages],
        "diverged": [asdict(t) for t in accounts.diverged],
        "troubles": [asdict(t) for t in accounts.troubles],
        "skipped": [{"pair": pair, "reason": reason} for pair, reason in accounts.skipped],
        "resumes": {"all": accounts.resumes, "exact": accounts.exact_resumes, "not_exact": dict(accounts.inexact)},
        "codes": dict(accounts.codes),
    }


def column_record(column: ColumnInfo) -> dict[str, Any]:
    """A column's levels and noise floor."""
    noise, levels = column.noise, column.levels
    return {
        "column": column.name,
        "informative": noise.informative,
        "why": noise.why,
        "baseline": noise.baseline,
        "n_baseline": noise.n_baseline,
        "seed_sd": noise.seed_sd,
        "search_sd": noise.search_sd,
    } | asdict(levels)


def cell_record(part: Slice, cell: Cell) -> dict[str, Any]:
    """One cell: its value with interval and n, or a reason; ``words`` says it all in a sentence.

    ``interval`` is the one of the page, which decides; ``interval_uncorrected`` that of the cell alone.
    """
    ends = ("low", "high", "family_low", "family_high")
    values = {name: value for name, value in asdict(cell).items() if name not in ends}
    reason = cell.reason if cell.value is not None else cell.reason or cell.verdict
    return {"slice": part.name} | values | {
        "interval": None if cell.interval is None else list(cell.interval),
        "interval_uncorrected": None if cell.low is None or cell.high is None else [cell.low, cell.high],
        "reason": reason,
        "decided": cell.decided,
        "words": cell.words,
    }  # fmt: skip


def flat_records(comparison: Comparison) -> list[dict[str, Any]]:
    """One record for each slice x row x column, with the columns of ``sweeps.tables.CELL_FIELDS``."""
    records = []
    for part in comparison.slices:
        for cell in part.matrix.cells:
            low, high = cell.interval or (None, None)
            whole = cell_record(part, cell) | {"low": low, "high": high, "metric": part.metric}
            whole |= {"uncorrected_low": cell.low, "uncorrected_high": cell.high}
            whole |= {"unit": part.unit, "primary": part.primary}
            records.append({name: whole[name] for name, _ in CELL_FIELDS})
    return records


def as_json(content: dict[str, Any]) -> bytes:
    return orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n"
