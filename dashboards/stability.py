"""Which cells keep their sign when the step or the rate is another one: a matrix is one slice of what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dashboards.queries import Comparison, Slice


@dataclass(frozen=True)
class Look:
    """One cell in one slice: its sign (-1, 0, 1; None without a value) and whether it was decided there."""

    slice: str
    value: float | None
    sign: int | None
    decided: bool
    reason: str | None


@dataclass(frozen=True)
class Stability:
    """One cell over all slices, the primary one first.

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
    def decided_both_ways(self) -> bool:
        """Decided as better in one slice and as worse in another."""
        return {look.sign for look in self.looks if look.decided} >= {-1, 1}

    @property
    def words(self) -> str:
        if self.keeps is None:
            return "one slice or none: nothing to compare"
        agree = sum(sign == self.signs[0] for sign in self.signs)
        if self.keeps:
            return f"same sign in all {len(self.signs)} slices"
        return f"sign of the first slice in {agree} of {len(self.signs)}"


def stability(comparison: Comparison) -> list[Stability]:
    """One entry for each row x column of the family, row by row."""
    return [
        Stability(row, column.name, tuple(_look(s, row, column.name) for s in comparison.slices))
        for row in comparison.rows
        for column in comparison.columns
    ]


def kept(cells: Sequence[Stability]) -> tuple[int, int]:
    """(cells that keep their sign, cells where that can be said)."""
    said = [cell.keeps for cell in cells if cell.keeps is not None]
    return sum(said), len(said)


def _look(part: Slice, row: str, column: str) -> Look:
    cell = part.matrix.cell(row, column)
    sign = None if cell.value is None else (cell.value > 0) - (cell.value < 0)
    return Look(part.name, cell.value, sign, cell.decided, cell.reason)
