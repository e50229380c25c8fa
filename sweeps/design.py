"""What an expanded sweep is: cells, runs, packs, and what was left out and why. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from jobs.runners import RunShape
from jobs.spec import RunSpec

Labels = Mapping[str, Any]
"""Name of a factor or of a kind of seed -> its level."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of a stage's grid: runs that differ in seeds and in whose product they consume.

    Attributes:
        config: normalised (``jobs.runners.normalise``), shared by its runs.
        shape: what the runner says about it.
        resources, execution: of a pack of such runs; keys that nobody set are absent.
    """

    index: int
    stage: str
    runner: str
    config: Mapping[str, Any]
    labels: Labels
    shape: RunShape
    resources: Mapping[str, Any]
    execution: Mapping[str, Any]

    @property
    def name(self) -> str:
        return cell_name(self.stage, self.labels)


class PlannedRun(NamedTuple):
    """A run, the index of its cell, and the labels it has besides its cell's (seed, and those of its producers). A
    tuple, because there can be a hundred thousand: a frozen dataclass takes four times as long to make."""

    spec: RunSpec
    cell: int
    labels: Labels

    @property
    def id(self) -> str:
        return self.spec.id


@dataclass(frozen=True, slots=True)
class PackPlan:
    """Runs that one process carries.

    Attributes:
        runs: ids, in the order of the stack.
        order: packs start in this order, 0 first, as soon as their inputs are there.
        carried: the pack was planned by another sweep (or an earlier form of this one) and also holds runs that this
            plan does not ask for; its full membership stands there.
    """

    id: str
    runs: tuple[str, ...]
    stage: str
    order: int
    resources: Mapping[str, Any]
    execution: Mapping[str, Any]
    carried: bool = False


@dataclass(frozen=True, slots=True)
class Skipped:
    """Labels (with ``stage``) that will not run, and why."""

    labels: Labels
    reason: str


@dataclass(frozen=True, slots=True)
class StagePlan:
    name: str
    runner: str
    factors: tuple[str, ...]
    seed: str
    """Label of the stage's own seeds."""
    seeds: tuple[int, ...]
    needs: tuple[str, ...]
    """Stages whose products it consumes."""


@dataclass(frozen=True)
class Design:
    """All that a sweep asks for.

    Attributes:
        name: of the sweep.
        source: where it came from (file, preset, overrides).
        settings: the resolved sweep file as plain JSON.
        analysis: the analysis block with its defaults filled in, and ``written``, the keys the file names.
        runs: seed-major within each stage, so that early results span the whole grid.
        assumed: pilots that have not chosen yet: this design is good for prices, and may not be launched.
    """

    name: str
    source: Mapping[str, Any]
    settings: Mapping[str, Any]
    analysis: Mapping[str, Any]
    stages: tuple[StagePlan, ...]
    cells: tuple[Cell, ...]
    runs: tuple[PlannedRun, ...]
    packs: tuple[PackPlan, ...]
    skipped: tuple[Skipped, ...]
    notices: tuple[str, ...]
    assumed: tuple[str, ...] = ()

    def labels(self, run: PlannedRun) -> dict[str, Any]:
        """All labels of a run, its cell's and its own."""
        return {**self.cells[run.cell].labels, **run.labels}


def cell_name(stage: str, labels: Labels) -> str:
    return " ".join([stage, *(f"{name}={value}" for name, value in labels.items())])
