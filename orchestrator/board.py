"""The loop's picture: what is desired and what is known of it, kept up to date piece by piece.

``decide`` reads it and never changes it. Every update costs in proportion to what changed, never to how much is queued
or has ended: packs wait in sorted lists by shape, and a run that ends wakes only the packs that consume its products.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

from cluster.backend import JobHandle
from jobs.state import RunState
from jobs.workspace import Workspace
from orchestrator.desired import Desired, DesiredPack
from orchestrator.fitting import judge_fit
from orchestrator.history import AttemptView, read_view
from orchestrator.nodes import Nodes
from orchestrator.policy import Policy
from orchestrator.readiness import NOTHING, Readiness, readiness_of
from orchestrator.requests import Wish
from orchestrator.room import Room
from orchestrator.stray import Stray
from orchestrator.verdicts import ENDED, PackVerdict, RunVerdict, judge_pack


class Board:
    """See the module. Packs that have no attempt and no wish hold nothing but their place in a list."""

    def __init__(self, workspace: Workspace, desired: Desired, policy: Policy, wishes: Mapping[str, Wish]) -> None:
        self.workspace = workspace
        self.policy = policy
        self.desired = desired
        self.wishes = wishes
        self.histories: dict[str, list[AttemptView]] = {}
        self.verdicts: dict[str, PackVerdict] = {}
        """Of packs with an attempt or a wish."""
        self.settled: set[str] = set()
        """Packs of which only the verdicts are known here, because nothing about them will change unasked."""
        self.states: dict[str, RunState] = {}
        """Of all runs that are not simply pending."""
        self.counts: dict[str, Counter[RunState]] = {}
        """Sweep -> state -> runs."""
        self.ended: dict[str, RunVerdict] = {}
        self.failed: dict[str, RunVerdict] = {}
        self.blocked: dict[str, Mapping[str, str]] = {}
        """Pack -> member -> why its inputs will not come."""
        self.queued: Counter[tuple[str, str]] = Counter()
        """(shape, sweep) -> runs in packs that could be launched."""
        self.live: dict[str, None] = {}
        """Packs with an attempt that is not over, oldest first."""
        self.returning: dict[str, None] = {}
        """Packs whose next attempt is the business of a job that the scheduler may queue again."""
        self.strays: dict[JobHandle, Stray] = {}
        """Jobs in the queue with nothing left to do (``orchestrator.strays``)."""
        self.ready: dict[str, list[int]] = defaultdict(list)
        """Shape -> places (in ``order``) of packs that could be launched, sorted."""
        self.proven: set[str] = set()
        """Shapes of which a pack has made a step."""
        self.stillborn: dict[str, set[str]] = defaultdict(set)
        """Shape -> packs that failed for good before their first step."""
        self.delayed: set[str] = set()
        """Packs whose next try has its time."""
        self.starved: dict[str, None] = {}
        """Packs that met a full disk and wait for room."""
        self.room = Room(workspace.root, policy.room_every_s)
        self.nodes = Nodes(policy)
        """What attempts say of the machines they ran on."""
        self.dirty: set[str] = set()
        """Packs that changed since the index was written."""
        self.batches: dict[str, int] = {}
        """Submission -> how many attempts it holds."""
        self.order: list[str] = []
        self._place: dict[str, int] = {}
        self._sizes: dict[str, int] = {}
        self._consumers: dict[str, list[str]] = defaultdict(list)
        self._live_shapes: dict[str, int] = defaultdict(int)

    def load(self, settled: Mapping[str, Mapping[str, RunVerdict]], histories: Mapping[str, list[AttemptView]]) -> None:
        """Fill an empty board: what the index knows to be settled (pack -> run -> verdict), and open histories."""
        self.order = list(self.desired.packs)
        self._place = {pack: place for place, pack in enumerate(self.order)}
        for pack in self.desired.packs.values():
            for run in pack.needs:
                self._consumers[run].append(pack.id)
        self.counts = {sweep: Counter({RunState.PENDING: len(runs)}) for sweep, runs in self.desired.runs_of.items()}
        self.histories.update({pack: list(views) for pack, views in histories.items() if pack in self._place})
        for pack, verdicts in settled.items():
            if pack in self._place and pack not in self.histories:
                self.settled.add(pack)
                shape = self.desired.packs[pack].shape
                if any(verdict.end is not None for verdict in verdicts.values()):
                    self.proven.add(shape)
                elif any(verdict.state is RunState.FAILED for verdict in verdicts.values()):
                    self.stillborn[shape].add(pack)
                self._note(verdicts, wake=False)
        for pack in self.order:
            if pack not in self.settled:
                self._sort_in(pack, wake=False)
        # Consumers may stand before their producers in the plan.
        for run in self.ended:
            for pack in self._consumers.get(run, ()):
                if pack not in self.settled:
                    self._sort_in(pack, wake=False)
        self.dirty.clear()

    # What changed

    def attempt(self, pack: str, number: int) -> AttemptView | None:
        """A known attempt."""
        return next((view for view in self.histories.get(pack, ()) if view.number == number), None)

    def take_up(self, pack: str, now: float) -> None:
        """Read attempts of a pack that are on disk and not known here: another loop, or a shim, launched them."""
        known = {view.number for view in self.histories.get(pack, ())}
        new = [
            view
            for place in self.workspace.attempts(pack)
            if place.number not in known and (view := read_view(place, now)) is not None
        ]
        if new:
            self.settled.discard(pack)
            self.histories[pack] = sorted([*self.histories.get(pack, ()), *new], key=lambda view: view.number)
            self.touch(pack)

    def add(self, pack: str, view: AttemptView) -> None:
        """An attempt that we launched."""
        self.histories.setdefault(pack, []).append(view)
        self.touch(pack)

    def touch(self, pack: str) -> None:
        """Something about a pack's attempts or wishes changed: think again about it and what depends on it."""
        self.dirty.add(pack)
        self._sort_in(pack, wake=True)

    def _sort_in(self, pack: str, *, wake: bool) -> None:
        desired = self.desired.packs[pack]
        views = self.histories.get(pack, [])
        if views or pack in self.verdicts or any(run in self.wishes for run in desired.runs):
            old = self.verdicts.get(pack)
            verdict = self.verdicts[pack] = judge_pack(desired.runs, views, self.wishes, self.policy)
            self._count_live(desired, old is not None and old.live is not None, verdict.live is not None)
            self._judge_shape(desired, views, verdict)
            for view in views:
                self.nodes.see(pack, desired.shape, view)
            self._note(verdict.runs, wake=wake)
            if verdict.starved:
                self.starved[pack] = None
            else:
                self.starved.pop(pack, None)
            if verdict.open_runs and verdict.not_before > 0:
                self.delayed.add(pack)
            else:
                self.delayed.discard(pack)
            if verdict.open_runs and views and views[-1].may_return(self.policy.requeues):
                self.returning[pack] = None
            else:
                self.returning.pop(pack, None)
        place = self._place[pack]
        queue = self.ready[desired.shape]
        at = bisect_left(queue, place)
        inside = at < len(queue) and queue[at] == place
        readiness = self.readiness(pack) if pack not in self.live else NOTHING
        if inside and not readiness.ready:
            del queue[at]
        elif readiness.ready and not inside:
            insort(queue, place)
        size = len(readiness.runnable) if readiness.ready else 0
        self.queued[desired.shape, desired.sweep] += size - self._sizes.pop(pack, 0)
        if size:
            self._sizes[pack] = size
        if readiness.blocked:
            self.blocked[pack] = readiness.blocked
        else:
            self.blocked.pop(pack, None)

    def _count_live(self, pack: DesiredPack, before: bool, after: bool) -> None:
        if after and not before:
            self.live[pack.id] = None
        elif before and not after:
            del self.live[pack.id]
        self._live_shapes[pack.shape] += int(after) - int(before)

    def _judge_shape(self, pack: DesiredPack, views: Iterable[AttemptView], verdict: PackVerdict) -> None:
        if pack.shape not in self.proven and any(view.moved for view in views):
            self.proven.add(pack.shape)
        if verdict.settled and not any(view.moved for view in views) and self.histories.get(pack.id):
            self.stillborn[pack.shape].add(pack.id)
        else:
            self.stillborn[pack.shape].discard(pack.id)

    def _note(self, verdicts: Mapping[str, RunVerdict], *, wake: bool) -> None:
        """Keep counts and ended runs in step; wake the consumers of what changed."""
        changed = []
        for run, judged in verdicts.items():
            before = self.states.get(run, RunState.PENDING)
            if judged.state is not before:
                self.states[run] = judged.state
                for sweep in self.desired.sweeps_of.get(run, ()):
                    self.counts[sweep][before] -= 1
                    self.counts[sweep][judged.state] += 1
            _keep(self.ended, run, judged, judged.ended)
            _keep(self.failed, run, judged, judged.state is RunState.FAILED)
            if before is not judged.state and (judged.ended or before in ENDED):
                changed.append(run)
        if wake:
            for consumer in {pack for run in changed for pack in self._consumers.get(run, ())}:
                self._sort_in(consumer, wake=True)

    # What there is to see

    def open_runs(self, pack: str) -> tuple[str, ...]:
        """Members that another attempt should train."""
        verdict = self.verdicts.get(pack)
        if verdict is not None:
            return verdict.open_runs
        return tuple(run for run in self.desired.packs[pack].runs if run not in self.ended)

    def readiness(self, pack: str) -> Readiness:
        """What the inputs of a pack's open members allow."""
        found = readiness_of(self.open_runs(pack), self.desired, self.ended)
        if found.ready and (why := self._misfit(pack)):
            return Readiness((), {**found.blocked, **dict.fromkeys(found.runnable, why)}, ())
        return found

    def _misfit(self, pack: str) -> str:
        """Why the plan's number of processes cannot go on with what is saved, "" where it can."""
        verdict = self.verdicts.get(pack)
        if verdict is None or not any(view.checkpoint is not None for view in self.histories.get(pack, ())):
            return ""
        told, why = judge_fit(self.workspace, pack, self.desired.packs[pack].resources, verdict.fresh_after)
        return why if told == "refused" else ""

    def probing(self, shape: str) -> bool:
        """A first pack of this shape is on its way; the others wait for its first steps."""
        return self.policy.probe and shape not in self.proven and self._live_shapes[shape] > 0

    def held(self, shape: str) -> bool:
        """So many packs of this shape failed before their first step that the rest is not worth launching."""
        return (
            self.policy.probe and shape not in self.proven and len(self.stillborn[shape]) >= self.policy.probe_failures
        )

    def live_attempts(self) -> Iterator[tuple[str, AttemptView]]:
        """Every attempt that is not over, with its pack."""
        for pack in self.live:
            for view in self.histories[pack]:
                if view.live:
                    yield pack, view

    def returning_attempts(self) -> Iterator[tuple[str, AttemptView]]:
        """The last attempt of every pack that may go on by itself."""
        for pack in self.returning:
            yield pack, self.histories[pack][-1]

    @property
    def idle(self) -> bool:
        """Nothing runs and nothing could be launched, now or after a pause: all that is left needs a person."""
        if self.live or self.returning:
            return False
        return not any(
            queue and (not self.held(shape) or any(self.asked_for(self.order[place]) for place in queue))
            for shape, queue in self.ready.items()
        )

    def asked_for(self, pack: str) -> bool:
        """A person has said something about one of its runs; that goes before caution."""
        return bool(self.wishes) and any(run in self.wishes for run in self.desired.packs[pack].runs)

    def place(self, pack: str) -> int:
        """In the order in which packs are launched."""
        return self._place[pack]

    def queued_runs(self, pack: str) -> int:
        """Runs of a pack that could be launched; 0 where it cannot."""
        return self._sizes.get(pack, 0)

    def returned(self) -> Iterator[tuple[DesiredPack, int]]:
        """Packs that wait for what becomes of their last job, and how many runs they hold."""
        for pack in self.returning:
            if pack in self._sizes:
                yield self.desired.packs[pack], self._sizes[pack]

    def next_delay(self, now: float) -> float | None:
        """Seconds until the next retry may begin; None where none waits for its time."""
        times = [self.verdicts[pack].not_before - now for pack in self.delayed]
        return min((time for time in times if time > 0), default=None)


def _keep(among: dict[str, RunVerdict], run: str, verdict: RunVerdict, wanted: bool) -> None:
    if wanted:
        among[run] = verdict
    else:
        among.pop(run, None)
