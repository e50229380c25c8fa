"""Which runs share a process: equal stage, shape, resources and execution, and equal labels ``pack.by``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Protocol

from jobs.identity import canonical_json
from jobs.spec import pack_id
from sweeps.design import Cell, Design, PackPlan, PlannedRun
from sweeps.labels import agrees
from sweeps.schema import Pack, Stage, SweepFile


class CarriedPack(Protocol):
    """A pack that is planned or running already, with its full membership in stack order."""

    @property
    def id(self) -> str: ...
    @property
    def runs(self) -> tuple[str, ...]: ...
    @property
    def resources(self) -> Mapping[str, Any]: ...
    @property
    def execution(self) -> Mapping[str, Any]: ...


def packed(
    file: SweepFile, stages: Mapping[str, Stage], cells: Sequence[Cell], runs: Iterable[PlannedRun]
) -> tuple[tuple[PackPlan, ...], list[str]]:
    """Packs in the order of their first runs, and notices about baselines that could not share their arms' packs."""
    groups: dict[tuple[Any, ...], list[PlannedRun]] = {}
    rules = {name: stage.pack or file.pack for name, stage in stages.items()}
    fixed = [_group_key(cell) for cell in cells]
    labels = [rules[cell.stage].by for cell in cells]
    own = [tuple(map(cell.labels.get, by)) for cell, by in zip(cells, labels, strict=True)]
    for run in runs:
        by = tuple(map(run.labels.get, labels[run.cell], own[run.cell]))
        # Equal labels are equal by value and type here: they come from the same level.
        groups.setdefault((fixed[run.cell], by, tuple(map(type, by))), []).append(run)
    packs: list[PackPlan] = []
    for members in groups.values():
        cell = cells[members[0].cell]
        for part in _split(members, rules[cell.stage].max):
            ids = tuple(run.id for run in part)
            packs.append(PackPlan(pack_id(ids), ids, cell.stage, len(packs), cell.resources, cell.execution))
    return tuple(packs), _confounded(file, rules, cells, groups.values())


def assign(design: Design, existing: Mapping[str, CarriedPack]) -> Design:
    """The design with runs that another plan has packed already left in the pack that carries them.

    Args:
        design: as ``expand`` made it.
        existing: run id -> the pack that carries it, for packs that must stay as they are.

    Returns:
        A design whose packs are the existing ones first (in this design's order), and new ones of the runs that are
        left. A pack that also holds runs this design does not ask for is marked ``carried``.
    """
    carriers = {run.id: existing[run.id] for run in design.runs if run.id in existing}
    if not carriers:
        return design
    ours = {run.id for run in design.runs}
    packs: dict[str, PackPlan] = {}
    broken: list[tuple[str, ...]] = []
    for pack in design.packs:
        for run in pack.runs:
            if (carrier := carriers.get(run)) is not None and carrier.id not in packs:
                foreign = any(member not in ours for member in carrier.runs)
                packs[carrier.id] = PackPlan(
                    carrier.id, carrier.runs, pack.stage, 0, carrier.resources, carrier.execution, foreign
                )
        left = tuple(run for run in pack.runs if run not in carriers)
        if left and len(left) < len(pack.runs):
            broken.append(left)
        if left:
            packs[pack_id(left)] = replace(pack, id=pack_id(left), runs=left)
    ordered = tuple(replace(pack, order=order) for order, pack in enumerate(packs.values()))
    notices = design.notices
    if broken:
        count = sum(map(len, broken))
        notices += (
            f"{count} new runs go into {len(broken)} packs of their own: runs they would share one with are planned "
            f"already, and a pack is never changed; compared with those they differ in pack size too",
        )
    return replace(design, packs=ordered, notices=notices)


def _group_key(cell: Cell) -> bytes:
    return canonical_json([cell.stage, cell.shape.stack_key, cell.resources, cell.execution])


def _split(members: list[PlannedRun], most: int) -> list[list[PlannedRun]]:
    """As few parts as ``most`` allows, as equal in size as can be, in order."""
    count = -(-len(members) // most)
    bounds = [len(members) * k // count for k in range(count + 1)]
    return [members[low:high] for low, high in pairwise(bounds)]


def _confounded(
    file: SweepFile, rules: Mapping[str, Pack], cells: Sequence[Cell], groups: Iterable[list[PlannedRun]]
) -> list[str]:
    """A notice for each stage where arms and baseline are in different packs, though packs hold several runs."""
    baseline = file.analysis.baseline
    if not baseline:
        return []
    when = {label: (value,) for label, value in baseline.items()}
    apart: dict[str, list[int]] = {}
    split: dict[str, int] = {}
    for members in groups:
        cell = cells[members[0].cell]
        if not baseline.keys() <= cell.labels.keys() or rules[cell.stage].max == 1:
            continue
        counts = apart.setdefault(cell.stage, [0, 0])
        counts[0] += 1
        counts[1] += not any(agrees(when, cells[run.cell].labels) for run in members)
        if len(members) > rules[cell.stage].max:
            split[cell.stage] = max(split.get(cell.stage, 0), len(members))
    notices = []
    for stage, largest in split.items():
        notices.append(
            f"stage {stage}: pack.max is {rules[stage].max} and {largest} runs belong together, so some arms train in "
            f"another pack than their baseline; raise pack.max or add a label to pack.by"
        )
    for stage, (total, without) in apart.items():
        if without and total > 1:
            notices.append(
                f"stage {stage}: {without} of {total} groups hold no baseline run (another shape, other resources, or "
                f"pack.by keeps them apart): their arms are compared with a baseline from another pack"
            )
    return notices
