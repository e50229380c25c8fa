"""What the next attempt of a pack is expected to need: time, warning, memory. Pure; what is measured is handed in.

lead  = 3 x longest save + one step + a minute           Slurm warns up to a minute early or late
limit = start + steps left x pace, a third on top, + lead + a minute
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cluster.backend import Needs
from jobs.facts import FailureClass
from orchestrator.calibration import Measured
from orchestrator.history import AttemptView
from sweeps.cost import PACK_START_S

SAVES = 3.0
"""The warning leaves room for so many of the longest saves that were measured."""
SLACK_S = 60.0
"""A scheduler's signal comes up to so much early or late."""
MARGIN = 4 / 3
"""On the expected time: a busy file system, a slower machine."""
LEAST_MINUTES = 15
STEPS = (15, 20, 30, 45, 60, 90, 120, 180, 240, 360, 480, 720, 960, 1440)
"""Limits that are proposed (minutes; above, whole days): few, so that jobs of one kind still go out as one array."""
LEAD_STEP_S = 30
CHECKPOINT_S = 300.0
"""``Launch.checkpoint_seconds``, where the plan names none."""
MORE_MEMORY = 2.0
"""After a run out of memory, so many times what was asked for ..."""
ABOVE_PEAK = 1.5
"""... or what was used, whichever is more."""
MEMORY_STEP_MB = 256


@dataclass(frozen=True)
class Work:
    """What is left of a pack.

    Attributes:
        steps: of its longest open member, from where the next attempt would go on.
        models: that are trained side by side.
    """

    steps: int
    models: int


def lead_of(measured: Measured, models: int) -> int | None:
    """Seconds of warning that a save needs; None where no save was measured. Larger packs are taken to save longer in
    proportion, smaller ones no faster."""
    if measured.save_s is None:
        return None
    larger = max(1.0, models / measured.models)
    seconds = SAVES * measured.save_s * larger + measured.step_s * larger + SLACK_S
    return math.ceil(seconds / LEAD_STEP_S) * LEAD_STEP_S


def needs_of(measured: Measured | None, work: Work, execution: Mapping[str, Any]) -> Needs | None:
    """Time and warning that ``work`` needs; None where nothing was measured or nobody knows how much it is."""
    if measured is None or measured.rate_s is None or work.steps <= 0:
        return None
    pace = measured.rate_s * work.models
    start = measured.start_s + PACK_START_S
    lead = lead_of(measured, work.models)
    spare = (lead or 0) + SLACK_S
    interval = float(execution.get("checkpoint_seconds") or CHECKPOINT_S)
    if (every := execution.get("checkpoint_steps")) is not None:
        interval = min(interval, every * pace)
    return Needs(
        minutes=_step(MARGIN * (start + work.steps * pace) + spare),
        least_minutes=max(LEAST_MINUTES, math.ceil((MARGIN * (start + interval) + spare) / 60)),
        lead_s=lead,
    )


def _step(seconds: float) -> int:
    minutes = math.ceil(seconds / 60)
    return next((step for step in STEPS if step >= minutes), math.ceil(minutes / 1440) * 1440)


@dataclass(frozen=True)
class Memory:
    """What memory to ask for after a run out of it.

    Attributes:
        asked_mb: by the attempt that ran out, None where nobody asked.
        peak_mb: most that one of its processes used, None where nobody knows.
        wanted_mb: what the next attempt should ask for, None where nothing is known.
        allowed_mb: what it does ask for: ``wanted_mb`` as far as the plan's ``max_memory_mb`` goes, else ``asked_mb``.
    """

    asked_mb: int | None
    peak_mb: int | None
    wanted_mb: int | None
    allowed_mb: int | None

    @property
    def words(self) -> str:
        """For a person."""
        had = "nobody asked for any" if self.asked_mb is None else f"{self.asked_mb} MB were asked for"
        had += "" if self.peak_mb is None else f", one process used {self.peak_mb}"
        if self.allowed_mb != self.asked_mb:
            short = (
                ""
                if self.wanted_mb in (None, self.allowed_mb)
                else f" (resources.max_memory_mb; {self.wanted_mb} were better)"
            )
            return f"{had}; the next attempt asks for {self.allowed_mb}{short}"
        if self.wanted_mb is None:
            return f"{had}; name a number (resources.memory_mb)"
        return f"{had}; ask for {self.wanted_mb} (resources.memory_mb), or allow it (resources.max_memory_mb)"


def memory_of(resources: Mapping[str, Any], views: Sequence[AttemptView], site_mb: int | None = None) -> Memory | None:
    """What to ask for after attempts that ran out of the machine's memory; None where none has.

    Args:
        resources: of the plan. views: oldest first. site_mb: what is asked for where the plan names nothing.

    Each attempt that ran out doubles what the next should ask for, or makes it half more than a process has used, where
    that is more. ``resources.max_memory_mb`` allows it, up to there.
    """
    found = None
    asked, most = resources.get("memory_mb", site_mb), resources.get("max_memory_mb")
    for view in views:
        if view.closed is None or view.closed.failure is not FailureClass.OUT_OF_MEMORY:
            continue
        larger = [_round_mb(MORE_MEMORY * asked)] if asked is not None else []
        larger += [_round_mb(ABOVE_PEAK * view.peak_mb)] if view.peak_mb else []
        wanted = max(larger, default=None)
        allowed = asked if most is None else most if wanted is None else max(min(most, wanted), asked or 0)
        found = Memory(asked, view.peak_mb, wanted, allowed)
        asked = allowed
    return found


def _round_mb(value: float) -> int:
    return math.ceil(value / MEMORY_STEP_MB) * MEMORY_STEP_MB
