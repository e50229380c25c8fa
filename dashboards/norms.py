"""Gradient norms as the alarm reads them: one a step, whatever was logged or published."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dashboards.evidence import Trace
from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.gradient_alarm import Alarm, scan


@dataclass(frozen=True)
class Watched:
    """A trace with what the alarm says of it.

    Attributes:
        trace: as it was logged.
        steps, norms: one a step, interpolated between logged points on a logarithmic scale; constant before the first.
        alarm: None with a reason.
        reason: why there is no alarm.
    """

    trace: Trace
    steps: np.ndarray
    norms: np.ndarray
    alarm: Alarm | None
    reason: str | None = None


def watched(trace: Trace, warm_up: int) -> Watched:
    """Scan one trace."""
    known = [(s, n) for s, n in zip(trace.steps, trace.norms, strict=True) if math.isfinite(n) and n > 0]
    ends = [s for s, n in zip(trace.steps, trace.norms, strict=True) if not math.isfinite(n)]
    if len(known) < 2:
        return Watched(trace, np.array([]), np.array([]), None, "fewer than two finite norms")
    last = ends[0] if ends else known[-1][0]
    steps = np.arange(0, last + 1)
    at, logs = np.array([s for s, _ in known], float), np.log([n for _, n in known])
    norms = np.exp(np.interp(steps, at, logs))
    if ends:
        beyond = steps > at[-1]
        slope = (logs[-1] - logs[-2]) / (at[-1] - at[-2])
        norms[beyond] = np.exp(logs[-1] + slope * (steps[beyond] - at[-1]))
        norms[-1] = math.nan
    try:
        alarm = scan(norms, warm_up=warm_up)
    except AnalysisError as error:
        return Watched(trace, steps, norms, None, str(error))
    return Watched(trace, steps, norms, alarm, None if alarm.reference is not None else "ended before it settled")
