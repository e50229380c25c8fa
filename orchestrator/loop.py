"""The loop: observe, decide, act, until what is observed is what is desired.

    loop = Loop(workspace, make_backend("local"), sweeps=["compat"])
    report = loop.tick()                      # one pass
    report = loop.watch(on_tick=show)         # until nothing is left to do without a person

Any number of loops may work on one workspace at once, on any hosts, and each may be killed at any moment: all that
decides lies in the files. Nothing is locked.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cluster.backend import Backend, TemporaryError
from jobs.state import RunState
from jobs.workspace import Workspace
from orchestrator.act import Acted, Actor
from orchestrator.board import Board
from orchestrator.bookkeeping import Ledger, open_index
from orchestrator.clock import host_clock
from orchestrator.decide import decide
from orchestrator.desired import Desired, read_desired, sweep_names
from orchestrator.observe import Observer
from orchestrator.pauses import starving
from orchestrator.policy import Policy, default_policy
from orchestrator.requests import Wishes
from orchestrator.room import NO_SPACE, Room, is_full
from orchestrator.snapshot import take_snapshot
from orchestrator.waiting import Outlook, queued, throttle, waiting
from orchestrator.workspace_id import workspace_id

PATIENCE = 5
"""So many passes in a row may fail for the file system's sake before ``watch`` gives up."""


@dataclass(frozen=True)
class TickReport:
    """What a pass saw and did.

    Attributes:
        counts: sweep -> state -> runs.
        waiting: sweep -> why runs wait -> runs.
        in_flight: packs handed over and not over.
        acted: what was done.
        trouble: what the scheduler would not do or say.
        changed: something happened.
        done: nothing runs, nothing can be launched unless a person asks for it, and the queue holds nothing of it.
    """

    counts: Mapping[str, Mapping[RunState, int]]
    waiting: Mapping[str, Mapping[str, int]]
    in_flight: int
    acted: Acted
    trouble: Sequence[str] = ()
    changed: bool = False
    done: bool = False

    def total(self, state: RunState) -> int:
        """Runs in a state, over all sweeps (a run of two sweeps counts twice)."""
        return sum(counts.get(state, 0) for counts in self.counts.values())


@dataclass
class _Plans:
    """The plans as they were read, and how to see that they changed."""

    desired: Desired = field(default_factory=Desired)
    stamps: dict[str, tuple[int, int]] = field(default_factory=dict)


class Loop:
    """See the module.

    Args:
        workspace: where all files lie.
        backend: what runs the jobs.
        policy: default: the backend's (``orchestrator.policy``).
        sweeps: names; None: every sweep of the workspace, also those planned later.
        code: tree hash of the snapshot to run; None: take one now; "": run the installed packages.
        index: keep the host-local index (False in tests and where no local disk is to be had).
        clock: seconds; must mean the same in every process of this host.
        pause: sleeps, where the backend cannot wait by itself.
        wall: seconds since the epoch, for the expiry of exclusions.
        settings: goes into every launch; switches for tests.

    Raises:
        OrchestratorError: a named sweep has no plan, or the index would lie on a network file system.
    """

    def __init__(
        self,
        workspace: Workspace,
        backend: Backend,
        policy: Policy | None = None,
        sweeps: Sequence[str] | None = None,
        *,
        code: str | None = None,
        index: bool = True,
        clock: Callable[[], float] | None = None,
        pause: Callable[[float], None] = time.sleep,
        wall: Callable[[], float] = time.time,
        settings: dict[str, Any] | None = None,
    ) -> None:
        self.workspace = workspace
        self.policy = policy or default_policy(backend.name)
        self._backend = backend
        self._sweeps = list(sweeps) if sweeps is not None else None
        self._clock = clock or host_clock()
        self._pause = pause
        self._wall = wall
        self._index = open_index(workspace) if index else None
        self._wishes = Wishes(workspace)
        self._room = Room(workspace.root, self.policy.room_every_s)
        self._plans = _Plans()
        self._outlook = Outlook()
        self._actor = Actor(
            workspace,
            backend,
            code=take_snapshot(workspace) if code is None else code,
            clock=self._clock,
            settings=settings,
        )
        self._report = TickReport({}, {}, 0, Acted())
        self._read_plans()

    def close(self) -> None:
        """Let go of the index. Jobs go on."""
        if self._index is not None:
            self._index.close()

    @property
    def notices(self) -> Sequence[str]:
        """What the backend has to say once, the oldest first."""
        return tuple(getattr(self._backend, "notices", ()))

    # Plans

    def _stamps(self) -> dict[str, tuple[int, int]]:
        stamps = {}
        for name in self._sweeps if self._sweeps is not None else sweep_names(self.workspace):
            try:
                stat = self.workspace.plan(name).stat()
            except FileNotFoundError:
                continue
            stamps[name] = (stat.st_mtime_ns, stat.st_ino)
        return stamps

    def _read_plans(self) -> None:
        """Begin with an empty board; what was known comes back from the index, or from the files."""
        stamps = self._stamps()
        if self._index is not None and self._index.identity != workspace_id(self.workspace):
            self._index.close()  # the folder was deleted and made again under our feet
            self._index = open_index(self.workspace)
        self._plans = _Plans(read_desired(self.workspace, self._sweeps), stamps)
        self._wishes = Wishes(self.workspace)
        self.board = Board(self.workspace, self._plans.desired, self.policy, self._wishes.of)
        self.board.room = self._room
        self._ledger = Ledger(self._index)
        known = self._ledger.restore(self.board, self._wishes, self.policy)
        self._observer = Observer(
            self.workspace, self._backend, self.board, self._wishes, clock=self._clock, known=known
        )
        self._changed = True

    # One pass

    def tick(self) -> TickReport:
        """One pass: observe, decide, act, and keep the index in step."""
        steps = self.steps()
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return end.value

    def steps(self) -> Generator[str, None, TickReport]:
        """One pass, yielding the name of each step before it is taken. Its return value is the report."""
        if self._stamps() != self._plans.stamps:
            self._read_plans()
        yield "observe"
        seen = self._observer.look()
        in_flight = len(self.board.live)
        try:
            free = self._backend.free_slots(in_flight, self.policy.max_in_flight)
        except TemporaryError as error:
            free = 0
            seen.trouble.append(f"the scheduler does not say what is free: {error}")
        self._keep_away()
        self._room.look(starving(self.board), self._clock())
        actions = decide(self.board, free, self._clock())
        acted = Acted()
        yield from self._actor.steps(actions, self.board, acted)
        changed = self._changed or bool(seen.changed or self.board.dirty)
        self._changed = False
        now = self._clock()
        unwritten = ""
        strays = self._observer.strays
        done = not strays.awaited(self.policy.linger_s) and self.board.idle
        if done:
            seen.trouble.extend(strays.trouble)
        outlook = self._outlook_at(now, free - acted.launched, (*seen.trouble, *acted.trouble))
        if changed or outlook != self._outlook:
            known = self._observer.known
            unwritten = self._ledger.write(self.board, self._wishes, known, now, self.policy, outlook)
        self._outlook = outlook
        return TickReport(
            counts={sweep: dict(counts) for sweep, counts in self.board.counts.items()},
            waiting=outlook.waiting,
            in_flight=len(self.board.live),
            acted=acted,
            trouble=[*outlook.trouble, *([unwritten] if unwritten else [])],
            changed=changed,
            done=done,
        )

    def _outlook_at(self, now: float, free: int, trouble: tuple[str, ...]) -> Outlook:
        paused = now < max(self._actor.not_before, self._observer.not_before)
        limit = self.policy.max_in_flight
        slot = throttle(free, len(self.board.live), limit, backend=self._backend.name, paused=paused)
        return Outlook(waiting(self.board, now, slot), queued(self.board), trouble)

    def _keep_away(self) -> None:
        """Tell the backend which machines to avoid, where it can be told. (Optional: ``exclude(nodes)``, and
        ``machines()`` for the names of all that it may use.)"""
        exclude = getattr(self._backend, "exclude", None)
        if exclude is None or not self.board.nodes.troubled:
            return
        machines = getattr(self._backend, "machines", None)
        if machines is not None and not self.board.nodes.machines:
            self.board.nodes.machines = frozenset()
            with contextlib.suppress(TemporaryError):
                self.board.nodes.machines = frozenset(machines())
        exclude(self.board.nodes.excluded(self._wall(), self._wishes.forgiven))

    # Many passes

    def watch(
        self,
        on_tick: Callable[[TickReport], None] | None = None,
        *,
        until_done: bool = True,
        stop: Callable[[], bool] = lambda: False,
    ) -> TickReport:
        """Pass after pass, until all is done (or, without ``until_done``, until ``stop`` says so).

        A file system that fails now and then (a stale handle) is asked again, a few times in a row at most: then its
        OSError is raised; a full disk is waited for as long as it is. Pauses are short while things happen and grow
        while nothing does; where the backend can tell that a job has ended, the next pass follows at once. ``on_tick``
        sees each report; it may raise to leave (jobs go on).
        """
        shortest, longest = self.policy.poll_s
        pause = shortest
        failures = 0
        while True:
            try:
                report = self._report = self.tick()
                failures = 0
            except OSError as error:
                if is_full(error):
                    self._wait_for_room(error, on_tick)
                    if stop():
                        raise
                    continue
                failures += 1
                if failures > PATIENCE:
                    raise
                self._pause(min(longest, shortest * 2**failures))
                self._plans.stamps = {}  # begin again from the files
                continue
            if on_tick is not None:
                on_tick(report)
            if stop() or (until_done and report.done):
                return report
            pause = shortest if report.changed or self.board.idle else min(longest, pause * 1.5)
            due = self.board.next_delay(self._clock())
            self._wait(pause if due is None else max(shortest, min(pause, due)))

    def _wait_for_room(self, error: OSError, on_tick: Callable[[TickReport], None] | None) -> None:
        """We could not write ourselves. Nothing is lost: the next pass begins again from the files."""
        self._room.full_at = self._clock()
        where = error.filename or self.workspace.root
        said = [f"{NO_SPACE}{where}; waiting for room"]
        self._report = replace(self._report, trouble=said, changed=False, done=False)
        if on_tick is not None:
            on_tick(self._report)
        self._plans.stamps = {}
        self._pause(self.policy.room_every_s)

    def _wait(self, seconds: float) -> None:
        wait = getattr(self._backend, "wait", None)
        if wait is not None and self.board.live:
            wait(seconds)
        else:
            self._pause(seconds)
