"""The worker's pulse: a thread that says every few seconds how far training is, and notices when it no longer moves."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path

import orjson

from jobs.durable import replace_file
from jobs.facts import Heartbeat
from jobs.workspace import AttemptDir

INTERVAL_S = 3.0
STEPS_REMEMBERED = 64
HANG_FACTOR = 10
STARTUP_FACTOR = 4
"""Until the first step has been timed (imports, compilation) this many hang floors may pass."""
WAITING_FACTOR = 2


class Progress:
    """How far training is. The main thread writes, the heartbeat thread reads; no lock, each value stands alone."""

    def __init__(self, step: int = 0, steps: int = 0, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.step = step
        self.steps = steps
        self.moves = 0
        """Grows with every sign of life; the watchdog looks only at whether it changed."""
        self._clock = clock
        self._last: float | None = None
        self._durations: list[float] = []
        self._next = 0

    def advance(self, step: int, steps: int) -> None:
        """``step`` steps are done. The time of each is remembered, for the median."""
        now = self._clock()
        if step > self.step:
            if self._last is not None:
                duration = (now - self._last) / (step - self.step)
                if len(self._durations) < STEPS_REMEMBERED:
                    self._durations.append(duration)
                else:
                    self._durations[self._next % STEPS_REMEMBERED] = duration
                    self._next += 1
            self.moves += 1
        self._last, self.step, self.steps = now, step, steps

    def busy(self) -> None:
        """Something other than a step begins or ends (a save, an evaluation): alive, but no step to be timed."""
        self.moves += 1
        self._last = self._clock()

    def median_step_s(self) -> float | None:
        durations = self._durations.copy()
        return statistics.median(durations) if durations else None


class HangWatch:
    """Decides that training hangs: no move for max(10 x median step, floor) seconds *that this watch was awake for*.

    A stopped process (SIGSTOP, a suspended machine, a starved host) sees its clock jump; a tick that comes late
    counts as two ticks, so that time during which nobody could run is nobody's hang.

    Args:
        waiting: whether this process waits for others. It is given twice the time, so that of several processes the
            one that stands still speaks first.
    """

    def __init__(
        self,
        progress: Progress,
        floor_s: float,
        interval_s: float = INTERVAL_S,
        waiting: Callable[[], bool] = lambda: False,
    ) -> None:
        self._progress = progress
        self._waiting = waiting
        self._floor_s = floor_s
        self._tick_s = interval_s
        self._moves = -1
        self._last: float | None = None
        self._idle_s = 0.0

    def limit_s(self) -> float:
        patience = WAITING_FACTOR if self._waiting() else 1
        median = self._progress.median_step_s()
        if median is None:
            return patience * STARTUP_FACTOR * self._floor_s
        return patience * max(HANG_FACTOR * median, self._floor_s)

    def look(self, now: float) -> bool:
        """True: it hangs. ``now`` in seconds on a monotonic clock."""
        gap = 0.0 if self._last is None else min(now - self._last, 2 * self._tick_s)
        self._last = now
        moves = self._progress.moves
        if moves != self._moves:
            self._moves, self._idle_s = moves, 0.0
            return False
        self._idle_s += gap
        return self._idle_s > self.limit_s()


class Pulse:
    """The thread. Every ``interval_s`` it replaces ``heartbeat.json``, looks whether somebody closed the attempt, and
    watches for a hang.

    Args:
        on_closed: called once when ``closed.json`` appears.
        on_hang: called once with the seconds that were allowed, in this thread; it is expected not to return.
        path: where to beat, if not in the attempt's ``heartbeat.json``.
        waiting: see ``HangWatch``.
    """

    def __init__(
        self,
        attempt: AttemptDir,
        progress: Progress,
        *,
        hang_floor_s: float,
        on_closed: Callable[[], None],
        on_hang: Callable[[float], None],
        interval_s: float = INTERVAL_S,
        clock: Callable[[], float] = time.monotonic,
        path: Path | None = None,
        waiting: Callable[[], bool] = lambda: False,
    ) -> None:
        self._attempt = attempt
        self._path = path or attempt.heartbeat
        self._progress = progress
        self._watch = HangWatch(progress, hang_floor_s, interval_s, waiting)
        self._on_closed = on_closed
        self._on_hang = on_hang
        self._interval_s = interval_s
        self._clock = clock
        self._beat = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        self.beat()
        self._thread.start()

    def stop(self) -> None:
        """One last beat; none is written after this returns."""
        self._stop.set()
        self._thread.join(timeout=10)
        self.beat()

    def beat(self) -> None:
        """Write the heartbeat; not fsynced, it is worth nothing after a crash. A full disk does not end training."""
        self._beat += 1
        record = Heartbeat(
            beat=self._beat,
            step=self._progress.step,
            steps=self._progress.steps,
            median_step_s=self._progress.median_step_s(),
            time=time.time(),
        )
        try:
            replace_file(self._path, orjson.dumps(record.model_dump()), sync=False)
        except OSError:
            return

    def _run(self) -> None:
        told = False
        while not self._stop.wait(self._interval_s):
            self.beat()
            if not told and self._attempt.closed.exists():
                told = True
                self._on_closed()
            if self._watch.look(self._clock()):
                self._on_hang(self._watch.limit_s())
                return
