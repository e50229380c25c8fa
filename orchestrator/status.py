"""How a sweep stands. Reads, never writes; asks no scheduler.

    summary(workspace, "compat") -> SweepStatus
    run_view(workspace, "r3f") -> RunView         (orchestrator.run_view)

Where this host has an index, what has ended is read from it and only the tails of open packs are added, so that the
cost does not depend on how many runs have ended. Where there is none (another host's loop runs the sweep), every
launched pack is read: slower, and the same answer.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from cluster.batch_file import BATCH_FILE
from jobs.durable import read_json
from jobs.state import RunState
from jobs.workspace import Workspace
from orchestrator.board import Board
from orchestrator.bookkeeping import broken
from orchestrator.clock import host_clock
from orchestrator.cost import LEAST_S, cost_of, devices_of, unit_of
from orchestrator.desired import plan_digest, read_desired
from orchestrator.errors import OrchestratorError
from orchestrator.history import AttemptView, split_name
from orchestrator.index import Index, verdicts_from, views_from
from orchestrator.pauses import starving
from orchestrator.policy import Policy
from orchestrator.requests import Wishes
from orchestrator.room import Room, shortage
from orchestrator.run_view import RunView, run_view
from orchestrator.survey import brought_up_to_date
from orchestrator.verdicts import PackVerdict, judge_pack
from orchestrator.waiting import waiting
from orchestrator.workspace_id import workspace_id

__all__ = ["LivePack", "RunView", "SweepStatus", "run_view", "summary"]


@dataclass(frozen=True)
class LivePack:
    """A pack with an attempt that is not over.

    Attributes:
        state: QUEUED until a worker has claimed it.
        step, steps: of the pack's program; 0 of 0 until it has begun.
        eta_s: seconds left at the median speed, None while that is unknown.
        silent_s: seconds since the heartbeat last changed, as the loop saw it or its file says; None before the first.
        over: how its command ended, where its shim says so and nobody has judged the attempt yet; "" while it runs.
    """

    pack: str
    attempt: int
    state: RunState
    runs: int
    host: str = ""
    step: int = 0
    steps: int = 0
    eta_s: float | None = None
    silent_s: float | None = None
    over: str = ""


@dataclass(frozen=True)
class SweepStatus:
    """One sweep.

    Attributes:
        counts: state -> runs; every state is a key, the sum is ``total``.
        live: packs that are running or queued.
        waiting: why pending runs wait -> runs.
        broken: failed runs by class: ``{"failure", "message", "runs", "example"}``.
        cost: seconds of a device (``unit``: GPU or slot) by what became of them (``orchestrator.cost``).
        queued: why the scheduler lets jobs wait -> packs, as a loop of this host last saw it.
        trouble: what the scheduler would not do or say then.
        seen: when a loop last wrote the index, on this host's clock; None where there is no index.
    """

    sweep: str
    counts: Mapping[RunState, int]
    live: Sequence[LivePack] = ()
    waiting: Mapping[str, int] = field(default_factory=dict)
    broken: Sequence[Mapping[str, Any]] = ()
    cost: Mapping[str, float] = field(default_factory=dict)
    unit: str = "slot"
    queued: Mapping[str, int] = field(default_factory=dict)
    trouble: Sequence[str] = ()
    seen: float | None = None

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def ended(self) -> int:
        return sum(self.counts[state] for state in (RunState.COMPLETED, RunState.FAILED, RunState.CANCELLED))


def summary(workspace: Workspace, sweep: str, policy: Policy | None = None) -> SweepStatus:
    """How a sweep stands now.

    Raises:
        OrchestratorError: there is no plan of this name.
    """
    digest = plan_digest(workspace, sweep)
    if digest is None:
        raise OrchestratorError(f"there is no sweep {sweep!r} in {workspace.root}; `orchestrate sweep FILE` plans one")
    policy = policy or Policy()
    try:
        index = Index(workspace.index, write=False, identity=workspace_id(workspace))
    except (FileNotFoundError, OrchestratorError):
        return _from_files(workspace, sweep, policy)
    with closing(index):
        body = index.sweep(sweep)
        if body is None or body["digest"] != digest:
            return _from_files(workspace, sweep, policy)
        return _from_index(workspace, sweep, policy, index, body)


def _from_files(workspace: Workspace, sweep: str, policy: Policy) -> SweepStatus:
    wishes = Wishes(workspace)
    wishes.refresh()
    board = Board(workspace, read_desired(workspace, [sweep]), policy, wishes.of)
    board.load({}, {})
    board.room = Room(workspace.root, 0.0, lambda folder, needed, _: shortage(folder, needed, trial=False))
    now = host_clock()()
    for pack in board.order:
        board.take_up(pack, now)
    board.room.look(starving(board), now)
    cost: Counter[str] = Counter()
    for pack, views in board.histories.items():
        devices = devices_of(board.desired.packs[pack].resources)
        cost.update(cost_of(views, board.verdicts[pack].runs, devices))  # type: ignore[arg-type]
    return SweepStatus(
        sweep,
        {state: board.counts[sweep][state] for state in RunState},
        [_live(workspace, pack, view, now) for pack, view in board.live_attempts()],
        waiting(board)[sweep],
        broken(board.failed),
        dict(cost),
        unit_of(pack.resources for pack in board.desired.packs.values()),
    )


def _from_index(workspace: Workspace, sweep: str, policy: Policy, index: Index, body: Mapping[str, Any]) -> SweepStatus:
    now = host_clock()()
    wishes = Wishes(workspace)
    wishes.refresh()
    counts = Counter({RunState(state): n for state, n in body["counts"].items()})
    cost = Counter(body["cost"])
    packs = dict(index.open_packs())
    for pack in _launched_since(workspace, set(index.batches()), packs):
        known = index.pack(pack)
        if known is None:  # no loop of this host has seen it: ask the plan whose it is
            return _from_files(workspace, sweep, policy)
        packs[pack] = known
    live: list[LivePack] = []
    for pack, stored in packs.items():
        if sweep not in stored["sweeps"]:
            continue
        before = verdicts_from(stored["verdicts"])
        views = brought_up_to_date(workspace, pack, views_from(stored["attempts"]), now)
        after = judge_pack(list(before), views, wishes.of, policy)
        counts.subtract(Counter(v.state for v in before.values()))
        counts.update(Counter(v.state for v in after.runs.values()))
        cost.subtract(stored.get("cost", {}))
        cost.update(cost_of(views, after.runs, stored["devices"]))  # type: ignore[arg-type]
        live += _live_of(workspace, pack, views, after, now)
    return SweepStatus(
        sweep,
        {state: counts[state] for state in RunState},
        live,
        body["waiting"],
        body["broken"],
        {name: seconds for name, seconds in cost.items() if seconds > LEAST_S},
        body["unit"],
        body["queued"],
        body["trouble"],
        body["time"],
    )


def _launched_since(workspace: Workspace, known: set[str], packs: Mapping[str, Any]) -> set[str]:
    """Packs of submissions that the index has not read."""
    try:
        batches = [entry for entry in workspace.submissions.iterdir() if entry.name not in known]
    except FileNotFoundError:
        return set()
    found: set[str] = set()
    for folder in batches:
        entries = (read_json(folder / BATCH_FILE) or {}).get("entries", {})
        found |= {split[0] for entry in entries.values() if (split := split_name(entry["name"])) is not None}
    return found - set(packs)


def _live_of(
    workspace: Workspace, pack: str, views: Iterable[AttemptView], verdict: PackVerdict, now: float
) -> list[LivePack]:
    return [] if verdict.live is None else [_live(workspace, pack, view, now) for view in views if view.live]


def _silence(workspace: Workspace, pack: str, view: AttemptView, now: float) -> float | None:
    """A beat that no loop has watched is as old as its file, whatever is seen of it here for the first time."""
    if view.pulse.beat < 0:
        return None
    try:
        age = time.time() - workspace.attempt(pack, view.number).heartbeat.stat().st_mtime
    except OSError:
        age = 0.0
    return max(0.0, now - view.pulse.changed, age)


def _over(view: AttemptView) -> str:
    if view.ended is None:
        return ""
    number, code = view.ended.get("signal"), view.ended.get("code")
    return f"signal {number}" if number is not None else f"exit code {code}"


def _live(workspace: Workspace, pack: str, view: AttemptView, now: float) -> LivePack:
    pulse = view.pulse
    left = None
    if pulse.median_step_s is not None and pulse.steps:
        left = max(0, pulse.steps - pulse.step) * pulse.median_step_s
    return LivePack(
        pack,
        view.number,
        RunState.RUNNING if view.begun else RunState.QUEUED,
        len(view.carried),
        view.host,
        view.step,
        pulse.steps,
        left,
        _silence(workspace, pack, view, now),
        _over(view),
    )
