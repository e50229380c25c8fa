"""Running the loop in a terminal: a progress line while it works, a clean way to leave."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column

from cluster.backends import make_backend
from jobs.state import RunState
from jobs.workspace import Workspace
from orchestrator.exit_codes import Exit
from orchestrator.loop import Loop, TickReport
from orchestrator.policy import default_policy
from orchestrator.remaining import Pace, words
from orchestrator.room import NO_SPACE

QUIET_LINE_S = 10.0
"""Without a terminal, a line at most this often."""

ENDED = (RunState.COMPLETED, RunState.FAILED, RunState.CANCELLED)


class Detached(Exception):
    """The person left; what was launched goes on."""


def make_loop(space: Workspace, backend: str, sweeps: Sequence[str] | None, max_in_flight: int | None) -> Loop:
    """A loop with the policy of its backend."""
    # Slurm's jobs are told from those of another workspace by where their batches lie.
    options = {"submissions": space.submissions} if backend == "slurm" else {}
    return Loop(space, make_backend(backend, **options), default_policy(backend, max_in_flight), sweeps)


def watch(loop: Loop, console: Console) -> TickReport:
    """Tick until nothing is left to do, showing progress on stderr.

    Raises:
        Detached: Ctrl-C, a closed terminal, or a TERM signal.
    """
    previous = {number: signal.signal(number, _leave) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        show = _Bar(console, _time_left(loop)) if console.is_terminal else _Lines(_time_left(loop))
        return loop.watch(on_tick=_with_notices(loop, console, show))
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _time_left(loop: Loop) -> Callable[[], str]:
    pace = Pace()
    return lambda: words(pace.left(loop.board))


def _with_notices(loop: Loop, console: Console, show: Callable[[TickReport], None]) -> Callable[[TickReport], None]:
    """``show``, and once each what the backend has to say."""
    said: set[str] = set()

    def on_tick(report: TickReport) -> None:
        for notice in loop.notices:
            if notice not in said:
                said.add(notice)
                console.print(f"[yellow]notice:[/yellow] {notice}", highlight=False, soft_wrap=True)
        show(report)

    return on_tick


def _leave(number: int, frame: FrameType | None) -> None:
    raise Detached(signal.Signals(number).name)


def counted(report: TickReport, left: str = "") -> str:
    """What a pass saw, in one line. ``left``: how long the rest will take, in words."""
    ended = sum(report.total(state) for state in ENDED)
    parts = [f"{ended}/{sum(sum(c.values()) for c in report.counts.values())} runs"]
    if failed := report.total(RunState.FAILED):
        parts.append(f"{failed} failed")
    parts.append(f"{report.total(RunState.RUNNING)} running in {report.in_flight} pack{'s' * (report.in_flight != 1)}")
    parts += [left] if left else []
    if report.trouble:
        parts.append(report.trouble[0])
    elif short := next((why for of in report.waiting.values() for why in of if why.startswith(NO_SPACE)), ""):
        parts.append(short)
    return ", ".join(parts)


class _Lines:
    """For logs and pipes: a line when something has changed, not more often than every few seconds."""

    def __init__(self, left: Callable[[], str], clock: Callable[[], float] = time.monotonic) -> None:
        self._left, self._clock = left, clock
        self._last = ("", float("-inf"))

    def __call__(self, report: TickReport) -> None:
        text, now = counted(report), self._clock()
        left = self._left()
        if text != self._last[0] and (report.done or now - self._last[1] >= QUIET_LINE_S):
            click.echo(counted(report, left), err=True)
            self._last = (text, now)


class _Bar:
    """One live line."""

    def __init__(self, console: Console, left: Callable[[], str]) -> None:
        self._left = left
        self._progress = Progress(
            TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis")),
            BarColumn(max(8, min(40, console.width - 70))),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task("starting ...", total=None)
        self._progress.start()

    def __call__(self, report: TickReport) -> None:
        total = sum(sum(counts.values()) for counts in report.counts.values())
        ended = sum(report.total(state) for state in ENDED)
        self._progress.update(self._task, description=counted(report, self._left()), total=total, completed=ended)
        if report.done:
            self._progress.stop()

    def __del__(self) -> None:
        self._progress.stop()


def conclude(report: TickReport) -> Exit:
    """Exit code of a finished watch."""
    total = sum(sum(counts.values()) for counts in report.counts.values())
    if report.total(RunState.FAILED):
        return Exit.RUNS_FAILED
    return Exit.OK if report.total(RunState.COMPLETED) + report.total(RunState.CANCELLED) == total else Exit.UNFINISHED


def say_detached(again: str) -> None:
    click.echo(
        "\nDetached: what was launched goes on, nothing new is launched.\n"
        f"Take up again with the same command, or: {again}",
        err=True,
    )
    sys.exit(Exit.INTERRUPTED)
