"""Jobs in the queue that have nothing left to do.

A job may be queued again behind our back: its node fails after its runs have finished, a controller that was killed
forgets that it had ended, a cancelled run's job is preempted before it has left, a launch was handed over twice. Its
shim would leave at once, but until then it waits in the queue, and nobody asks about it. So every look at the queue is
compared with what the packs still need, and what is left over is taken out. What is known of it comes from the files
and the queue alone: a loop that starts anew sees the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cluster.backend import JobHandle
from orchestrator.board import Board
from orchestrator.history import split_name
from orchestrator.stray import Stray


class Strays:
    """Looks for one loop.

    Args:
        backend: one that has ``in_queue(ask=...)`` is asked (see ``cluster.submitit_backend``); others have no queue.
        clock: seconds, as the board's.
    """

    def __init__(self, backend: Any, board: Board, clock: Callable[[], float]) -> None:
        self._in_queue = getattr(backend, "in_queue", None)
        self._board = board
        self._clock = clock
        self._seen = 0  # looks are counted from 1
        self._idle_since: float | None = None
        self._clear = False

    def look(self) -> None:
        """After the files were read and the scheduler was asked about the jobs that we wait for.

        Raises:
            TemporaryError: the scheduler does not answer.
        """
        if self._in_queue is None:
            return
        now = self._clock()
        seen, jobs = self._in_queue()
        if seen == self._seen and self._board.idle and not self._clear:
            seen, jobs = self._in_queue(ask=True)  # nobody waits for a job any more, so nobody has asked
        if seen == self._seen:
            return
        self._seen = seen
        before = self._board.strays
        strays: dict[JobHandle, Stray] = {}
        for handle, state in jobs.items():
            leaving = self._unneeded(handle, now)
            if leaving is not None:
                old = before.get(handle)
                strays[handle] = Stray(state, old.since if old else now, leaving, old.asked if old else None)
        self._board.strays = strays
        self._clear = self._board.idle and not strays

    def _unneeded(self, handle: JobHandle, now: float) -> bool | None:
        """None for a job that is needed, or not ours to judge; else ``Stray.leaving``."""
        split = split_name(handle.name)
        if split is None or split[0] not in self._board.desired.packs:
            return None
        pack, number = split
        if pack not in self._board.settled and not self._settled(pack):
            return None
        self._board.take_up(pack, now)  # another loop, or the job itself, may have launched an attempt since
        view = self._board.attempt(pack, number)
        if view is None or not self._settled(pack):
            return None
        last = self._board.histories[pack][-1]
        return last.closed is not None and last.closed.outcome in ("preempted", "lost")

    def _settled(self, pack: str) -> bool:
        verdict = self._board.verdicts.get(pack)
        return verdict is not None and verdict.settled

    def awaited(self, patience_s: float) -> bool:
        """Whether a loop that is otherwise done should stay until the queue holds nothing of its runs. Not for ever: a
        controller that is away, or a node that never finishes completing, is no reason to."""
        if self._in_queue is None:
            return False
        if not self._board.idle:
            self._idle_since, self._clear = None, False
            return False
        self._idle_since = self._clock() if self._idle_since is None else self._idle_since
        return not self._clear and self._clock() - self._idle_since < patience_s

    @property
    def trouble(self) -> list[str]:
        """What a person should know of an end that was not waited for."""
        if self._in_queue is None or self._clear:
            return []
        left = ", ".join(handle.id for handle in self._board.strays)
        return [f"still in the queue, with nothing left to do: {left}" if left else "the queue was not seen empty"]
