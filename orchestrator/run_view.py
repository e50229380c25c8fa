"""All that is known of one run, from its files. Reads, never writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jobs.checkpoint import Checkpoint, list_checkpoints
from jobs.spec import RunSpec
from jobs.workspace import Workspace
from orchestrator.desired import Desired, read_desired
from orchestrator.errors import OrchestratorError
from orchestrator.history import AttemptView, read_view
from orchestrator.policy import Policy
from orchestrator.requests import Wishes
from orchestrator.verdicts import RunVerdict, failure_of, judge_pack


@dataclass(frozen=True)
class AttemptShown:
    """One attempt of a run. Times are the worker's own clock.

    Attributes:
        outcome: of ``closed.json``, "running" or "queued" while it is not over.
        failure, message: how it failed *this run*; None and the closing message where it did not.
        first_step, step: where it began and the last step known.
        exact: None for a fresh start, "exact", or "not exact: why".
    """

    number: int
    outcome: str
    failure: str | None
    message: str
    started: float | None
    last: float | None
    host: str
    first_step: int
    step: int
    steps: int
    checkpoint: int | None
    exact: str | None
    log: Path
    exit: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class RunView:
    """One run.

    Attributes:
        verdict: its state, and why.
        checkpoints: with their verdicts, newest first; shared by the members of the pack.
        inputs: name -> (run, product, state of that run).
        products: name -> path.
    """

    run: str
    spec: RunSpec
    labels: Mapping[str, Any]
    sweeps: Sequence[str]
    pack: str
    members: Sequence[str]
    verdict: RunVerdict
    attempts: Sequence[AttemptShown] = ()
    checkpoints: Sequence[Checkpoint] = ()
    inputs: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)
    products: Mapping[str, Path] = field(default_factory=dict)


def find_runs(desired: Desired, prefix: str) -> tuple[str, ...]:
    """The run whose id begins so, or the members of the pack whose id does (`status` names packs).

    Raises:
        OrchestratorError: none does, or several do (some of them are named).
    """
    kind, known = ("packs", desired.packs) if prefix.startswith("p") else ("runs", desired.runs)
    found = [prefix] if prefix in known else sorted(id for id in known if id.startswith(prefix))
    if prefix in desired.packs_of:
        raise OrchestratorError(
            f"{prefix!r} is a sweep, no run and no pack: `orchestrate status {prefix}` shows it, retry and cancel take "
            f"it as --sweep {prefix}"
        )
    if not prefix or not found:
        raise OrchestratorError(
            f"no run or pack of any sweep here begins with {prefix!r}; `orchestrate status` names the packs that run, "
            f"`orchestrate errors` the runs that failed"
        )
    if len(found) > 1:
        some = f"{', '.join(found[:5])}{' ...' * (len(found) > 5)}"
        raise OrchestratorError(f"{prefix!r} begins {len(found)} {kind}: {some}")
    return desired.packs[found[0]].runs if kind == "packs" else (found[0],)


def run_view(workspace: Workspace, prefix: str, policy: Policy | None = None) -> RunView:
    """All that is known of the run whose id begins with ``prefix``; of a pack's id, of its first member.

    Raises:
        OrchestratorError: see ``find_runs``.
    """
    desired = read_desired(workspace)
    run = find_runs(desired, prefix)[0]
    wishes = Wishes(workspace)
    wishes.refresh()
    policy = policy or Policy()
    pack = desired.packs[desired.pack_of[run]]
    views = _views(workspace, pack.id)
    verdict = judge_pack(pack.runs, views, wishes.of, policy).runs[run]
    wanted = desired.runs[run]
    inputs = {}
    for name, ref in wanted.inputs.items():
        producer = desired.packs.get(desired.pack_of.get(ref.run, ""))
        state = "planned nowhere"
        if producer is not None:
            judged = judge_pack(producer.runs, _views(workspace, producer.id), wishes.of, policy)
            state = str(judged.runs[ref.run].state)
        inputs[name] = (ref.run, ref.product, state)
    products = {}
    if verdict.end is not None:
        place = workspace.attempt(pack.id, verdict.attempt)
        products = {name: place.path / path for name, (path, _) in verdict.end.products.items()}
    return RunView(
        run,
        RunSpec(wanted.cell.runner, wanted.cell.config, wanted.seed, wanted.inputs),
        {**wanted.cell.labels, **wanted.labels},
        desired.sweeps_of.get(run, ()),
        pack.id,
        pack.runs,
        verdict,
        [_shown(workspace, pack.id, run, view) for view in views if run in view.carried],
        list_checkpoints(workspace.pack(pack.id)),
        inputs,
        products,
    )


def _views(workspace: Workspace, pack: str) -> list[AttemptView]:
    return [view for place in workspace.attempts(pack) if (view := read_view(place, 0.0)) is not None]


def _shown(workspace: Workspace, pack: str, run: str, view: AttemptView) -> AttemptShown:
    failed = failure_of(view, run) if view.closed is not None else None
    outcome = view.closed.outcome if view.closed is not None else "running" if view.begun else "queued"
    message = failed[1] if failed else view.closed.message if view.closed else ""
    return AttemptShown(
        view.number,
        outcome,
        str(failed[0]) if failed else None,
        message,
        view.started,
        view.last,
        view.host,
        view.first_step,
        max(view.step, view.finished[run].step if run in view.finished else 0),
        view.pulse.steps,
        view.checkpoint,
        view.exact,
        workspace.attempt(pack, view.number).log,
        view.ended,
    )
