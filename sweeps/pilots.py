"""Values of a sweep file that another sweep chooses (``pilots``): finding that sweep, and what stands for the values.

A table that the rule made is laid below the file, as an include is. Where there is none yet, every entry is what the
rule assumes for prices, and the sweep says that it is: such a design can be shown and never launched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from sweeps import mistakes, shipped
from sweeps.errors import Problem, SweepError
from sweeps.labels import contains
from sweeps.overrides import spell
from sweeps.rates import assumed
from sweeps.schema import Pilot, SweepFile
from sweeps.tree import Origins, Tree, origin_of
from sweeps.tree import Path as TreePath

if TYPE_CHECKING:
    from sweeps.load import Sweep


def settle(tree: Any, folder: Path) -> None:
    """Pilots that a file names lie beside it, or are shipped, whichever file is laid over it later."""
    pilots = tree.get("pilots") if isinstance(tree, dict) else None
    for block in pilots.values() if isinstance(pilots, dict) else ():
        if isinstance(block, dict) and isinstance(block.get("sweep"), str):
            file = shipped.beside(block["sweep"], folder)
            block["sweep"] = shipped.shown(file) if file.is_relative_to(shipped.FOLDER) else str(file.absolute())


def pilot_file(pilot: Pilot) -> Path:
    """The file of a settled pilot; one that was named on the command line is found as any other sweep.

    Raises:
        SweepError: there is none.
    """
    settled = shipped.FOLDER / pilot.sweep
    return settled if settled.is_file() else shipped.locate(pilot.sweep)


@dataclass(frozen=True)
class Grid:
    """What a pilot's sweep varies: the levels it chooses for, and those it chooses from."""

    levels: tuple[str, ...]
    rates: tuple[float, ...]


def grid_of(pilot: Pilot, source: Sweep) -> Grid:
    """The two factors of a pilot.

    Raises:
        SweepError: the pilot's sweep has no such factor, or one of ``factor``'s values is no positive number.
    """
    from sweeps.crossing import levels

    found: list[list[Any]] = []
    for key, name in (("column", pilot.column), ("factor", pilot.factor)):
        if name not in source.file.factors:
            where, choices = f"pilots.*.{key}", tuple(source.file.factors)
            raise SweepError([Problem(where, f"no such factor of {pilot.sweep}", value=name, choices=choices)])
        only = source.file.only.get(name)
        found.append([level.value for level in levels(source, name) if only is None or contains(only, level.value)])
    rates = [rate for rate in found[1] if isinstance(rate, int | float) and not isinstance(rate, bool) and rate > 0]
    if not rates or len(rates) != len(found[1]):
        message = f"a rate is chosen from positive numbers, the values of factor {pilot.factor} of {pilot.sweep}"
        raise SweepError([Problem("pilots.*.factor", message, value=found[1])])
    return Grid(tuple(str(level) for level in found[0]), tuple(float(rate) for rate in rates))


def assumed_values(tree: Tree, origins: Origins, problems: list[Problem]) -> Tree:
    """``{"values": {name: {level: entry}}}`` of all levels of the pilots' grids, to be laid below what was chosen: for
    prices where there is no table yet, else for the levels that ``only`` keeps out of the pilot and the study alike."""
    pilots = tree.get("pilots")
    values: Tree = {}
    for name, block in pilots.items() if isinstance(pilots, dict) else ():
        if not isinstance(block, dict):
            continue
        root: TreePath = ("pilots", name)
        try:
            pilot = Pilot.model_validate(block)
        except ValidationError as error:
            problems.extend(mistakes.problems(error, Pilot, block, _located(origins, root)))
            continue
        try:
            grid = grid_of(pilot, _loaded(pilot))
        except SweepError as error:
            _, origin = origin_of(origins, (*root, "sweep"))
            found = "; ".join(str(problem) for problem in error.problems)
            problems.append(Problem(f"pilots.{name}", found, origin.file, origin.line))
            continue
        values[name] = {level: assumed(grid.rates, pilot.clip) for level in grid.levels}
    return {"values": values} if values else {}


def _located(origins: Origins, root: TreePath) -> mistakes.Locate:
    return lambda path: origin_of(origins, root + path)


def _loaded(pilot: Pilot) -> Sweep:
    from sweeps.load import load_sweep

    return load_sweep(pilot_file(pilot), pilot.overrides)


def planned_analysis(file: SweepFile) -> dict[str, Any]:
    """The analysis block as a plan keeps it. It is frozen, so it holds no step that is only assumed: a pilot chooses
    none for the columns that ``only`` leaves out."""
    planned = file.analysis.planned()
    column, step = planned.get("column"), planned.get("step")
    piloted = any(pilot is not None and pilot.column == column for pilot in file.pilots.values())
    if piloted and column in file.only and isinstance(step, Mapping):
        planned["step"] = {level: at for level, at in step.items() if contains(file.only[column], level)}
    return planned


def first_round(pilot: Pilot, only: Sequence[Any] | None) -> tuple[str, ...]:
    """Overrides of the pilot's own sweep: only levels that the study keeps."""
    return (*pilot.overrides, *([] if only is None else [f"only.{pilot.column}={spell(list(only))}"]))


def further_round(pilot: Pilot, name: str, levels: Sequence[str], rates: Sequence[float]) -> tuple[str, ...]:
    """Overrides of a round that continues the grid for some levels. ``name``: of its sweep."""
    return (
        *pilot.overrides,
        f"name={name}",
        f"only.{pilot.column}={spell(list(levels))}",
        f"factors.{pilot.factor}.values={spell(list(rates))}",
    )
