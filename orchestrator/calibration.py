"""What runs of a shape took on this workspace, from the facts of earlier attempts: steps, saves, starting."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from jobs.facts import Checkpointed, Fact, Finished, Started, read_claimed, read_closed, read_facts, read_heartbeat
from jobs.workspace import AttemptDir, Workspace
from orchestrator.desired import sweep_names
from sweeps.plan_file import Plan, read_plan

PACKS_PER_SHAPE = 3
"""So many packs are read for a shape; more would only cost time."""


@dataclass(frozen=True)
class Measured:
    """What packs of one stack key took; all times in seconds.

    Attributes:
        rate_s: one step of one model inside a pack (the median over packs), evaluations and saves included where a pack
            has come to a checkpoint; None where nobody got far enough to tell.
        step_s: one step of a whole pack, without evaluations and saves (the slowest attempt's median).
        start_s: from the claim to the first step (the slowest).
        save_s: the longest save; None where nothing was saved.
        models: most models in a pack that was read.
    """

    rate_s: float | None = None
    step_s: float = 0.0
    start_s: float = 0.0
    save_s: float | None = None
    models: int = 1


def joined(several: Iterable[Measured]) -> Measured:
    """Of several packs as of one; the slowest decide, but for the rate."""
    known = list(several)
    rates = [one.rate_s for one in known if one.rate_s is not None]
    saves = [one.save_s for one in known if one.save_s is not None]
    return Measured(
        median(rates) if rates else None,
        max((one.step_s for one in known), default=0.0),
        max((one.start_s for one in known), default=0.0),
        max(saves, default=None),
        max((one.models for one in known), default=1),
    )


def measured(space: Workspace, wanted: Collection[str]) -> dict[str, Measured]:
    """Stack key -> what was measured, over all sweeps of the workspace, for those of ``wanted`` that have been run."""
    found: dict[str, list[Measured]] = defaultdict(list)
    for name in sweep_names(space):
        with open(space.plan(name), "rb") as file:
            plan = read_plan(file)
        for pack in plan.packs.values():
            key = _stack_key(plan, pack.runs)
            if key in wanted and len(found[key]) < PACKS_PER_SHAPE:
                models = {run: _shape(plan, run).get("models", 1) for run in pack.runs if run in plan.runs}
                one = measure_pack(space, pack.id, models)
                if one is not None:
                    found[key].append(one)
    return {key: joined(several) for key, several in found.items() if several}


def measured_rates(space: Workspace, wanted: Collection[str]) -> dict[str, float]:
    """Stack key -> seconds of one step of one model inside a pack, for those of ``wanted`` that have been run here."""
    return {key: one.rate_s for key, one in measured(space, wanted).items() if one.rate_s is not None}


def _shape(plan: Plan, run: str) -> Mapping[str, int]:
    return plan.cells[plan.runs[run]["cell"]]["shape"]


def _stack_key(plan: Plan, runs: Collection[str]) -> str:
    """Empty where no member stands in this plan (a pack carried for another sweep)."""
    known = next((run for run in runs if run in plan.runs), None)
    return "" if known is None else str(_shape(plan, known).get("stack_key", ""))


def measure_pack(space: Workspace, pack: str, models: Mapping[str, int]) -> Measured | None:
    """What the attempts of a pack took; None where none has begun.

    Args:
        models: run -> models that it trains side by side, of the members that are known.
    """
    found = [one for place in space.attempts(pack) if (one := _measure_attempt(place, models)) is not None]
    return joined(found) if found else None


def _measure_attempt(place: AttemptDir, models: Mapping[str, int]) -> Measured | None:
    closed, claimed, beat = read_closed(place.closed), read_claimed(place.claimed), read_heartbeat(place.heartbeat)
    facts, _ = read_facts(place.facts, limit=closed.facts_bytes if closed else None)
    started = next((fact for fact in facts if isinstance(fact, Started)), None)
    if started is None:
        return None
    saves = [fact.seconds for fact in facts if isinstance(fact, Checkpointed)]
    active = max(1, round(sum(models.values()) * started.members / max(1, len(models))))
    step = (beat.median_step_s if beat is not None else None) or 0.0
    return Measured(
        _finished_rate(facts, models) or _saved_rate(facts, started, active) or step / active or None,
        step,
        max(0.0, started.time - claimed.time) if claimed is not None else 0.0,
        max(saves, default=None),
        active,
    )


def _finished_rate(facts: Iterable[Fact], models: Mapping[str, int]) -> float | None:
    """Over the members that the attempt carried to their ends."""
    seconds = steps = 0.0
    for fact in facts:
        if isinstance(fact, Finished) and fact.status == "completed" and fact.run in models:
            seconds += fact.seconds
            steps += fact.step * models[fact.run]
    return seconds / steps if seconds > 0 and steps > 0 else None


def _saved_rate(facts: Iterable[Fact], started: Started, models: int) -> float | None:
    """Up to its last checkpoint, where it did not come to an end."""
    last = next((fact for fact in reversed(list(facts)) if isinstance(fact, Checkpointed)), None)
    if last is None or last.step <= started.step or last.time <= started.time:
        return None
    return (last.time - started.time) / ((last.step - started.step) * models)
