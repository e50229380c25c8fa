"""The gradient-norm alarm: warn of a divergence before it comes, scored on finished traces.

Our definition. g: global L2 norm before clipping, one value a step. s: median of the last 100 steps.
R: median of s over the steps [warm-up + 500, warm-up + 1500].

WARN: s >= 4 R for 200 consecutive steps; or the least-squares slope of ln s over 1000 steps doubles it in
under 2000 steps, with a Mann-Kendall p below 1e-3 on the non-overlapping medians of that window (neighbouring
medians share 99 of their 100 values and are no independent evidence of a trend).
HALT: s >= 10 R for 100 steps, any non-finite loss or norm, or a loss 0.5 above its running minimum for 200.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.ranks import kendall


@dataclass(frozen=True)
class Thresholds:
    """Knobs of the alarm, steps unless said otherwise; tune them on completed runs only."""

    smooth: int = 100
    settle: tuple[int, int] = (500, 1500)
    warn_ratio: float = 4.0
    warn_steps: int = 200
    trend_window: int = 1000
    doubling: float = 2000.0
    trend_p: float = 1e-3
    halt_ratio: float = 10.0
    halt_steps: int = 100
    loss_rise: float = 0.5
    loss_steps: int = 200


@dataclass(frozen=True)
class Alarm:
    """What a trace would have raised.

    Attributes:
        reference: R, or None where the run ended before it settled.
        warn_level: first step at which the level rule holds.
        warn_trend: first step at which the trend rule holds.
        halt: first step at which a HALT rule holds, with its name.
        nonfinite: first step with a non-finite loss or norm.
    """

    reference: float | None
    warn_level: int | None
    warn_trend: int | None
    halt: tuple[int, str] | None
    nonfinite: int | None

    @property
    def warn(self) -> int | None:
        """First warning of either rule."""
        return min((s for s in (self.warn_level, self.warn_trend) if s is not None), default=None)

    @property
    def lead(self) -> int | None:
        """Steps between the first warning and the first non-finite value; None without both."""
        return None if self.warn is None or self.nonfinite is None else self.nonfinite - self.warn

    @property
    def words(self) -> str:
        """``diverged (step 5800, alarm lead 1005 steps)`` or what happened instead."""
        if self.nonfinite is None:
            return "completed" if self.warn is None else f"completed (warned at step {self.warn})"
        if self.lead is None:
            return f"diverged (step {self.nonfinite}, no alarm)"
        return f"diverged (step {self.nonfinite}, alarm lead {self.lead} steps)"


def scan(
    norms: ArrayLike, *, warm_up: int, losses: ArrayLike | None = None, thresholds: Thresholds | None = None
) -> Alarm:
    """Read a whole trace.

    Args:
        norms: gradient norm of every step, from step 0.
        warm_up: learning-rate warm-up steps.
        losses: training loss of every step.
        thresholds: the knobs.

    Raises:
        AnalysisError: an empty trace, a negative norm, or traces of different length.
    """
    t = thresholds or Thresholds()
    g = np.asarray(norms, dtype=float)
    loss = None if losses is None else np.asarray(losses, dtype=float)
    if g.ndim != 1 or not len(g):
        raise AnalysisError("the trace of gradient norms is empty; log one norm a step")
    if loss is not None and len(loss) != len(g):
        raise AnalysisError(f"{len(loss)} losses do not match {len(g)} gradient norms")
    if (g < 0).any():
        raise AnalysisError(f"gradient norm {g.min()} at step {int(g.argmin())} is negative")
    bad = ~np.isfinite(g) if loss is None else ~(np.isfinite(g) & np.isfinite(loss))
    nonfinite = _first(bad)
    end = len(g) if nonfinite is None else nonfinite
    smooth = _smoothed(g[:end], t.smooth)
    settled = smooth[warm_up + t.settle[0] : warm_up + t.settle[1] + 1]
    settled = settled[np.isfinite(settled)]
    reference = float(np.median(settled)) if len(settled) > t.settle[1] - t.settle[0] else None
    halts = [(nonfinite, "non-finite")] if nonfinite is not None else []
    warn_level = warn_trend = None
    if reference is not None:
        start = warm_up + t.settle[1]
        after = np.arange(end) > start
        warn_level = _held(after & (smooth >= t.warn_ratio * reference), t.warn_steps)
        warn_trend = _trend(smooth, start + t.trend_window, t)
        high = _held(after & (smooth >= t.halt_ratio * reference), t.halt_steps)
        halts += [(high, "gradient norm")] if high is not None else []
    if loss is not None:
        risen = loss[:end] > np.minimum.accumulate(loss[:end]) + t.loss_rise
        step = _held(risen & (np.arange(end) >= warm_up), t.loss_steps)
        halts += [(step, "loss")] if step is not None else []
    return Alarm(reference, warn_level, warn_trend, min(halts, default=None), nonfinite)


@dataclass(frozen=True)
class AlarmScore:
    """How the alarm did over many runs.

    Attributes:
        diverged, warned: diverged runs, and how many of them were warned of.
        leads: steps of warning before each warned divergence, ascending.
        completed, false_alarms: completed runs, and how many raised a warning.
    """

    diverged: int
    warned: int
    leads: tuple[int, ...]
    completed: int
    false_alarms: int


def score(alarms: Sequence[Alarm]) -> AlarmScore:
    """Lead times of the diverged runs and false alarms of the completed ones."""
    lost = [a for a in alarms if a.nonfinite is not None]
    leads = sorted(a.lead for a in lost if a.lead is not None)
    done = [a for a in alarms if a.nonfinite is None]
    return AlarmScore(len(lost), len(leads), tuple(leads), len(done), sum(a.warn is not None for a in done))


def _smoothed(g: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """Median of the last ``window`` values; infinite nowhere, NaN until the window is full."""
    smooth = np.full(len(g), np.nan)
    if len(g) >= window:
        smooth[window - 1 :] = np.median(np.lib.stride_tricks.sliding_window_view(g, window), axis=1)
    return smooth


def _trend(smooth: NDArray[np.float64], start: int, t: Thresholds) -> int | None:
    """First step whose window grows fast enough and monotonically enough."""
    window, logs = t.trend_window, np.log(np.maximum(smooth, np.finfo(float).tiny))
    if len(logs) <= start:
        return None
    x = np.arange(window) - (window - 1) / 2
    views = np.lib.stride_tricks.sliding_window_view(logs[start - window + 1 :], window)
    slopes = views @ x / (x @ x)
    for offset in np.flatnonzero(slopes > math.log(2) / t.doubling):
        apart = views[offset][:: -t.smooth]
        if kendall(np.arange(len(apart)), -apart)[1] < t.trend_p:
            return start + int(offset)
    return None


def _held(condition: NDArray[np.bool_], steps: int) -> int | None:
    """First step that ends ``steps`` consecutive trues."""
    run = 0
    for step, true in enumerate(condition):
        run = run + 1 if true else 0
        if run >= steps:
            return step
    return None


def _first(condition: NDArray[np.bool_]) -> int | None:
    found = np.flatnonzero(condition)
    return int(found[0]) if len(found) else None
