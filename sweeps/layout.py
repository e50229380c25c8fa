"""Which labels of a sweep's runs make the rows, the columns and the slices of its comparison."""

from __future__ import annotations

from collections.abc import Mapping
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
        arm: factor of the arms.
        source: factor that tells what an arm's product was learned for, or None; the row of a learned arm is its
            source, and ``learned`` names the arm that learns.
        learned: level of ``arm`` whose rows are named after their source.
        columns: factors whose combinations are the columns; none: one column, ``all``.
        search: factor that numbers the searches an arm's product came from, or None.
        where: fixed levels of further factors; what differs in them is another slice.
        stage: the stage whose runs are compared.
    """

    baseline: str
    arm: str = "architecture"
    source: str | None = "learned_for"
    learned: str = "spline"
    columns: tuple[str, ...] = ("task",)
    search: str | None = "search_seed"
    where: dict[str, str] = field(default_factory=dict)
    stage: str | None = None


def row_name(layout: Layout, labels: dict[str, Any]) -> str | None:
    """The row a cell with these labels belongs to, or None if it has no arm."""
    arm = labels.get(layout.arm)
    source = labels.get(layout.source) if layout.source else None
    if arm is None or source is None:
        return None if arm is None else text(arm)
    if arm == layout.learned:
        return text(source)
    own = text(source) == text(labels.get(layout.columns[0])) if layout.columns else False
    return text(arm) if own else f"{text(arm)} of {text(source)}"


def column_name(layout: Layout, labels: dict[str, Any]) -> str:
    """The column a cell with these labels belongs to."""
    parts = [text(labels[name]) for name in layout.columns if labels.get(name) is not None]
    return ", ".join(parts) or "all"


def text(value: Any) -> str:
    """A label's level as text, as it stands in a ``label.`` column."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def find_layout(runs: Columns, block: Mapping[str, Any] | None = None) -> Layout:
    """Read the layout from an analysis block (the plan's, where none is given) and the labels in use.

    ``baseline`` maps the arm's factor, and any other that must be fixed, to a level; ``arm`` and ``column`` name
    factors, ``primary`` the slice (factor -> level). What the block leaves out is found: columns are ``task`` where
    there is one and else all other factors, the stage is the last one that has arms, the slice is what the plan lists
    first.

    Raises:
        AnalysisError: no baseline, or one that no factor has among its levels.
    """
    block = (runs.plan.get("analysis") or {}) if block is None else block
    levels = {name: list(dict.fromkeys(v for v in runs.label(name) if v is not None)) for name in runs.factors}
    arm, baseline, fixed = _baseline(block, levels)
    source = "learned_for" if "learned_for" in levels else None
    search = "search_seed" if "search_seed" in levels else None
    stages = [s for s, a in zip(runs.values("stage"), runs.label(arm), strict=True) if a is not None]
    stage = stages[-1] if stages else None
    others = [name for name in levels if name not in (arm, source, search, "seed")]
    others = [name for name in others if _first_level(runs, stage, name) is not None]
    primary = {name: _levels_of(wanted)[0] for name, wanted in (block.get("primary") or {}).items()}
    stage = primary.pop("stage", stage)
    fixed |= {name: level for name, level in primary.items() if name in others}
    free = [name for name in others if name not in fixed]
    columns = (block["column"],) if block.get("column") else ("task",) if "task" in free else tuple(free)
    for name in free:
        if name not in columns and (level := _first_level(runs, stage, name)) is not None:
            fixed[name] = level
    return Layout(baseline, arm, source, "spline", columns, search, fixed, stage)


def _baseline(block: Mapping[str, Any], levels: Mapping[str, list[str]]) -> tuple[str, str, dict[str, str]]:
    """The arm's factor, the baseline's level of it, and what else the baseline fixes."""
    wanted = block.get("baseline") or {}
    known = "; ".join(f"{name}: {', '.join(found)}" for name, found in levels.items()) or "none"
    if not wanted:
        raise AnalysisError(f"the sweep names no baseline; write `baseline: {{factor: level}}` (factors: {known})")
    if not isinstance(wanted, Mapping):
        named = [name for name, found in levels.items() if text(wanted) in found]
        wanted = dict.fromkeys(sorted(named, key=lambda n: n != "architecture")[:1], wanted)
    arm = block.get("arm") or next(iter(wanted), None)
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


def search_of(layout: Layout, labels: dict[str, Any]) -> int | None:
    found = labels.get(layout.search) if layout.search else None
    return None if found is None else int(found)


def in_slice(layout: Layout, labels: dict[str, Any]) -> bool:
    """A cell that lacks a factor of the slice belongs to every slice."""
    return all(labels.get(name) is None or text(labels[name]) == level for name, level in layout.where.items())
