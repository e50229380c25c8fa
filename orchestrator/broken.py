"""Broken runs by kind, with the evidence that a person needs to mend them. Reads, never writes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jobs.facts import FailureClass
from jobs.state import RunState
from jobs.workspace import Workspace
from orchestrator.closing import read_tail
from orchestrator.errors import OrchestratorError
from orchestrator.needs import Memory
from orchestrator.sizing import memory_after
from orchestrator.survey import Survey, Surveyed
from orchestrator.telling import pattern_of, telling_lines


@dataclass(frozen=True)
class Broken:
    """One run that failed.

    Attributes:
        again: it will be tried again without anybody asking.
        attempts: how many it has had; ``attempt``: the one that its failure rests on.
        node: where that ran, "" where nobody knows.
        step, steps: how far it got there, of how many (0: nobody knows).
    """

    run: str
    pack: str
    labels: Mapping[str, Any]
    failure: FailureClass
    message: str
    again: bool
    attempts: int
    attempt: int
    node: str
    step: int
    steps: int
    log: Path
    memory: Memory | None = None
    """What to ask for, where it ran out of the machine's memory."""


@dataclass(frozen=True)
class Kind:
    """Runs that failed alike. ``evidence``: telling lines of the first one's log."""

    failure: FailureClass
    message: str
    runs: Sequence[Broken] = field(default_factory=list)
    evidence: Sequence[str] = ()

    @property
    def nodes(self) -> dict[str, int]:
        """Node -> runs that failed there, the most first."""
        nodes = [run.node or "unknown" for run in self.runs]
        return dict(sorted({node: nodes.count(node) for node in nodes}.items(), key=lambda item: -item[1]))


def check_classes(names: Collection[str]) -> None:
    """Raises OrchestratorError where a name is none of the failure classes; the message lists them."""
    for name in names:
        if name not in [str(known) for known in FailureClass]:
            raise OrchestratorError(f"there is no failure class {name!r}; choose from: {', '.join(FailureClass)}")


def broken_runs(space: Workspace, seen: Survey, classes: Collection[str] = ()) -> list[Broken]:
    """Every run of a survey that failed, in the plan's order; only of ``classes`` where given. One that failed while
    its pack trains on is among them.

    Raises:
        OrchestratorError: there is no such class.
    """
    check_classes(classes)
    found = []
    for surveyed in seen.packs:
        for run in surveyed.pack.runs:
            verdict = surveyed.verdict.runs[run]
            if verdict.failure is None or verdict.state in (RunState.COMPLETED, RunState.CANCELLED):
                continue
            if run in seen.desired.sweeps_of and (not classes or str(verdict.failure) in classes):
                found.append(_broken(space, seen, surveyed, run))
    return found


def _broken(space: Workspace, seen: Survey, surveyed: Surveyed, run: str) -> Broken:
    verdict, desired = surveyed.verdict.runs[run], seen.desired.runs[run]
    assert verdict.failure is not None, "asked for broken runs only"
    view = next(view for view in surveyed.views if view.number == verdict.attempt)
    return Broken(
        run,
        surveyed.pack.id,
        {**desired.cell.labels, **desired.labels},
        verdict.failure,
        verdict.message,
        verdict.state is RunState.PENDING,
        sum(run in view.carried for view in surveyed.views),
        verdict.attempt,
        view.node,
        verdict.end.step if verdict.end is not None else view.step,
        int(desired.cell.shape.get("steps", 0)),
        space.attempt(surveyed.pack.id, verdict.attempt).log,
        memory_after(space, surveyed.pack, surveyed.views) if verdict.failure is FailureClass.OUT_OF_MEMORY else None,
    )


def kinds(runs: Sequence[Broken]) -> list[Kind]:
    """By class and message (numbers apart), the most frequent first. Reads one log a kind."""
    groups: dict[tuple[FailureClass, str], list[Broken]] = {}
    for run in runs:
        groups.setdefault((run.failure, pattern_of(run.message)), []).append(run)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    return [Kind(failure, members[0].message, members, evidence_of(members[0])) for (failure, _), members in ordered]


def evidence_of(run: Broken) -> list[str]:
    """Telling lines of the log of a run's last failure, without what its message says already."""
    said = " ".join(run.message.split())
    return [line for line in telling_lines(read_tail(run.log)) if " ".join(line.split()) not in said]
