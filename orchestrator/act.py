"""Carrying actions out: intent before effect, so that a crash between any two steps loses nothing and doubles nothing.

    launch.json linked -> batch.json written -> submit -> answer.json linked

Each step is yielded before it is taken (``Actor.steps``): tests stop, interleave and kill there.

- Killed before the link: nothing happened. Killed after it: the next loop to look finds an attempt without an answer,
  asks the scheduler for its name, takes over what is there, and hands it over again where there is nothing.
- Two loops: the link decides who launches. Where an attempt is handed over twice all the same (a loop was slow, not
  dead), ``claimed.json`` decides which job executes it; the other leaves at once.
- The scheduler cannot answer now: the intent stands, it is handed over again later, no attempt is lost or counted.
"""

from __future__ import annotations

import getpass
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from cluster.backend import Backend, PermanentError, Resources, TemporaryError
from cluster.batch_file import ANSWER_FILE, BATCH_FILE, batch_payload
from jobs.durable import decide_file, replace_file
from jobs.workspace import Workspace
from orchestrator.board import Board
from orchestrator.closing import close_by_evidence
from orchestrator.decide import Action, Cancel, Close, Launch, Release, Submit
from orchestrator.history import AttemptView
from orchestrator.launching import job_request, launch_file
from orchestrator.sizing import Sizing


@dataclass
class Acted:
    """What a pass did."""

    launched: int = 0
    submitted: int = 0
    closed: int = 0
    cancelled: int = 0
    released: int = 0
    """Jobs taken out of the queue that had nothing left to do."""
    yielded: int = 0
    """Launches that another loop was faster with."""
    trouble: list[str] = field(default_factory=list)


class Actor:
    """Acts for one loop.

    Args:
        code: tree hash of the code snapshot that nodes run, "" for the installed packages.
        clock: seconds, as the board's.
        settings: goes into every launch (``Launch.settings``): switches for tests.
    """

    def __init__(
        self,
        workspace: Workspace,
        backend: Backend,
        *,
        code: str = "",
        clock: Callable[[], float] = time.monotonic,
        settings: dict[str, Any] | None = None,
    ) -> None:
        self._workspace = workspace
        self._backend = backend
        self._code = code
        self._clock = clock
        self._settings = settings or {}
        profile = getattr(backend, "profile", None)
        self._sizing = Sizing(
            workspace, timed=hasattr(backend, "limit_of"), site_mb=None if profile is None else profile.memory_mb
        )
        self.not_before = 0.0
        """The scheduler asked to be left alone until then."""

    def steps(self, actions: Sequence[Action], board: Board, acted: Acted) -> Iterator[str]:
        """Carry out, yielding the name of each step before it is taken."""
        for action in actions:
            if isinstance(action, Close):
                yield "close"
                self._close(action, board, acted)
        for action in actions:
            if isinstance(action, Cancel):
                yield "cancel"
                place = self._workspace.attempt(action.pack, action.attempt)
                decide_file(place.stop, {"time": time.time(), "by": "loop", "reason": action.reason})
                self._cancel(action.pack, action.attempt, board, acted)
            elif isinstance(action, Release):
                yield "release"
                self._release(action, board, acted)
        if self._clock() < self.not_before:
            return
        for number, views in self._again([a for a in actions if isinstance(a, Submit)], board):
            yield from self._hand_over(number, views, board, acted)
        launches = [action for action in actions if isinstance(action, Launch)]
        size = board.policy.batch_size
        for begin in range(0, len(launches), size):
            won: list[tuple[str, AttemptView]] = []
            for action in launches[begin : begin + size]:
                yield "link"
                view = self._link(action, board, acted)
                if view is not None:
                    won.append((action.pack, view))
            for views in self._alike(won, board):
                yield from self._hand_over(_new_batch(), views, board, acted)
                if self._clock() < self.not_before:
                    return

    # Launching

    def _link(self, action: Launch, board: Board, acted: Acted) -> AttemptView | None:
        """Link ``launch.json``; None where another loop was faster."""
        pack = board.desired.packs[action.pack]
        place = self._workspace.attempt(pack.id, action.attempt)
        launch = launch_file(action, board, self._code, self._settings)
        place.path.mkdir(parents=True, exist_ok=True)
        if not decide_file(place.launch, launch.model_dump(mode="json", exclude_defaults=True)):
            acted.yielded += 1
            board.take_up(pack.id, self._clock())
            return None
        acted.launched += 1
        carried = tuple(member.run for member in launch.members if not member.done)
        view = AttemptView(action.attempt, launch.name, carried, hang_floor_s=launch.hang_floor_s, seen=self._clock())
        board.add(pack.id, view)
        return view

    # Handing over

    def _again(self, actions: Sequence[Submit], board: Board) -> Iterator[tuple[str, list[tuple[str, AttemptView]]]]:
        """Attempts to hand over again: under their old batch where it is needed whole, else under a new one (an entry's
        place in its batch file is its array index)."""
        batches: dict[str, list[tuple[str, AttemptView]]] = {}
        for action in actions:
            view = board.attempt(action.pack, action.attempt)
            assert view is not None, "decide speaks of known attempts"
            whole = view.batch if view.batch in board.batches else ""
            batches.setdefault(whole, []).append((action.pack, view))
        for batch in [batch for batch, views in batches.items() if batch and len(views) != board.batches[batch]]:
            batches.setdefault("", []).extend(batches.pop(batch))
        for views in self._alike(batches.pop("", []), board):
            yield _new_batch(), views
        for batch, views in batches.items():
            yield batch, sorted(views, key=lambda pair: pair[1].entry)

    def _avoid(self, pack: str, board: Board) -> tuple[str, ...]:
        """Machines that the next attempt of a pack keeps away from, where the backend can be told."""
        return board.nodes.avoid(board.histories.get(pack, ())) if hasattr(self._backend, "exclude") else ()

    def _wanted(self, pack: str, view: AttemptView, board: Board) -> Resources:
        return self._sizing.resources(board.desired.packs[pack], view, board, self._avoid(pack, board))

    def _alike(self, views: Sequence[tuple[str, AttemptView]], board: Board) -> Iterator[list[tuple[str, AttemptView]]]:
        """One hand-over asks for one kind of machine."""
        groups: dict[Resources, list[tuple[str, AttemptView]]] = {}
        for pack, view in views:
            groups.setdefault(self._wanted(pack, view, board), []).append((pack, view))
        yield from groups.values()

    def _hand_over(
        self, batch: str, views: Sequence[tuple[str, AttemptView]], board: Board, acted: Acted
    ) -> Iterator[str]:
        """Intent, effect, answer."""
        folder = self._workspace.submission(batch)
        requests = [job_request(pack, view, board, self._wanted(pack, view, board)) for pack, view in views]
        places = [self._workspace.attempt(pack, view.number) for pack, view in views]
        if not (folder / BATCH_FILE).exists():
            yield "batch"
            payload = batch_payload(batch, requests, [str(place.claimed) for place in places])
            folder.mkdir(parents=True, exist_ok=True)
            said = {"backend": self._backend.name, "by": getpass.getuser()}
            replace_file(folder / BATCH_FILE, orjson.dumps({**payload, **said}))
            board.batches[batch] = len(views)
            for index, (_, view) in enumerate(views):
                view.batch, view.entry, view.backend = batch, index, self._backend.name
        yield "submit"
        answer: dict[str, Any] = {"backend": self._backend.name}
        try:
            handles = self._backend.submit(str(folder), requests)
        except TemporaryError as error:
            self.not_before = self._clock() + error.delay
            acted.trouble.append(f"submission delayed: {error}")
            for _, view in views:
                view.seen, view.absent = self._clock(), None  # the quiet period begins again
            return
        except PermanentError as error:
            acted.trouble.append(f"submission refused: {error}")
            answer["refused"] = str(error)
            for _, view in views:
                view.refused = str(error)
        else:
            acted.submitted += len(handles)
            answer["handles"] = {str(view.entry): handle.id for (_, view), handle in zip(views, handles, strict=True)}
            for (_, view), handle in zip(views, handles, strict=True):
                view.handle = handle
        for pack, _ in views:
            board.dirty.add(pack)
        yield "answer"
        decide_file(folder / ANSWER_FILE, answer)

    # Ending

    def _close(self, action: Close, board: Board, acted: Acted) -> None:
        view = board.attempt(action.pack, action.attempt)
        assert view is not None, "decide speaks of known attempts"
        place = self._workspace.attempt(action.pack, action.attempt)
        now = self._clock()
        view.fold(place, now)  # its last facts, and its own word if it has one
        if view.live:
            full = board.room.full_at is not None and view.seen is not None and board.room.full_at >= view.seen
            acted.closed += close_by_evidence(action, view, place, now, full=full)
            view.fold(place, now)
        if action.stop:
            self._cancel(action.pack, action.attempt, board, acted)
        board.touch(action.pack)

    def _cancel(self, pack: str, number: int, board: Board, acted: Acted) -> None:
        view = board.attempt(pack, number)
        handle = view.executor(self._backend.name) if view is not None else None
        if view is None or handle is None:
            return
        # Asked before, perhaps by a loop that is gone since, and its time is over: now it is made to leave.
        before = view.stopping
        grace = board.policy.cancel_grace_s if before is None else 0.0
        view.stopping = self._clock()
        board.dirty.add(pack)  # the next loop must know
        try:
            self._backend.cancel([handle], grace_s=grace)
            acted.cancelled += 1
        except TemporaryError as error:
            view.stopping = before
            acted.trouble.append(f"cancellation delayed: {error}")
        except PermanentError as error:
            acted.trouble.append(f"cancellation refused: {error}")

    def _release(self, action: Release, board: Board, acted: Acted) -> None:
        """Nobody waits for these jobs; what becomes of them is seen at the next look at the queue."""
        try:
            self._backend.cancel(list(action.handles), grace_s=0.0 if action.made else board.policy.cancel_grace_s)
            acted.released += len(action.handles)
        except TemporaryError as error:
            acted.trouble.append(f"cancellation delayed: {error}")
            return
        except PermanentError as error:
            acted.trouble.append(f"cancellation refused: {error}")
        for handle in action.handles:
            board.strays[handle] = replace(board.strays[handle], asked=self._clock())


def _new_batch() -> str:
    return f"b{time.time_ns():x}-{uuid.uuid4().hex[:8]}"
