"""Which time limits and warnings jobs on a cluster would be submitted with now, and by whose word: for previews."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from cluster.backend import ClusterError, Resources
from cluster.batch_file import BATCH_FILE
from cluster.slurm.limits import Partition
from cluster.slurm.profile import load_profile
from cluster.slurm.time_limit import TimeLimit, time_limit
from jobs.durable import read_json
from jobs.workspace import Workspace
from orchestrator.calibration import joined, measure_pack, measured
from orchestrator.history import split_name
from orchestrator.launching import asked_for
from orchestrator.needs import Memory, Work, needs_of
from orchestrator.selection import Choice
from orchestrator.sizing import memory_after, models_of, stack_key, work_of
from orchestrator.survey import brought_up_to_date
from sweeps.design import Design

LimitOf = Callable[[Resources], TimeLimit]
LIMITED = frozenset({"slurm"})
"""Backends whose jobs have time limits."""


@dataclass(frozen=True)
class StageLimit:
    """What so many packs of a stage would be submitted with."""

    stage: str
    packs: int
    limit: TimeLimit

    def payload(self) -> dict[str, Any]:
        """For scripts."""
        limit = self.limit
        return {
            "stage": self.stage,
            "packs": self.packs,
            "minutes": limit.minutes,
            "minutes_from": limit.source,
            "lead_s": limit.lead_s,
            "lead_from": limit.lead_source,
            "notes": list(limit.notes),
        }


def site_limits(space: Workspace) -> LimitOf:
    """How this site's limits are found: with its partition and its maintenance where Slurm answers, else without.

    Raises:
        PermanentError: the site profile holds mistakes.
    """
    from cluster.submitit_backend import SlurmBackend

    profile = load_profile()
    backend = SlurmBackend(profile, submissions=space.submissions)
    away = False

    def limit_of(resources: Resources) -> TimeLimit:
        nonlocal away
        if not away:
            try:
                return backend.limit_of(resources)
            except ClusterError:
                away = True  # no Slurm on this machine
        return time_limit(resources, profile, Partition(), None)

    return limit_of


def planned_limits(space: Workspace, design: Design, backend: str, done: Collection[str]) -> tuple[StageLimit, ...]:
    """Of the packs of a plan that are left to run, from their first step; none where jobs have no time limit.

    Raises:
        PermanentError: the site profile holds mistakes.
    """
    if backend not in LIMITED:
        return ()
    cells = {run.id: design.cells[run.cell] for run in design.runs}
    found = measured(space, {cell.shape.stack_key for cell in design.cells})
    limit_of = site_limits(space)
    said: dict[Resources, TimeLimit] = {}
    counts: Counter[tuple[str, TimeLimit]] = Counter()
    for pack in design.packs:
        open_runs = [run for run in pack.runs if run in cells and run not in done]
        if not open_runs:
            continue
        shapes = [cells[run].shape for run in open_runs]
        work = Work(max(shape.steps for shape in shapes), sum(shape.models for shape in shapes))
        needs = needs_of(found.get(shapes[0].stack_key), work, pack.execution)
        asked = asked_for(pack.resources, needs=needs)
        if asked not in said:
            said[asked] = limit_of(asked)
        counts[pack.stage, said[asked]] += 1
    return tuple(StageLimit(stage, packs, limit) for (stage, limit), packs in counts.items())


@dataclass(frozen=True)
class Ask:
    """What the next attempt of a pack would ask for. ``limit``: None where its jobs have no time limit; ``memory``:
    None where no attempt ran out of it."""

    limit: TimeLimit | None = None
    memory: Memory | None = None

    def payload(self) -> dict[str, Any]:
        """For scripts."""
        found: dict[str, Any] = {}
        if self.limit is not None:
            limit = self.limit
            found |= {"minutes": limit.minutes, "minutes_from": limit.source, "limit_notes": list(limit.notes)}
            found |= {"lead_s": limit.lead_s, "lead_from": limit.lead_source}
        if self.memory is not None:
            memory = self.memory
            found |= {"memory_mb": memory.allowed_mb, "memory_wanted_mb": memory.wanted_mb, "peak_mb": memory.peak_mb}
        return found


def retried(space: Workspace, choice: Choice, steps: Mapping[str, int]) -> dict[str, Ask]:
    """Pack -> what it would ask for, on the backend that ran it last. ``steps``: pack -> where it would go on.

    Raises:
        PermanentError: the site profile holds mistakes.
    """
    desired, packs = choice.desired, {pack: of[0].pack for pack, of in choice.packs.items()}
    backends = last_backends(space, packs)
    limited = {pack for pack in packs if backends.get(pack) in LIMITED}
    found = measured(space, {stack_key(desired, packs[pack]) for pack in limited})
    limit_of = site_limits(space) if limited else None
    site_mb = load_profile().memory_mb if limited else None
    asks = {}
    for id, pack in packs.items():
        views = brought_up_to_date(space, id, [], 0.0)
        memory = memory_after(space, pack, views, site_mb if id in limited else None)
        limit = None
        if limit_of is not None and id in limited:
            own = measure_pack(space, id, models_of(desired, pack.runs))
            known = [one for one in (own, found.get(stack_key(desired, pack))) if one is not None]
            work = work_of(desired, [one.run for one in choice.packs[id]], steps[id])
            needs = needs_of(joined(known), work, pack.execution) if known else None
            limit = limit_of(asked_for(pack.resources, needs=needs))
        asks[id] = Ask(limit, memory)
    return asks


def last_backends(space: Workspace, packs: Collection[str]) -> dict[str, str]:
    """Pack -> the backend that one of ``packs`` was last handed over to. Reads every submission."""
    found: dict[str, str] = {}
    with contextlib.suppress(FileNotFoundError):
        for batch in sorted(os.listdir(space.submissions)):
            record = read_json(space.submission(batch) / BATCH_FILE) or {}
            for entry in record.get("entries", {}).values():
                split = split_name(entry["name"])
                if split is not None and split[0] in packs:
                    found[split[0]] = record.get("backend", "")
    return found
