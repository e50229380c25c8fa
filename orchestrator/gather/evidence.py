"""What the attempts of a pack left behind, reduced to one row of facts a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobs.facts import Checkpointed, Closed, Fact, Finished, Started, read_closed, read_facts, read_heartbeat
from jobs.workspace import AttemptDir, Workspace


@dataclass(frozen=True)
class Attempt:
    """One attempt's files, read once."""

    place: AttemptDir
    claimed: bool
    closed: Closed | None
    facts: Sequence[Fact]

    @property
    def number(self) -> int:
        return self.place.number

    @property
    def started(self) -> Started | None:
        return next((fact for fact in self.facts if isinstance(fact, Started)), None)

    def lost_seconds(self) -> float:
        """Wall time between the last commit point and the last sign of life, by the worker's own clock; 0 while the
        attempt is open and where it completed."""
        if self.closed is None or self.closed.outcome == "completed" or self.started is None:
            return 0.0
        kept = [f.time for f in self.facts if isinstance(f, Checkpointed | Finished)]
        beat = read_heartbeat(self.place.heartbeat)
        seen = [f.time for f in self.facts] + ([beat.time] if beat else [])
        return max(0.0, max(seen) - max([self.started.time, *kept]))


@dataclass(frozen=True)
class PackEvidence:
    """All attempts of a pack, oldest first."""

    pack: str
    attempts: Sequence[Attempt] = ()
    finished: Mapping[str, tuple[Attempt, Finished]] = field(default_factory=dict)
    """Run -> its last finished fact and the attempt that wrote it."""

    @property
    def settled(self) -> bool:
        """Nobody writes to any attempt any more."""
        return all(attempt.closed is not None for attempt in self.attempts)

    def completed(self, run: str) -> bool:
        return run in self.finished and self.finished[run][1].status == "completed"


def read_pack(workspace: Workspace, pack: str) -> PackEvidence:
    """Read a pack's attempts from disk."""
    attempts = []
    finished: dict[str, tuple[Attempt, Finished]] = {}
    for place in workspace.attempts(pack):
        facts, _ = read_facts(place.facts)
        attempt = Attempt(place, place.claimed.exists(), read_closed(place.closed), facts)
        attempts.append(attempt)
        for fact in facts:
            if isinstance(fact, Finished) and not (fact.run in finished and _stands(finished[fact.run][1])):
                finished[fact.run] = (attempt, fact)
    return PackEvidence(pack, attempts, finished)


def _stands(fact: Finished) -> bool:
    """A completed run stays completed, whatever a later attempt says about it."""
    return fact.status == "completed"


def attempt_columns(evidence: PackEvidence, members: int) -> dict[str, Any]:
    """Columns that all members of a pack share."""
    starts = [a.started for a in evidence.attempts if a.started is not None]
    resumed = [start for start in starts if start.exact is not None]
    verdicts = [start.exact for start in resumed if start.exact != "exact"]
    return {
        "attempts": len(evidence.attempts),
        "resumes": len(resumed),
        "inexact": verdicts,
        "host": starts[-1].host if starts else None,
        "code": starts[-1].code if starts else None,
        "started": starts[0].time if starts else None,
        "lost_seconds": sum(a.lost_seconds() for a in evidence.attempts) / members,
    }
