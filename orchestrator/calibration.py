"""How fast runs of a shape were on this workspace: seconds of one step of one model, from finished facts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from statistics import median

from jobs.facts import Finished, read_facts
from jobs.workspace import Workspace
from orchestrator.desired import sweep_names
from sweeps.plan_file import Plan, read_plan

PACKS_PER_SHAPE = 3
"""So many packs are read for a rate; more would only cost time."""


def measured_rates(space: Workspace, wanted: Collection[str]) -> dict[str, float]:
    """Stack key -> seconds of one step of one model inside a pack, for those of ``wanted`` that have been run here."""
    rates: dict[str, list[float]] = defaultdict(list)
    for name in sweep_names(space):
        with open(space.plan(name), "rb") as file:
            plan = read_plan(file)
        for pack in plan.packs.values():
            key = _stack_key(plan, pack.runs)
            if key in wanted and len(rates[key]) < PACKS_PER_SHAPE:
                rates[key] += _rates_of(space, plan, pack.id)
    return {key: median(found) for key, found in rates.items() if found}


def _stack_key(plan: Plan, runs: Collection[str]) -> str:
    """Empty where no member stands in this plan (a pack carried for another sweep)."""
    known = next((run for run in runs if run in plan.runs), None)
    return "" if known is None else plan.cells[plan.runs[known]["cell"]]["shape"]["stack_key"]


def _rates_of(space: Workspace, plan: Plan, pack: str) -> list[float]:
    """At most one number: over the members that one attempt carried from its start to their ends."""
    for place in space.attempts(pack):
        facts, _ = read_facts(place.facts)
        seconds = steps = 0.0
        for fact in facts:
            if isinstance(fact, Finished) and fact.status == "completed" and fact.run in plan.runs:
                models = plan.cells[plan.runs[fact.run]["cell"]]["shape"]["models"]
                seconds += fact.seconds
                steps += fact.step * models
        if seconds > 0 and steps > 0:
            return [seconds / steps]
    return []
