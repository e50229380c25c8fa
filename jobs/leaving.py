"""When an attempt saves and when it leaves. Of several processes all decide the same at the same step, whoever was
asked; when to save in between is the first one's to say."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Literal

from jobs.launch import Launch
from jobs.ranks import Ranks


class Leave(Exception):
    """The attempt was closed by somebody else, or is claimed by another job: stop, write nothing, exit 0."""


class Leaving:
    """Decisions of one attempt.

    Args:
        step: where it begins; ``resumed``: that is a checkpoint's step.
        requested: name of the signal that asked this process to leave, or None.

    Attributes:
        why: "" while nothing speaks against going on.
        asked: name of the signal that we leave because of.
        saved, saved_at: step of the last checkpoint, and when that was or the wait for the next began.
        closed: somebody else closed the attempt, as far as this process has heard.
    """

    def __init__(
        self,
        launch: Launch,
        ranks: Ranks,
        requested: Callable[[], str | None],
        clock: Callable[[], float],
        step: int,
        resumed: bool,
    ) -> None:
        self.why: Literal["", "asked", "probe"] = ""
        self.asked: str | None = None
        self.saved, self.saved_at = step if resumed else None, clock()
        self.closed = False
        self._launch = launch
        self._ranks = ranks
        self._requested = requested
        self._clock = clock
        self._begin = step
        self._due_at = -1

    def request(self, step: int) -> str | None:
        """Name of the signal that asked any of the processes to leave. All of them call this, at the same step.

        Raises:
            Leave: somebody else closed the attempt.
        """
        closed, asked = self.closed, self._requested()
        if self._ranks.size > 1:
            number = signal.Signals[asked].value if asked else 0
            due = self._ranks.rank == 0 and self._is_time(step)
            closed, number, due = self._ranks.agree((closed, number, due))
            asked = signal.Signals(number).name if number else None
            self._due_at = step if due else -1
        if closed:
            raise Leave
        self.asked = self.asked or asked
        return asked

    def decide(self, step: int) -> bool:
        """Whether to leave, now that ``step`` steps are done."""
        asked = self.request(step)
        if not self.why:
            most = self._launch.max_steps
            if most is not None and step - self._begin >= most:
                self.why = "probe"
            elif asked:
                self.why = "asked"
        return bool(self.why)

    def due(self, step: int) -> bool:
        """Whether a checkpoint is: by steps (every multiple), by seconds, or because leaving was asked for."""
        if step == self.saved or self.why == "probe" or self._launch.max_steps is not None:
            return False
        if self.why:
            return True
        if self._ranks.size > 1:
            return self._due_at == step
        return bool(self._requested()) or self._is_time(step)

    def _is_time(self, step: int) -> bool:
        every, seconds = self._launch.checkpoint_steps, self._launch.checkpoint_seconds
        if every is not None and step // every > (self.saved or 0) // every:
            return True
        return seconds is not None and self._clock() - self.saved_at >= seconds
