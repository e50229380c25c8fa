"""Which runs have completed, by their files: for plans, before any loop looks."""

from __future__ import annotations

from collections.abc import Iterable

from jobs.state import RunState, read_attempt, run_states
from jobs.workspace import Workspace
from sweeps.design import PackPlan


def completed_runs(space: Workspace, packs: Iterable[PackPlan]) -> frozenset[str]:
    """Runs of these packs that have a completed ``finished`` fact. A pack that was never launched costs one look."""
    done: set[str] = set()
    for pack in packs:
        attempts = [read_attempt(place) for place in space.attempts(pack.id) if place.launch.exists()]
        if attempts:
            states = run_states(pack.runs, attempts)
            done |= {run for run, status in states.items() if status.state == RunState.COMPLETED}
    return frozenset(done)
