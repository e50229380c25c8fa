"""A sweep file -> its design, or every mistake in it: those of the file and those of its cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from sweeps.design import Design
from sweeps.errors import Problem, SweepError
from sweeps.expand import expand
from sweeps.load import in_order, load_sweep


def read_design(
    source: str | Path,
    overrides: Sequence[str] = (),
    preset: str | None = None,
    tables: Mapping[str, Path] | None = None,
) -> Design:
    """Load and expand ``source``. Arguments: those of ``load_sweep``.

    Raises:
        SweepError: with every mistake. A file that cannot be taken as it is, is expanded without its mistakes, so that
            those in its cells are not only told in a second round.
    """
    try:
        return expand(load_sweep(source, overrides, preset, tables))
    except SweepError as error:
        if error.rest is None:
            raise
        known = error.problems
        try:
            expand(error.rest)
        except SweepError as more:
            raise SweepError(in_order([*known, *(p for p in more.problems if _is_news(p, known))])) from None
        raise SweepError(known) from None


def _is_news(problem: Problem, known: Sequence[Problem]) -> bool:
    """Not a mere consequence of what was taken out: only what stands in a cell, and is wrong by itself."""
    key, _, cells = problem.where.partition(" (")
    if "is missing" in problem.message or not cells:
        return False
    return not any(other.where and (key + ".").startswith(other.where + ".") for other in known)
