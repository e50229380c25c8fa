"""What "task-specific" means: in its own column, the arm made for a task against the arms made for the others."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sweeps.analysis import student
from sweeps.analysis.linear import Linear, closed, contrast
from sweeps.analysis.results import Result


@dataclass(frozen=True)
class Specific:
    """One column.

    Attributes:
        against_others: own arm less the mean of the other rows, Holm over the columns.
        beaten: other rows that the own arm beats one by one, Holm over all pairs of all columns.
        rivals: other rows that have a value.
        best_other: the other row with the largest mean, with its value; None without one.
    """

    against_others: Linear
    beaten: int
    rivals: int
    best_other: tuple[str, float] | None


@dataclass(frozen=True)
class Index:
    """Mean over columns of own less other rows, in units of the room between chance and ceiling.

    0: no more than the other rows; 1: from chance to the ceiling, and only there.

    Attributes:
        value, low, high: with its t interval (columns independent; Satterthwaite's df).
        df: of the interval.
        columns: columns it is over.
        reason: which columns are left out, or why there is no index.
    """

    value: float | None
    low: float | None
    high: float | None
    df: float | None
    columns: int
    reason: str | None = None


def specificity(
    results: Sequence[Result], rows: Sequence[str], columns: Sequence[str], alpha: float = 0.05
) -> list[Specific]:
    """Every column that has a row of its own name.

    Args:
        results: diverged runs already at chance.
        rows: arms that were made for a column.
        columns: in the order wanted.
        alpha: family-wise level, for either family.
    """
    own = [c for c in columns if c in rows]
    sums = closed([_against_others(c, rows, results, alpha) for c in own], alpha)
    pairs = [(c, r, contrast(r, c, {c: 1.0, r: -1.0}, results, alpha)) for c in own for r in rows if r != c]
    decided = closed([p[2] for p in pairs], alpha)
    made = []
    for column, total in zip(own, sums, strict=True):
        mine = [(r, d) for (c, r, _), d in zip(pairs, decided, strict=True) if c == column and d.value is not None]
        others = {r: _mean(results, r, column) for r, _ in mine}
        best = max(others, key=lambda r: (others[r], r), default=None)
        beaten = sum(d.verdict == "more" for _, d in mine)
        made.append(Specific(total, beaten, len(mine), None if best is None else (best, others[best])))
    return made


def specificity_index(
    found: Sequence[Specific], chance: Mapping[str, float], ceiling: Mapping[str, float], alpha: float = 0.05
) -> Index:
    """The index over all columns whose chance level is known and whose contrast has a number."""
    parts: list[tuple[float, float, float]] = []
    left_out = []
    for specific in found:
        c = specific.against_others
        level = chance.get(c.column)
        if c.value is None or c.standard_error is None or c.df is None or level is None:
            left_out.append(c.column)
            continue
        room = ceiling.get(c.column, 1.0) - level
        parts.append((c.value / room, c.standard_error / room, c.df))
    reason = f"left out: {', '.join(left_out)}" if left_out else None
    if not parts:
        return Index(None, None, None, None, 0, reason or "no column has a row of its own name")
    k = len(parts)
    value = math.fsum(v for v, _, _ in parts) / k
    variance = math.fsum(e**2 for _, e, _ in parts) / k**2
    spread = math.fsum((e / k) ** 4 / df for _, e, df in parts)
    df = variance**2 / spread
    half = math.sqrt(variance) * student.critical(alpha / 2, df)
    return Index(value, value - half, value + half, df, k, reason)


def _against_others(column: str, rows: Sequence[str], results: Sequence[Result], alpha: float) -> Linear:
    """Own arm less the mean of the other rows that have a value there."""
    having = {r.arm for r in results if r.task == column and r.value is not None}
    others = [r for r in rows if r != column and r in having]
    if not others:
        return Linear(column, column, verdict="not run", reason="no other row has a value here")
    weights = {column: 1.0} | dict.fromkeys(others, -1 / len(others))
    found = contrast(column, column, weights, results, alpha)
    absent = len(rows) - 1 - len(others)
    if not absent or found.value is None:
        return found
    note = f"over {len(others)} of {len(rows) - 1} other rows"
    return replace(found, reason=f"{found.reason}; {note}" if found.reason else note)


def _mean(results: Sequence[Result], arm: str, column: str) -> float:
    values = [r.value for r in results if r.arm == arm and r.task == column and r.value is not None]
    return math.fsum(values) / len(values)
