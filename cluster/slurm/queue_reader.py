"""The queue as squeue shows it: read once, used by everybody who asks in the same pass of the loop."""

from __future__ import annotations

import time
from collections.abc import Callable

from cluster.backend import JobHandle, JobState
from cluster.slurm.batches import Batches
from cluster.slurm.commands import Answer, Commands
from cluster.slurm.parse import QUEUE_FIELDS, QueueRow, queue_rows
from cluster.slurm.states import look_up

SHARED_S = 5.0
"""Two questions of one pass of the loop are so close that one answer of the queue serves both."""

OVER = (JobState.ENDED, JobState.GONE)


class QueueReader:
    """Reads for one backend.

    Args:
        user: whose jobs to ask for.
        clock: seconds, monotonic.
    """

    def __init__(
        self, commands: Commands, batches: Batches, *, user: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._commands = commands
        self._batches = batches
        self._user = user
        self._clock = clock
        self._read: tuple[float, int, Answer] | None = None
        """When it was last read (also by how many orders had been given), and the answer, ..."""
        self.used = True
        """... and whether a look went by it; none does twice."""

    def read(self) -> Answer:
        """One squeue about all jobs of the user."""
        answer = self._commands("squeue", "-h", "-a", "-t", "all", "-u", self._user, "-o", QUEUE_FIELDS)
        self._read = (self._clock(), self._commands.orders_given, answer) if answer.ok else None
        self.used = False
        return answer

    def recent(self) -> Answer | None:
        """What the queue has told just now, in this pass of the loop, unless we have changed it since."""
        if self._read is None:
            return None
        at, orders, answer = self._read
        fresh = self._clock() - at < SHARED_S and orders == self._commands.orders_given
        return answer if fresh else None

    def rows(self, text: str) -> dict[JobHandle, QueueRow]:
        """Jobs of ours. A live row goes before an ended one of the same id."""
        found: dict[JobHandle, QueueRow] = {}
        for row in queue_rows(text):
            name = self._batches.name_of_row(row)
            if name is None:
                continue
            handle = JobHandle("slurm", row.id, name)
            if handle not in found or look_up(found[handle].word)[0] in OVER:
                found[handle] = row
        return found
