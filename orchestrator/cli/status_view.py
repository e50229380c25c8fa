"""How the state of sweeps is shown: one screen, the broken first."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from jobs.state import RunState
from jobs.workspace import Workspace
from orchestrator.cli.again import to_type, watch_words
from orchestrator.cli.units import clip, hours
from orchestrator.cost import NO_LOSS, STARTUP, UNSAVED, USEFUL
from orchestrator.room import NO_SPACE
from orchestrator.status import LivePack, SweepStatus
from orchestrator.waiting import BLOCKED, HELD

COLOURS = {
    RunState.COMPLETED: "green",
    RunState.RUNNING: "cyan",
    RunState.FAILED: "bold red",
    RunState.CANCELLED: "yellow",
}
COST_WORDS = {USEFUL: "useful", STARTUP: "starting up", UNSAVED: "not saved yet", "lost": "lost with its job"}
STALE_S = 60.0


def show_status(space: Workspace, found: Sequence[SweepStatus], limit: int) -> None:
    """Print every sweep; ``limit`` rows of each list, 0 for all."""
    console = Console(highlight=False)
    for number, status in enumerate(found):
        if number:
            console.print()
        _Screen(console, space, status, limit).show()


class _Screen:
    """One sweep on a console."""

    def __init__(self, console: Console, space: Workspace, status: SweepStatus, limit: int) -> None:
        self._console, self._space, self._status, self._limit = console, space, status, limit

    def show(self) -> None:
        status = self._status
        line = Text(status.sweep, style="bold")
        line.append(f"  {status.ended:,} of {status.total:,} runs ended", style="default")
        for state in RunState:
            if count := status.counts[state]:
                line.append(f"  {count:,} {state}", style=COLOURS.get(state, "default"))
        self._console.print(line)
        if short := {why: runs for why, runs in status.waiting.items() if why.startswith(NO_SPACE)}:
            self._room(short)
        if status.broken:
            self._broken(status.broken)
        if status.live:
            self._live(status.live)
        if waiting := {why: runs for why, runs in status.waiting.items() if not why.startswith(NO_SPACE)}:
            self._waiting(waiting)
        if status.queued or status.trouble:
            self._scheduler()
        if status.cost:
            self._cost(status.cost)
        if status.ended < status.total and not self._stuck():
            self._alone()

    def _alone(self) -> None:
        """No loop looks after it, though one would have something to do."""
        status = self._status
        age = None if status.seen is None else time.time() - status.seen
        if age is not None and age <= STALE_S:
            return
        since = "" if age is None else f" for {hours(age / 3600)}"
        if not status.live:
            words = "nothing is being launched"
        elif any(pack.over or _silent(pack) for pack in status.live):
            words = f"no loop of this host has looked{since}, and not all of these run any more"
        else:
            return
        self._command(f"{words}; go on with", *watch_words(self._space, status.sweep))

    def _stuck(self) -> bool:
        """Nothing can be launched before a person mends what failed."""
        return bool(self._status.waiting) and all(why.startswith(BLOCKED) for why in self._status.waiting)

    def _command(self, words: str, *command: str) -> None:
        """A command that a person may copy: never broken into lines by us."""
        said = Text(f"      {words}: ", style="dim")
        said.append(to_type(self._space, *command), style="default")
        self._console.print(said, soft_wrap=True)

    def _heading(self, word: str, style: str = "dim") -> None:
        self._console.print(Text(word, style=style))

    def _broken(self, broken: Sequence[Mapping[str, Any]]) -> None:
        self._heading("broken", "bold red")
        shown = broken[: self._limit or None]
        widest = max(len(str(row["failure"])) for row in shown)
        for row in shown:
            line = Text(f"{row['runs']:>5,} ")
            line.append(f"{row['failure']!s:<{widest}}  ", style="red")
            line.append(clip(str(row["message"]), self._console.width - len(line.plain)))
            self._console.print(line)
        self._more(len(broken) - len(shown))
        self._command("why, and what to do", "errors", self._status.sweep)

    def _room(self, short: Mapping[str, int]) -> None:
        """A full disk comes first: it keeps everything from going on, and only a person can make room."""
        self._heading("no room", "bold red")
        for why, runs in short.items():
            self._console.print(Text(f"{runs:>5,} {why}"), soft_wrap=True)
        hint = "make room or raise the quota, it goes on by itself; what takes the room"
        what = f"du -xh --max-depth=2 {shlex.quote(str(self._space.root))} | sort -h | tail"
        self._console.print(Text(f"      {hint}: ", style="dim").append(what, style="default"), soft_wrap=True)

    def _live(self, live: Sequence[LivePack]) -> None:
        self._heading("running")
        table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
        shown = sorted(live, key=lambda pack: pack.state is RunState.QUEUED)[: self._limit or None]
        for pack in shown:
            where = f"step {pack.step:,} of {pack.steps:,}" if pack.steps else str(pack.state)
            dead = pack.over or _silent(pack)
            left = f"{hours(pack.eta_s / 3600)} left" if pack.eta_s is not None and not dead else ""
            note = _silent(pack) and f"[yellow]{_silent(pack)}[/yellow]"
            if pack.over:
                note = f"[yellow]ended, {pack.over}; not judged yet[/yellow]"
            tries = "" if pack.attempt == 1 else f"attempt {pack.attempt}"
            runs = f"{pack.runs} run{'s' * (pack.runs != 1)}"
            table.add_row(f"{pack.pack:>20}", runs, tries, where, left, Text(clip(pack.host, 16)), note)
        self._console.print(table)
        self._more(len(live) - len(shown))

    def _waiting(self, waiting: Mapping[str, int]) -> None:
        self._heading("waiting")
        self._rows((count, why) for why, count in sorted(waiting.items(), key=lambda item: -item[1]))
        if any(why.startswith(HELD) for why in waiting):
            self._command("mend what they failed of, see", "errors", self._status.sweep)
            again = ("retry", "--sweep", self._status.sweep, "--dry-run")
            self._command("and let the first of them try again", *again)

    def _scheduler(self) -> None:
        status = self._status
        age = "" if status.seen is None else f", {hours(max(0.0, time.time() - status.seen) / 3600)} ago"
        self._heading(f"the scheduler{age}")
        self._rows((count, f"queued: {why}") for why, count in status.queued.items())
        for text in status.trouble:
            self._console.print(Text(f"      {clip(text, self._console.width - 6)}", style="yellow"))

    def _cost(self, cost: Mapping[str, float]) -> None:
        total = sum(cost.values())
        order = {name: place for place, name in enumerate(NO_LOSS)}
        parts = [
            f"{COST_WORDS.get(name, f'lost to {name}')} {100 * seconds / total:.0f} %"
            for name, seconds in sorted(cost.items(), key=lambda item: (order.get(item[0], 9), -item[1]))
            if seconds >= 0.005 * total
        ]
        line = Text("cost so far", style="dim")
        line.append(f"  {hours(total / 3600)} of one {self._status.unit}: {', '.join(parts)}", style="default")
        self._console.print(line)

    def _rows(self, rows: Iterable[tuple[int, str]]) -> None:
        rows = list(rows)
        shown = rows[: self._limit or None]
        for count, words in shown:
            self._console.print(Text(f"{count:>5,} {clip(words, self._console.width - 6)}"))
        self._more(len(rows) - len(shown))

    def _more(self, count: int) -> None:
        if count > 0:
            self._console.print(f"[dim]      and {count:,} more (--limit 0 shows all)[/dim]")


def _silent(pack: LivePack) -> str:
    """That its heartbeat has stopped; "" while it beats."""
    silent = pack.silent_s or 0.0
    return f"silent for {hours(silent / 3600)}" if silent > STALE_S else ""
