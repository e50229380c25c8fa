"""How machines are shown: the excluded ones first, with the evidence."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from jobs.workspace import Workspace
from orchestrator.cli.again import to_type
from orchestrator.cli.units import hours, plural
from orchestrator.nodes import NodeVerdict

EVIDENCE = 3
"""So many mishaps are shown of an excluded machine."""


def show_nodes(space: Workspace, verdicts: Sequence[NodeVerdict]) -> None:
    """Print every machine."""
    console = Console(highlight=False)
    if not verdicts:
        console.print("Nothing has been run yet, or no attempt has ended.")
        return
    ordered = sorted(verdicts, key=lambda v: (v.until is None, not v.spared, -len(v.against), v.node))
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("machine", overflow="fold")
    table.add_column("attempts", justify="right")
    table.add_column("failed", justify="right")
    table.add_column("state", no_wrap=True)
    for verdict in ordered:
        table.add_row(verdict.node, f"{verdict.attempts:,}", f"{verdict.failed:,}", _state(verdict))
    console.print(table)
    for verdict in ordered:
        if verdict.until is not None or verdict.spared:
            _show_why(console, space, verdict)


def _state(verdict: NodeVerdict) -> Text:
    if verdict.until is not None:
        left = hours(max(0.0, verdict.until - time.time()) / 3600)
        return Text(f"excluded for {left} more", style="bold red")
    if verdict.spared:
        return Text("suspect, and the only one known", style="yellow")
    if verdict.against:
        return Text(f"{plural(len(verdict.against), 'mishap')} since it last worked", style="yellow")
    return Text("good", style="green")


def _show_why(console: Console, space: Workspace, verdict: NodeVerdict) -> None:
    console.print(f"\n[bold]{verdict.node}[/bold]  {plural(len(verdict.against), 'mishap')} since it last worked")
    for mishap in verdict.against[-EVIDENCE:]:
        when = time.strftime("%m-%d %H:%M", time.localtime(mishap.time))
        took = "" if mishap.took_s is None else f", gone after {mishap.took_s:.0f} s"
        line = Text(f"{when}  {mishap.failure}{took}: {mishap.message}", no_wrap=True, overflow="ellipsis")
        console.print(Padding(line, (0, 0, 0, 2)))
        console.print(Padding(Text(mishap.attempt, style="dim"), (0, 0, 0, 15)))
    command = Text(f"  mended? {to_type(space, 'nodes', '--forgive', verdict.node)}", style="dim")
    console.print(command, soft_wrap=True)
