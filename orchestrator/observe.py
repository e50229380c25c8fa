"""Bringing the board up to date: what nodes wrote, what a person asked for, what the scheduler says.

A pass reads only what can have changed: requests and submissions that were not there before, the files of attempts that
are not over (from the byte where it stopped), and one answer of the scheduler for all of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import chain

from cluster.backend import Backend, JobHandle, JobReport, JobState, TemporaryError
from cluster.batch_file import ANSWER_FILE, BATCH_FILE
from jobs.durable import decide_file, read_json
from jobs.workspace import Workspace
from orchestrator.board import Board
from orchestrator.history import AttemptView, split_name
from orchestrator.requests import Wishes
from orchestrator.strays import Strays


@dataclass
class Seen:
    """What a pass saw."""

    changed: int = 0
    """Attempts with news."""
    trouble: list[str] = field(default_factory=list)


@dataclass
class _Batch:
    """A submission that has no answer yet, or that was not read yet."""

    names: list[str] | None = None
    backend: str = ""


class Observer:
    """Observes for one loop. ``known``: submissions of which every attempt is over (from the index)."""

    def __init__(
        self,
        workspace: Workspace,
        backend: Backend,
        board: Board,
        wishes: Wishes,
        *,
        clock: Callable[[], float],
        known: Iterable[str] = (),
    ) -> None:
        self._workspace = workspace
        self._backend = backend
        self._board = board
        self._wishes = wishes
        self._clock = clock
        self._born = clock()
        self._known = set(known)
        self._foreign: set[str] = set()
        """Submissions that hold packs of sweeps that are not ours to watch."""
        self._open: dict[str, _Batch] = {}
        self._scanned = (-1, 0)
        """Modification time of ``submissions/`` and how often we have listed it since."""
        self.not_before = 0.0
        """The scheduler asked to be left alone until then."""
        self.strays = Strays(backend, board, clock)

    @property
    def known(self) -> frozenset[str]:
        """Submissions of ours that need no second look: read, and answered."""
        return frozenset(self._known)

    def look(self) -> Seen:
        """One pass."""
        seen = Seen()
        self._read_requests()
        self._read_submissions()
        self._read_attempts(seen)
        if self._clock() >= self.not_before:
            try:
                self._find_jobs()
                self._poll_jobs()
                self.strays.look()
            except TemporaryError as error:
                self.not_before = self._clock() + error.delay
                seen.trouble.append(f"the scheduler does not answer: {error}")
        return seen

    def _read_requests(self) -> None:
        packs = {self._board.desired.pack_of.get(run) for run in self._wishes.refresh()}
        for pack in packs - {None}:
            assert pack is not None
            if pack not in self._board.histories:
                self._board.take_up(pack, self._clock())
            self._board.touch(pack)

    # Submissions: how attempts that others launched become known, and by which job

    def _read_submissions(self) -> None:
        try:
            changed = os.stat(self._workspace.submissions).st_mtime_ns
        except FileNotFoundError:
            return
        # Listed twice per change: the time has a grain, and an entry may be added within it after the first listing.
        time, times = self._scanned
        if changed != time or times < 2:
            for entry in os.scandir(self._workspace.submissions):
                if entry.name[0] != "." and entry.name not in self._known and entry.name not in self._foreign:
                    self._open.setdefault(entry.name, _Batch())
            self._scanned = (changed, times + 1 if changed == time else 1)
        for batch in sorted(self._open, reverse=True):  # of two hand-overs of an attempt the later one counts
            self._read_batch(batch, self._open[batch])

    def _read_batch(self, batch: str, state: _Batch) -> None:
        folder = self._workspace.submission(batch)
        if state.names is None:
            record = read_json(folder / BATCH_FILE)
            if record is None:
                return  # its writer is between two steps, or dead: then its attempts are found by their directories
            entries = record["entries"]
            state.names = [entries[str(index)]["name"] for index in range(len(entries))]
            state.backend = record.get("backend", "")
            self._board.batches[batch] = len(state.names)
            for index, name in enumerate(state.names):
                view = self._view(name)
                if view is not None and not view.batch:
                    view.batch, view.entry, view.backend = batch, index, state.backend
        answer = read_json(folder / ANSWER_FILE)
        if answer is None:
            if not any((view := self._view(name)) is not None and view.live for name in state.names):
                self._forget(batch)
            return
        for index, name in enumerate(state.names):
            view = self._view(name)
            if view is None or not view.live:
                continue
            if "refused" in answer:
                view.refused = view.refused or answer["refused"]
            elif view.handle is None and (job := answer["handles"].get(str(index))) is not None:
                view.handle, view.backend = JobHandle(answer["backend"], job, name), answer["backend"]
            self._board.dirty.add(split_name(name)[0])  # type: ignore[index]
        self._forget(batch)

    def _forget(self, batch: str) -> None:
        names = self._open.pop(batch).names or ()
        packs = [split[0] if (split := split_name(name)) else "" for name in names]
        ours = all(pack in self._board.desired.packs for pack in packs)
        (self._known if ours else self._foreign).add(batch)

    def _view(self, name: str) -> AttemptView | None:
        """The attempt of a job name, read if need be; None where it is none of this board's."""
        split = split_name(name)
        if split is None or split[0] not in self._board.desired.packs:
            return None
        pack, number = split
        view = self._board.attempt(pack, number)
        if view is None and pack not in self._board.settled:
            self._board.take_up(pack, self._clock())
            view = self._board.attempt(pack, number)
        return view

    # Attempts

    def _read_attempts(self, seen: Seen) -> None:
        now = self._clock()
        for pack, view in list(self._board.live_attempts()):
            news = view.fold(self._workspace.attempt(pack, view.number), now)
            shape = self._board.desired.packs[pack].shape
            if not news and not (view.moved and shape not in self._board.proven):
                continue
            seen.changed += 1
            if view.live:
                self._board.touch(pack)
            else:
                # A requeued job's shim closes its attempt and launches the next one by itself.
                self._board.take_up(pack, now)
                self._board.touch(pack)
        for pack in list(self._board.returning):  # has its job come back, and launched the next attempt?
            self._board.take_up(pack, now)

    # The scheduler

    def _find_jobs(self) -> None:
        """Look up attempts without an answer by name, once when they are first seen and once a quiet period."""
        now, quiet = self._clock(), self._board.policy.quiet_s
        lost = {
            view.name: view
            for _, view in self._board.live_attempts()
            if view.handle is None
            and view.backend in ("", self._backend.name)
            and not view.begun
            and not view.refused
            and (view.absent is None or now - view.absent >= quiet)
        }
        if not lost:
            return
        found = self._backend.find(sorted(lost))
        for name, view in lost.items():
            view.absent = now if name not in found else None
            if name in found:
                view.handle = found[name]
                pack = split_name(name)
                assert pack is not None, "our own name"
                self._board.dirty.add(pack[0])
        self._answer_found()

    def _answer_found(self) -> None:
        """Adopted jobs whose submitter died before it wrote the answer: write it for the next loop."""
        for batch, state in list(self._open.items()):
            views = [self._view(name) for name in state.names or ()]
            if views and all(view is not None and view.handle is not None for view in views):
                handles = {str(i): view.handle.id for i, view in enumerate(views) if view and view.handle}
                decide_file(
                    self._workspace.submission(batch) / ANSWER_FILE,
                    {"backend": self._backend.name, "handles": handles},
                )

    def _poll_jobs(self) -> None:
        """One question for all. What another backend runs is left alone."""
        asked: dict[JobHandle, list[tuple[str, AttemptView]]] = {}
        for pack, view in chain(self._board.live_attempts(), self._board.returning_attempts()):
            handle = view.executor(self._backend.name)
            if handle is not None and view.backend in ("", self._backend.name):
                asked.setdefault(handle, []).append((pack, view))
        if not asked:
            return
        now = self._clock()
        for handle, heard in self._backend.poll(list(asked)).items():
            for pack, view in asked[handle]:
                view.report = report = self._heard(pack, view, heard, now)
                node = str(report.details.get("node", ""))
                if node and view.live and not set(node) & set("[,"):  # of several nodes nobody says which it was
                    view.placed = node
                over = report.state in (JobState.ENDED, JobState.GONE)
                if over != (view.gone is not None):
                    view.gone = now if over else None
                    self._board.dirty.add(pack)  # the next loop must know
        # The last words of a job that ended between our look at its files and the scheduler's answer.
        for pack, view in [pair for pairs in asked.values() for pair in pairs]:
            if view.gone != now:
                continue
            if not view.live:
                self._board.take_up(pack, now)
                self._board.touch(pack)  # it does not come back
            elif view.fold(self._workspace.attempt(pack, view.number), now):
                if not view.live:
                    self._board.take_up(pack, now)
                self._board.touch(pack)

    def _heard(self, pack: str, view: AttemptView, report: JobReport, now: float) -> JobReport:
        """The scheduler's word; a job that it has missed for long enough is gone, however many loops have asked it.

        A loop that is killed, or lives for one pass, does not hear often enough by itself what has to be heard for a
        while and more than once (``JobReport.missing_s``). A heartbeat that is silent as well speaks for the same: then
        the policy's patience with silence is enough."""
        missed = report.state is JobState.UNKNOWN and report.missing_s is not None
        known = report.state not in (JobState.UNKNOWN, JobState.GONE)
        if (missed and view.missing is None) or (known and view.missing is not None):
            view.missing = now if missed else None
            self._board.dirty.add(pack)
        if not missed or view.missing is None or report.missing_s is None:
            return report
        silence, patience = self._board.policy.lost_after_s, report.missing_s
        if now - view.pulse.changed >= silence:
            patience = min(patience, silence)
        twice = view.missing < self._born or report.details.get("misses", 0) > 1
        if not twice or now - view.missing < patience:
            return report
        return replace(report, state=JobState.GONE, word="absent")
