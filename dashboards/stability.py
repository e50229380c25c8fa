"""Which cells keep their sign when the step or the rate is another one: a matrix is one slice of what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dashboards.queries import Comparison, Slice


@dataclass(frozen=True)
class Look:
    """One cell in one slice: its sign (-1, 0, 1; None without a value) and whether it was decided there.

    ``gain`` is the value turned so that more is better; ``first`` marks a slice with other fixed levels than the one
    before it.
    """

    slice: str
    value: float | None
    gain: float | None
    unit: str
    first: bool
    sign: int | None
    decided: bool
    reason: str | None


@dataclass(frozen=True)
class Stability:
    """One cell over all slices, by what is fixed and then by step.

    ``keeps`` is None where fewer than two slices have a value. It speaks of the sign of the estimates, whether or not
    they were decided: a cell may keep its sign by luck.
    """

    row: str
    column: str
    looks: tuple[Look, ...]

    @property
    def signs(self) -> list[int]:
        return [look.sign for look in self.looks if look.sign is not None]

    @property
    def keeps(self) -> bool | None:
        return None if len(self.signs) < 2 else abs(sum(self.signs)) == len(self.signs)

    @property
    def words(self) -> str:
        if self.keeps is None:
            return "one slice or none: nothing to compare"
        if self.keeps:
            return f"same sign in all {len(self.signs)} slices"
        return f"positive in {sum(sign > 0 for sign in self.signs)} of {len(self.signs)} slices"


def stability(comparison: Comparison) -> list[Stability]:
    """One entry for each row x column of the family, row by row."""
    parts = comparison.in_order
    firsts = [index > 0 and parts[index - 1].where != part.where for index, part in enumerate(parts)]
    return [
        Stability(
            row,
            column.name,
            tuple(_look(part, row, column.name, first) for part, first in zip(parts, firsts, strict=True)),
        )
        for row in comparison.rows
        for column in comparison.columns
    ]


def kept(cells: Sequence[Stability]) -> tuple[int, int]:
    """(cells that keep their sign, cells where that can be said)."""
    said = [cell.keeps for cell in cells if cell.keeps is not None]
    return sum(said), len(said)


def _look(part: Slice, row: str, column: str, first: bool) -> Look:
    cell = part.matrix.cell(row, column)
    value = cell.value
    if value is None:
        return Look(part.name, None, None, part.unit, first, None, False, cell.reason)
    sign = (value > 0) - (value < 0)
    return Look(part.name, value, part.gain(value), part.unit, first, sign, cell.decided, cell.reason)
