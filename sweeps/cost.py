"""What a design costs: model-steps, hours, disk. Rates come from a calibration or from earlier runs, or are guessed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sweeps.design import Cell, Design, PackPlan, cell_name

GUESSED_OVERHEAD_S = 2e-4
"""Seconds of one step of one model that do not depend on its size. A guess for one CPU core, until something is
measured: packed models of width 16 take 0.2 to 1 ms a step."""

PACK_START_S = 4.0
"""Seconds of a slot before a pack's first step: an interpreter, torch, the data. Measured on two busy cores."""

GUESSED_FLOPS = 2e10
"""Floating-point operations a second of one slot. A guess for one CPU core, as above."""


@dataclass(frozen=True)
class CellCost:
    """One cell. ``flops`` and ``hours`` are of all its runs together; ``hours`` of one slot, without packs' starts."""

    name: str
    stage: str
    runs: int
    parameters: int
    steps: int
    models: int
    flops_per_step: float
    flops: float
    hours: float


@dataclass(frozen=True)
class StageCost:
    """``hours`` of one slot, ``wall_hours`` with all slots, once the stage before has ended."""

    name: str
    runs: int
    packs: int
    model_steps: int
    flops: float
    hours: float
    wall_hours: float


@dataclass(frozen=True)
class Cost:
    """What is left to do.

    Attributes:
        runs, packs: that have not finished.
        model_steps: optimiser steps, counted once for each model trained side by side inside a run.
        hours: of one slot, all packs one after the other.
        wall_hours: with ``slots`` slots, stage after stage; a pack occupies one slot.
        checkpoint_bytes: when every run keeps its newest checkpoint.
        guessed: no rate was known for some of it; those hours are a guess, good to a factor of a few.
    """

    runs: int
    packs: int
    model_steps: int
    flops: float
    hours: float
    wall_hours: float
    checkpoint_bytes: int
    slots: int
    guessed: bool
    stages: tuple[StageCost, ...]
    cells: tuple[CellCost, ...]


def estimate(
    design: Design, rates: Mapping[str, float] | None = None, slots: int = 1, done: Collection[str] = ()
) -> Cost:
    """Price a design.

    Args:
        rates: seconds of one step of one model inside a pack, by stack key (``RunShape.stack_key``) or by runner; the
            stack key has precedence. Absent ones are guessed from the operations of a step.
        slots: packs that run at the same time.
        done: ids of runs that need not run any more.

    Raises:
        ValueError: no slots, or a rate that is not positive.
    """
    rates = rates or {}
    if slots < 1 or any(not rate > 0 for rate in rates.values()):
        raise ValueError(f"an estimate needs slots and positive rates, got slots={slots}, rates={dict(rates)}")
    runs_of: dict[int, int] = defaultdict(int)
    cell_of = {run.id: design.cells[run.cell] for run in design.runs if run.id not in done}
    for run in design.runs:
        runs_of[run.cell] += run.id not in done
    seconds = {cell.index: _seconds(cell, rates) for cell in design.cells}
    cells = tuple(_cell_cost(cell, runs_of[cell.index], seconds[cell.index]) for cell in design.cells)
    packs_of: dict[str, list[float]] = {stage.name: [] for stage in design.stages}
    for pack in design.packs:
        if any(run in cell_of for run in pack.runs):
            packs_of[pack.stage].append(_pack_seconds(pack, cell_of, seconds))
    stages = []
    for name, packs in packs_of.items():
        mine = [cost for cost in cells if cost.stage == name]
        stages.append(
            StageCost(
                name=name,
                runs=sum(cost.runs for cost in mine),
                packs=len(packs),
                model_steps=sum(cost.runs * cost.steps * cost.models for cost in mine),
                flops=sum(cost.flops for cost in mine),
                hours=sum(packs) / 3600,
                wall_hours=_makespan(packs, slots) / 3600,
            )
        )
    return Cost(
        runs=sum(stage.runs for stage in stages),
        packs=sum(stage.packs for stage in stages),
        model_steps=sum(stage.model_steps for stage in stages),
        flops=sum(stage.flops for stage in stages),
        hours=sum(stage.hours for stage in stages),
        wall_hours=sum(stage.wall_hours for stage in stages),
        checkpoint_bytes=sum(runs_of[cell.index] * cell.shape.checkpoint_bytes for cell in design.cells),
        slots=slots,
        guessed=any(runs_of[cell.index] and _rate(cell, rates) is None for cell in design.cells),
        stages=tuple(stages),
        cells=cells,
    )


def _rate(cell: Cell, rates: Mapping[str, float]) -> float | None:
    return rates.get(cell.shape.stack_key, rates.get(cell.runner))


def _seconds(cell: Cell, rates: Mapping[str, float]) -> float:
    """Of one run of the cell, as a member of a pack."""
    rate = _rate(cell, rates)
    if rate is None:
        rate = GUESSED_OVERHEAD_S + cell.shape.flops_per_step / cell.shape.models / GUESSED_FLOPS
    return rate * cell.shape.steps * cell.shape.models


def _cell_cost(cell: Cell, runs: int, seconds: float) -> CellCost:
    shape = cell.shape
    return CellCost(
        name=cell_name(cell.stage, cell.labels),
        stage=cell.stage,
        runs=runs,
        parameters=shape.parameters,
        steps=shape.steps,
        models=shape.models,
        flops_per_step=shape.flops_per_step,
        flops=runs * shape.flops_per_step * shape.steps,
        hours=runs * seconds / 3600,
    )


def _pack_seconds(pack: PackPlan, cell_of: Mapping[str, Cell], seconds: Mapping[int, float]) -> float:
    return PACK_START_S + sum(seconds[cell_of[run].index] for run in pack.runs if run in cell_of)


def _makespan(packs: list[float], slots: int) -> float:
    """No schedule is shorter than the longest pack, nor than the work shared out evenly; a list schedule in falling
    order is at most a third longer than the best, so the larger bound is what is shown."""
    return max([sum(packs) / slots, *packs]) if packs else 0.0
