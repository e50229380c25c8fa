"""What is known of one job between two looks."""

from __future__ import annotations

from dataclasses import dataclass, field

from cluster.backend import JobReport, JobState


@dataclass
class Track:
    """One handle."""

    report: JobReport = field(default_factory=lambda: JobReport(JobState.UNKNOWN, reason="not looked up yet"))
    seen: float | None = None
    """When a source last spoke of it."""
    array: str = ""
    """Name of the array it belongs to, as the queue last showed it."""
    word: str = ""
    """The last word that a source had for it."""
    missing: float | None = None
    """Since when neither source knows it, without a break."""
    misses: int = 0
    ended: float | None = None
    final: bool = False
