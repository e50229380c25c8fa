"""What the attempts of a pack left behind, as the columns that its runs' rows need."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from jobs.facts import Checkpointed, Finished, Started, read_heartbeat
from jobs.state import AttemptRecord, RunState, RunStatus, read_attempt, run_states
from jobs.workspace import AttemptDir, Workspace

_PENDING = RunStatus(RunState.PENDING)


@dataclass(frozen=True)
class PackEvidence:
    """All launched attempts of a pack, oldest first, and the state of its runs.

    Attributes:
        pack: its id.
        places: the attempts' directories.
        records: what they hold.
        statuses: run -> its state; a run that is not in it is pending.
    """

    pack: str
    places: Sequence[AttemptDir] = ()
    records: Sequence[AttemptRecord] = ()
    statuses: Mapping[str, RunStatus] = field(default_factory=dict)

    def status(self, run: str) -> RunStatus:
        return self.statuses.get(run, _PENDING)

    @property
    def settled(self) -> bool:
        """Nothing that somebody still writes counts any more."""
        return all(record.closed is not None for record in self.records)

    def completed(self, runs: Collection[str]) -> bool:
        return all(self.status(run).state == RunState.COMPLETED for run in runs)

    @cached_property
    def addresses(self) -> dict[int, str]:
        """Attempt number -> its directory, relative to the workspace root."""
        return {p.number: f"packs/{self.pack[:3]}/{self.pack}/{p.path.name}" for p in self.places}


def read_pack(workspace: Workspace, pack: str, members: Collection[str]) -> PackEvidence:
    """Read a pack's attempts from disk."""
    places = [place for place in workspace.attempts(pack) if place.launch.exists()]
    records = [read_attempt(place) for place in places]
    return PackEvidence(pack, places, records, run_states(members, records))


def shared_columns(evidence: PackEvidence, members: int) -> dict[str, Any]:
    """Columns that all members of a pack have in common."""
    starts = [start for record in evidence.records if (start := _started(record)) is not None]
    resumed = [start for start in starts if start.exact is not None]
    lost = [lost_seconds(p, r) for p, r in zip(evidence.places, evidence.records, strict=True)]
    return {
        "attempts": len(evidence.records),
        "resumes": len(resumed),
        "inexact": [start.exact for start in resumed if start.exact != "exact"],
        "host": starts[-1].host if starts else None,
        "code": starts[-1].code if starts else None,
        "started": starts[0].time if starts else None,
        "lost_seconds": sum(lost) / members,
    }


def lost_seconds(place: AttemptDir, record: AttemptRecord) -> float:
    """Wall time from the last commit point to the last sign of life, by the worker's own clock; 0 while the attempt is
    open and where it completed."""
    start = _started(record)
    if record.closed is None or record.closed.outcome == "completed" or start is None:
        return 0.0
    kept = [fact.time for fact in record.facts if isinstance(fact, Checkpointed | Finished)]
    beat = read_heartbeat(place.heartbeat)
    seen = [fact.time for fact in record.facts] + ([beat.time] if beat else [])
    return max(0.0, max(seen) - max([start.time, *kept]))


def _started(record: AttemptRecord) -> Started | None:
    return next((fact for fact in record.facts if isinstance(fact, Started)), None)
