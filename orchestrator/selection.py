"""Choosing runs for `retry` and `cancel`: by id, sweep, state, failure class and labels. Reads, never writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobs.state import RunState
from jobs.workspace import Workspace
from orchestrator.broken import check_classes
from orchestrator.desired import Desired, DesiredPack, read_desired
from orchestrator.errors import OrchestratorError
from orchestrator.history import AttemptView
from orchestrator.policy import Policy
from orchestrator.requests import Wishes
from orchestrator.run_view import find_runs
from orchestrator.survey import brought_up_to_date
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
        steps: its last step, 0 where the plan does not say.
        seconds_per_step: wall time of one step of its whole pack, where an attempt measured it.
        checkpoint_bytes: of one checkpoint of this run, as the plan estimates it.
    """

    run: str
    pack: DesiredPack
    verdict: RunVerdict
    labels: Mapping[str, Any]
    attempts: int
    steps: int
    seconds_per_step: float | None
    checkpoint_bytes: int = 0


@dataclass(frozen=True)
class Choice:
    """What was chosen, in the plan's order, and the wishes that stood then."""

    runs: Sequence[Chosen]
    wishes: Wishes
    policy: Policy
    desired: Desired

    @property
    def packs(self) -> dict[str, list[Chosen]]:
        """Chosen runs by pack."""
        found: dict[str, list[Chosen]] = {}
        for one in self.runs:
            found.setdefault(one.pack.id, []).append(one)
        return found


def select(space: Workspace, wanted: Selection, states: Sequence[RunState]) -> Choice:
    """Runs that ``wanted`` names and that are in one of ``states``, in the plan's order.

    Raises:
        OrchestratorError: an id or a failure class that does not exist, or a label that no run has.
    """
    check_classes(wanted.failures)
    desired = read_desired(space)
    runs = _named(desired, wanted)
    wishes = Wishes(space)
    wishes.refresh()
    chosen: list[Chosen] = []
    policy = Policy()
    for pack in desired.packs.values():
        if runs.isdisjoint(pack.runs):
            continue
        views = brought_up_to_date(space, pack.id, [], 0.0)
        verdicts = judge_pack(pack.runs, views, wishes.of, policy).runs
        for run in pack.runs:
            verdict = verdicts[run]
            if run not in runs or verdict.state not in states:
                continue
            if wanted.failures and str(verdict.failure) not in wanted.failures:
                continue
            cell = desired.runs[run].cell
            chosen.append(
                Chosen(
                    run,
                    pack,
                    verdict,
                    {**cell.labels, **desired.runs[run].labels},
                    views[-1].number if views else 0,
                    int(cell.shape.get("steps", 0)),
                    _pace(views),
                    int(cell.shape.get("checkpoint_bytes", 0)),
                )
            )
    return Choice(chosen, wishes, policy, desired)


def _named(desired: Desired, wanted: Selection) -> set[str]:
    runs = {run for prefix in wanted.runs for run in find_runs(desired, prefix)} or set(desired.runs)
    if wanted.sweep is not None:
        runs &= desired.runs_of[wanted.sweep]
    for name, value in wanted.labels.items():
        labelled = {run: {**r.cell.labels, **r.labels} for run, r in desired.runs.items() if run in runs}
        if not any(name in labels for labels in labelled.values()):
            known = sorted({label for labels in labelled.values() for label in labels})
            raise OrchestratorError(f"no run has a label {name!r}; there are: {', '.join(known) or 'none'}")
        runs = {run for run, labels in labelled.items() if str(labels.get(name)) == value}
    return runs & desired.pack_of.keys()


def _pace(views: Sequence[AttemptView]) -> float | None:
    return next((v.pulse.median_step_s for v in reversed(views) if v.pulse.median_step_s is not None), None)
