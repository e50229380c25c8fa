"""Which labels of a sweep's runs make the rows, the columns and the slices of its comparison."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from sweeps.analysis.errors import AnalysisError

if TYPE_CHECKING:
    from sweeps.tables import Columns


@dataclass(frozen=True)
class Layout:
    """Which labels make the rows and the columns of a comparison.

    Attributes:
        baseline: the arm that all others are compared with.
        arm: factor of the arms; an arm that is named after a column is what was made for that column.
        columns: factors whose combinations are the columns; none: one column, ``all``.
        search: label that numbers the searches an arm's product came from, or None.
        where: fixed levels of further factors; what differs in them is another slice.
        stage: the stage whose runs are compared.
    """

    baseline: str
    arm: str
    columns: tuple[str, ...] = ()
    search: str | None = None
    where: Mapping[str, str] = field(default_factory=dict)
    stage: str | None = None


def row_name(layout: Layout, labels: Mapping[str, Any]) -> str | None:
    """The row that a run with these labels belongs to, or None if it has no arm."""
    arm = labels.get(layout.arm)
    return None if arm is None else text(arm)


def column_name(layout: Layout, labels: Mapping[str, Any]) -> str:
    """The column a cell with these labels belongs to."""
    parts = [text(labels[name]) for name in layout.columns if labels.get(name) is not None]
    return ", ".join(parts) or "all"


def column_labels(layout: Layout, cells: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Column -> its name for people, from the labels of the plan's cells."""
    return {column_name(layout, cell["labels"]): column_label(layout, cell["labels"]) for cell in cells}


def column_label(layout: Layout, labels: Mapping[str, Any]) -> str:
    """A column's name for people, with its factors: ``lr 0.003``. A task goes without saying."""
    levels = [(name, text(labels[name])) for name in layout.columns if labels.get(name) is not None]
    return ", ".join(level if name == "task" else f"{name} {level}" for name, level in levels) or "all"


def text(value: Any) -> str:
    """A label's level as text, as it stands in a ``label.`` column."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def find_layout(runs: Columns, block: Mapping[str, Any] | None = None) -> Layout:
    """Read the layout from an analysis block (the plan's, where none is given) and the labels in use.

    ``baseline`` maps the arm's factor, and any other that must be fixed, to a level; ``arm`` and ``column`` name
    factors, ``primary`` the slice (factor -> level). What the block leaves out is found: columns are ``task`` where
    there is one and else all other factors, the stage is the last one that has arms, the slice is what the plan lists
    first. A factor that the arm decides (what its search learned, say) is neither.

    Raises:
        AnalysisError: no baseline, or one that no factor has among its levels.
    """
    chosen: Mapping[str, Any] = block if block is not None else runs.plan.get("analysis") or {}
    levels = {name: list(dict.fromkeys(v for v in runs.label(name) if v is not None)) for name in runs.factors}
    arm, baseline, fixed = _baseline(chosen, levels)
    primary = {name: _levels_of(wanted)[0] for name, wanted in (chosen.get("primary") or {}).items()}
    stages = [s for s, a in zip(runs.values("stage"), runs.label(arm), strict=True) if a is not None]
    stage = primary.pop("stage", stages[-1] if stages else None)
    search = "search_seed" if "search_seed" in levels else None
    free = [name for name in levels if name not in (arm, search, "seed") and _varies(runs, stage, arm, name)]
    fixed |= {name: level for name, level in primary.items() if name in free}
    if chosen.get("column"):
        columns = (str(chosen["column"]),)
    else:
        columns = ("task",) if "task" in levels and arm != "task" else tuple(name for name in free if name not in fixed)
    for name in free:
        if name not in columns and name not in fixed and (level := _first_level(runs, stage, name)) is not None:
            fixed[name] = level
    return Layout(baseline, arm, columns, search, fixed, stage)


def _varies(runs: Columns, stage: str | None, arm: str, factor: str) -> bool:
    """Whether some arm has several levels of a factor in this stage."""
    found: dict[str | None, set[str]] = {}
    for at, name, level in zip(runs.values("stage"), runs.label(arm), runs.label(factor), strict=True):
        if at == stage and level is not None:
            found.setdefault(name, set()).add(level)
    return any(len(levels) > 1 for levels in found.values())


def _baseline(block: Mapping[str, Any], levels: Mapping[str, list[str]]) -> tuple[str, str, dict[str, str]]:
    """The arm's factor, the baseline's level of it, and what else the baseline fixes."""
    wanted = block.get("baseline") or {}
    known = "; ".join(f"{name}: {', '.join(found)}" for name, found in levels.items()) or "none"
    if not wanted:
        raise AnalysisError(f"the sweep names no baseline; write `baseline: {{factor: level}}` (factors: {known})")
    if not isinstance(wanted, Mapping):
        named = [name for name, found in levels.items() if text(wanted) in found]
        wanted = dict.fromkeys(sorted(named, key=lambda n: n != "architecture")[:1], wanted)
    arm = str(block.get("arm") or next(iter(wanted), ""))
    if arm not in levels or arm not in wanted or text(wanted[arm]) not in levels[arm]:
        raise AnalysisError(f"no factor has the baseline {block.get('baseline')!r} among its levels ({known})")
    fixed = {name: text(level) for name, level in wanted.items() if name != arm}
    return arm, text(wanted[arm]), fixed


def _levels_of(wanted: Any) -> list[str]:
    return [text(level) for level in wanted] if isinstance(wanted, list | tuple) else [text(wanted)]


def _first_level(runs: Columns, stage: str | None, factor: str) -> str | None:
    """The level planned first in a stage: the main slice."""
    pairs = zip(runs.values("stage"), runs.label(factor), strict=True)
    return next((level for at, level in pairs if at == stage and level is not None), None)


def search_of(layout: Layout, labels: Mapping[str, Any]) -> int | None:
    found = labels.get(layout.search) if layout.search else None
    return None if found is None else int(found)


def in_slice(layout: Layout, labels: Mapping[str, Any]) -> bool:
    """A cell that lacks a factor of the slice belongs to every slice."""
    return all(labels.get(name) is None or text(labels[name]) == level for name, level in layout.where.items())
