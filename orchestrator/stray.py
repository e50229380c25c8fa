"""A job in the queue that has nothing left to do."""

from __future__ import annotations

from dataclasses import dataclass

from cluster.backend import JobState


@dataclass(frozen=True, slots=True)
class Stray:
    """One job.

    Attributes:
        since: when it was first seen like that, on our own clock.
        leaving: its last attempt left, or was lost: if nobody stops it the scheduler may bring it back.
        asked: when it was last asked to leave.
    """

    state: JobState
    since: float
    leaving: bool = False
    asked: float | None = None
