"""What runs have cost: seconds of a device by what became of them. Pure.

A pack that asks for GPUs costs its GPUs for as long as it holds them; any other costs one slot. What an attempt takes
is shared by the members that train in it, second by second, so that the shares of a pack add up to what it took.

    useful        kept: it is in a result, or in a checkpoint that a run still goes on from
    startup       from its claim to the first step, of attempts that came so far
    unsaved       of attempts that live: since the last checkpoint
    <class>       lost to a failure of this class: what an attempt did after its last checkpoint, all of an attempt that
                  never began, and what was kept for a run that failed or was cancelled for good or began afresh
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from jobs.facts import FailureClass
from jobs.state import RunState
from orchestrator.history import AttemptView
from orchestrator.verdicts import RunVerdict

USEFUL, STARTUP, UNSAVED = "useful", "startup", "unsaved"
NO_LOSS = (USEFUL, STARTUP, UNSAVED)


LEAST_S = 0.0005
"""Less is what rounding leaves."""


def unit_of(resources: Iterable[Mapping[str, Any]]) -> str:
    """What a device is called where packs with these resources are added up."""
    return "GPU" if any(of.get("gpus") for of in resources) else "slot"


def devices_of(resources: Mapping[str, Any]) -> int:
    """Devices that a pack with these resources holds: its GPUs, else one slot."""
    return max(1, resources.get("gpus", 0)) * resources.get("nodes", 1)


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds of one run in one attempt, on one device.

    Attributes:
        kept, lost: of training, before and after the last commit point.
        startup: of the process, before training.
    """

    run: str
    kept: float
    lost: float
    startup: float


def shares_of(view: AttemptView) -> list[Spent]:
    """What an attempt took, shared by the members it carried. A second belongs to those that train in it equally; the
    time after the last of them has finished, and the startup, to all."""
    kept, lost = view.seconds
    if view.started is None:
        startup = view.lasted or 0.0
    else:
        startup = 0.0 if view.claimed is None else max(0.0, view.started - view.claimed)
    shares = {run: [0.0, 0.0] for run in view.carried}
    if view.started is not None and kept + lost > 0:
        begin, until = view.started, view.started + kept
        end = until + lost
        leaves = {run: min(max(fact.time, begin), end) for run, fact in view.finished.items() if run in shares}
        marks = sorted({begin, until, end, *leaves.values()})
        for left, right in pairwise(marks):
            training = [run for run in shares if leaves.get(run, end) > left] or list(shares)
            for run in training:
                shares[run][left >= until] += (right - left) / len(training)
    return [Spent(run, kept, lost, startup / len(shares)) for run, (kept, lost) in shares.items()]


def bills(
    views: Sequence[AttemptView], verdicts: Mapping[str, RunVerdict]
) -> Iterator[tuple[AttemptView, str, str, float]]:
    """(Attempt, run, what became of it, seconds on one device) of one pack; ``views`` oldest first."""
    for view in views:
        afresh = any(later.number > view.number and later.started and not later.first_step for later in views)
        failure = _failure(view)
        for spent in shares_of(view):
            kept = _fate(view, verdicts.get(spent.run), failure, afresh and spent.run not in view.finished)
            lost = UNSAVED if view.live else failure
            startup = STARTUP if view.started is not None or view.live else failure
            for name, seconds in ((kept, spent.kept), (lost, spent.lost), (startup, spent.startup)):
                if seconds > 0:
                    yield view, spent.run, name, seconds


def cost_of(views: Sequence[AttemptView], verdicts: Mapping[str, RunVerdict], devices: int = 1) -> dict[str, float]:
    """Device seconds of one pack by what became of them."""
    cost: dict[str, float] = defaultdict(float)
    for _, _, name, seconds in bills(views, verdicts):
        cost[name] += seconds * devices
    return {name: round(seconds, 3) for name, seconds in cost.items()}


def _failure(view: AttemptView) -> str:
    """What an attempt's losses are put down to."""
    if view.closed is None or view.closed.outcome == "completed":
        return USEFUL
    defaults = {"preempted": FailureClass.PREEMPTED, "cancelled": FailureClass.CANCELLED, "lost": FailureClass.LOST}
    return str(view.closed.failure or defaults.get(view.closed.outcome, FailureClass.UNKNOWN))


def _fate(view: AttemptView, verdict: RunVerdict | None, failure: str, afresh: bool) -> str:
    """What became of work that an attempt kept for a run."""
    if verdict is not None and verdict.state is RunState.CANCELLED:
        return str(FailureClass.CANCELLED)
    if verdict is not None and verdict.state is RunState.FAILED:
        return str(verdict.failure or FailureClass.UNKNOWN)
    return failure if afresh and not view.live else USEFUL
