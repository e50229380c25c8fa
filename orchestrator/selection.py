"""Choosing runs for `retry` and `cancel`: by id, sweep, state, failure class and labels. Reads, never writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobs.checkpoint import list_checkpoints
from jobs.facts import FailureClass
from jobs.state import RunState
from jobs.workspace import Workspace
from orchestrator.desired import Desired, read_desired
from orchestrator.errors import OrchestratorError
from orchestrator.history import AttemptView, read_view
from orchestrator.policy import Policy
from orchestrator.requests import Wishes
from orchestrator.run_view import find_run
from orchestrator.verdicts import RunVerdict, judge_pack


@dataclass(frozen=True)
class Selection:
    """What to choose by; empty fields choose everything."""

    runs: Sequence[str] = ()
    sweep: str | None = None
    failures: Sequence[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Chosen:
    """One chosen run as it stands.

    Attributes:
        attempts: number of its pack's newest attempt, 0 for none.
        checkpoint: step of the newest whole checkpoint of its pack, 0 for none.
        steps: its last step, 0 where the plan does not say.
        seconds_per_step: wall time of one step of its whole pack, where an attempt measured it.
    """

    run: str
    pack: str
    verdict: RunVerdict
    labels: Mapping[str, Any]
    attempts: int
    checkpoint: int
    steps: int
    seconds_per_step: float | None


def select(space: Workspace, wanted: Selection, states: Sequence[RunState]) -> list[Chosen]:
    """Runs that ``wanted`` names and that are in one of ``states``, in the plan's order.

    Raises:
        OrchestratorError: an id or a failure class that does not exist, or a label that no run has.
    """
    for failure in wanted.failures:
        if failure not in [str(known) for known in FailureClass]:
            known = ", ".join(FailureClass)
            raise OrchestratorError(f"there is no failure class {failure!r}; choose from: {known}")
    desired = read_desired(space)
    runs = _named(desired, wanted)
    wishes = Wishes(space)
    wishes.refresh()
    chosen: list[Chosen] = []
    packs = dict.fromkeys(desired.pack_of[run] for run in runs)
    policy = Policy()
    for pack in packs:
        members = desired.packs[pack].runs
        views = [v for place in space.attempts(pack) if (v := read_view(place, 0.0)) is not None]
        verdicts = judge_pack(members, views, wishes.of, policy).runs
        checkpoint: int | None = None
        for run in members:
            verdict = verdicts[run]
            if run not in runs or verdict.state not in states:
                continue
            if wanted.failures and str(verdict.failure) not in wanted.failures:
                continue
            if checkpoint is None:
                checkpoint = _newest_checkpoint(space, pack)
            cell = desired.runs[run].cell
            labels = {**cell.labels, **desired.runs[run].labels}
            number = views[-1].number if views else 0
            steps = int(cell.shape.get("steps", 0))
            chosen.append(Chosen(run, pack, verdict, labels, number, checkpoint, steps, _pace(views)))
    return chosen


def _named(desired: Desired, wanted: Selection) -> set[str]:
    runs = {find_run(desired, prefix) for prefix in wanted.runs} or set(desired.runs)
    if wanted.sweep is not None:
        runs &= desired.runs_of[wanted.sweep]
    for name, value in wanted.labels.items():
        labelled = {run: {**r.cell.labels, **r.labels} for run, r in desired.runs.items() if run in runs}
        if not any(name in labels for labels in labelled.values()):
            known = sorted({label for labels in labelled.values() for label in labels})
            raise OrchestratorError(f"no run has a label {name!r}; there are: {', '.join(known) or 'none'}")
        runs = {run for run, labels in labelled.items() if str(labels.get(name)) == value}
    return runs & desired.pack_of.keys()


def _newest_checkpoint(space: Workspace, pack: str) -> int:
    found = list_checkpoints(space.pack(pack))
    return max((checkpoint.step for checkpoint in found if checkpoint.complete), default=0)


def _pace(views: Sequence[AttemptView]) -> float | None:
    return next((v.pulse.median_step_s for v in reversed(views) if v.pulse.median_step_s is not None), None)
