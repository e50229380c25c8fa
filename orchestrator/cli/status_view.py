"""How the state of sweeps is shown: one screen, the broken first."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from jobs.state import RunState
from orchestrator.cli.units import hours
from orchestrator.status import LivePack, SweepStatus

COLOURS = {
    RunState.COMPLETED: "green",
    RunState.RUNNING: "cyan",
    RunState.FAILED: "bold red",
    RunState.CANCELLED: "yellow",
}
STALE_S = 60.0


def show_status(found: Sequence[SweepStatus], limit: int) -> None:
    """Print every sweep; ``limit`` rows of each list, 0 for all."""
    console = Console(highlight=False)
    for number, status in enumerate(found):
        if number:
            console.print()
        _show(console, status, limit)


def _show(console: Console, status: SweepStatus, limit: int) -> None:
    line = Text(status.sweep, style="bold")
    line.append(f"  {status.ended} of {status.total} runs ended", style="default")
    for state in RunState:
        if count := status.counts[state]:
            line.append(f"  {count} {state}", style=COLOURS.get(state, "default"))
    console.print(line)
    if status.broken:
        _show_broken(console, status.broken, limit)
    if status.live:
        _show_live(console, status.live, limit)
    if status.waiting:
        console.print("[dim]waiting[/dim]")
        _rows(console, [(str(count), reason) for reason, count in status.waiting.items()], limit)
    if status.cost:
        total = sum(status.cost.values())
        parts = [
            f"{hours(seconds / 3600)} {'useful' if name == 'useful' else f'lost to {name}'}"
            for name, seconds in sorted(status.cost.items(), key=lambda item: (item[0] != "useful", -item[1]))
        ]
        console.print(f"[dim]cost so far[/dim]  {hours(total / 3600)} of one slot: {', '.join(parts)}")
    if status.ended < status.total and not status.live:
        age = None if status.seen is None else time.time() - status.seen
        if age is None or age > STALE_S:
            console.print(f"nothing is being launched; go on with: orchestrate watch {status.sweep}")


def _show_broken(console: Console, broken: Sequence[Mapping[str, Any]], limit: int) -> None:
    console.print("[bold red]broken[/bold red]")
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    shown = broken[: limit or None]
    for row in shown:
        table.add_row(f"{row['runs']:>4}", str(row["failure"]), Text(str(row["message"])), f"e.g. {row['example']}")
    console.print(table)
    _more(console, len(broken) - len(shown))
    console.print(f"[dim]why: orchestrate show {broken[0]['example']}   mend: orchestrate retry --dry-run[/dim]")


def _show_live(console: Console, live: Sequence[LivePack], limit: int) -> None:
    console.print("[dim]running[/dim]")
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    shown = live[: limit or None]
    for pack in shown:
        where = f"step {pack.step} of {pack.steps}" if pack.steps else str(pack.state)
        left = f"{hours(pack.eta_s / 3600)} left" if pack.eta_s is not None else ""
        silent = pack.silent_s is not None and pack.silent_s > STALE_S
        note = f"[yellow]silent for {hours(pack.silent_s / 3600)}[/yellow]" if silent and pack.silent_s else ""
        table.add_row(pack.pack, f"attempt {pack.attempt}", f"{pack.runs} runs", where, left, pack.host, note)
    console.print(table)
    _more(console, len(live) - len(shown))


def _rows(console: Console, rows: Sequence[tuple[str, str]], limit: int) -> None:
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    shown = rows[: limit or None]
    for count, words in shown:
        table.add_row(f"{count:>4}", Text(words))
    console.print(table)
    _more(console, len(rows) - len(shown))


def _more(console: Console, count: int) -> None:
    if count > 0:
        console.print(f"[dim]     and {count} more (--limit 0 shows all)[/dim]")
