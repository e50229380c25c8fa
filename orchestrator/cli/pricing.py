"""What a prepared plan costs here and now: measured rates, slots of the backend, runs that are done already."""

from __future__ import annotations

from jobs.workspace import Workspace
from orchestrator.calibration import measured_rates
from orchestrator.done import completed_runs
from orchestrator.planning import Prepared
from sweeps.cost import Cost, estimate

REMOTE_SLOTS = 64
"""Packs at once that an estimate assumes on a cluster without ``--max-in-flight``."""


def price(space: Workspace, prepared: Prepared, backend: str, max_in_flight: int | None) -> tuple[Cost, frozenset[str]]:
    """The cost of what is left, and the runs that are done already."""
    design = prepared.design
    limit = max_in_flight or design.settings.get("max_in_flight")
    slots = limit or (_local_slots() if backend == "local" else REMOTE_SLOTS)
    done = completed_runs(space, design.packs) & {run.id for run in design.runs}
    rates = measured_rates(space, {cell.shape.stack_key for cell in design.cells})
    return estimate(design, rates, slots, done), done


def _local_slots() -> int:
    from cluster.local_backend import LocalBackend

    return LocalBackend().free_slots(0, None)
