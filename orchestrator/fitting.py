"""Can what is saved of a pack be gone on with by as many processes as the plan asks for? Read from manifests alone,
before anything is queued: nothing of the state is touched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from cluster.backend import Resources
from jobs.checkpoint import newest_meta
from jobs.layout import Judged, judge_count
from jobs.workspace import Workspace
from orchestrator.workspace_id import packs_on_disk
from sweeps.design import Design


def processes_of(resources: Mapping[str, Any]) -> int:
    """Processes that a pack with these resources is started with."""
    own = {name: resources[name] for name in ("gpus", "nodes", "processes") if name in resources}
    return Resources(**own).ranks


def judge_fit(space: Workspace, pack: str, resources: Mapping[str, Any], fresh_after: int = 0) -> tuple[Judged, str]:
    """(Verdict, why) for a pack's newest checkpoint, exact where it has none. ``fresh_after``: see ``launch.json``."""
    meta = newest_meta(space.attempt(pack, 1).checkpoints, fresh_after)
    return ("exact", "") if meta is None else judge_count(meta, processes_of(resources))


def fit_notices(space: Workspace, design: Design) -> list[str]:
    """What a plan should say of packs that have begun with another number of processes. Costs what has begun, not what
    is planned."""
    begun = packs_on_disk(space)
    found: Counter[str] = Counter()
    for pack in design.packs:
        if pack.id in begun:
            verdict, why = judge_fit(space, pack.id, pack.resources)
            if verdict != "exact":
                found[f"{verdict}: {why}"] += 1
    return [f"{count} pack{'s' * (count > 1)} would go on {why}" for why, count in sorted(found.items())]
