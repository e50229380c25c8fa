"""How broken runs are shown: to be understood in ten seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from jobs.facts import FailureClass
from jobs.workspace import Workspace
from orchestrator.advice import FIX_FIRST, MEANS
from orchestrator.broken import Kind
from orchestrator.cli.again import to_type
from orchestrator.cli.units import clip, plural
from orchestrator.survey import Survey

IDS = 3
"""So many run ids are named."""
INDENT = 6
WORD = 10
"""Columns of the words before what is said."""


def show_errors(
    space: Workspace, seen: Survey, told: Sequence[Kind], *, sweep: str | None, group: bool, limit: int
) -> None:
    """Print kinds of failure, the most frequent first; ``limit`` of them, 0 for all."""
    console = Console(highlight=False)
    runs = [run for kind in told for run in kind.runs]
    final = sum(not run.again for run in runs)
    total = len(seen.desired.sweeps_of)
    if not runs:
        console.print(f"Nothing is broken: none of {plural(total, 'run')} has failed.")
        return
    line = Text(f"{final:,} of {plural(total, 'run')} failed", style="bold red" if final else "bold")
    if again := len(runs) - final:
        line.append(f", {again:,} more will be tried again", style="default")
    line.append(f"; {plural(len(told), 'kind')} of failure", style="default")
    console.print(line)
    shown = told[: limit or None]
    page = _Page(console, space, sweep, seen)
    widest = max(len(kind.failure) for kind in shown)
    for kind in shown:
        if group:
            page.line(kind, widest)
        else:
            page.kind(kind)
    if len(told) > len(shown):
        console.print(f"[dim]and {len(told) - len(shown)} more kinds (--limit 0 shows all)[/dim]")


class _Page:
    def __init__(self, console: Console, space: Workspace, sweep: str | None, seen: Survey) -> None:
        self._console, self._space, self._sweep = console, space, sweep
        self._common = _shared([{**run.cell.labels, **run.labels} for run in seen.desired.runs.values()])

    def line(self, kind: Kind, widest: int) -> None:
        """A kind on one line: runs, class, message, an example."""
        line = Text(f"{len(kind.runs):>5,} ", style="bold")
        line.append(f"{kind.failure!s:<{widest}}  ", style="red")
        room = self._console.width - len(line.plain) - 18
        line.append(f"{clip(kind.message, room):<{room}}  {kind.runs[0].run}", style="default")
        self._console.print(line)

    def kind(self, kind: Kind) -> None:
        """A kind with its evidence."""
        self._console.print()
        line = Text(f"{len(kind.runs):>5,} ", style="bold")
        line.append(f"{kind.failure}  ", style="bold red")
        room = self._console.width - len(line.plain)
        for number, part in enumerate(Text(clip(kind.message, 2 * room - 1)).wrap(self._console, room)):
            self._console.print((Text(" " * len(line.plain)) if number else line) + part)
        for text in kind.evidence:
            cut = text.rstrip()[: self._console.width - INDENT - 2]
            self._console.print(Text(f"{'':{INDENT}}| {cut}", style="dim"))
        self._say("", MEANS[kind.failure])
        if memories := [run.memory for run in kind.runs if run.memory is not None]:
            self._say("memory", max(memories, key=lambda memory: memory.wanted_mb or 0).words)
        shared = _shared([run.labels for run in kind.runs])
        own = {name: value for name, value in shared.items() if name not in self._common}
        if own:
            self._say("all with", " ".join(f"{name}={value}" for name, value in own.items()))
        self._say("where", _where(kind))
        ids = " ".join(run.run for run in kind.runs[:IDS])
        more = f" and {len(kind.runs) - IDS:,} more" if len(kind.runs) > IDS else ""
        self._say("runs", ids + more)
        self._say("log", to_type(self._space, "logs", kind.runs[0].run), command=True)
        if all(run.again for run in kind.runs):
            full = kind.failure is FailureClass.DISK
            what = "make room or raise the quota; they go on" if full else "nothing to do: they are tried again"
            self._say("mend", f"{what} by themselves")
        else:
            chosen = ("--sweep", self._sweep) if self._sweep else ()
            words = "mended?" if kind.failure in FIX_FIRST else "mend"
            again = to_type(self._space, "retry", "--class", str(kind.failure), *chosen, "--dry-run")
            self._say(words, again, command=True)

    def _say(self, word: str, text: str, *, command: bool = False) -> None:
        head = Text(f"{'':{INDENT}}{word:<{WORD if word else 0}}", style="dim")
        if command:  # to be copied: the terminal may wrap it, we do not
            self._console.print(head.append(text, style="default"), soft_wrap=True)
            return
        for number, part in enumerate(Text(text).wrap(self._console, self._console.width - len(head.plain))):
            part.rstrip()
            self._console.print((Text(" " * len(head.plain)) if number else head) + part)


def _where(kind: Kind) -> str:
    steps = [run.step for run in kind.runs]
    most = max(run.steps for run in kind.runs)
    at = f"step {min(steps):,}" if min(steps) == max(steps) else f"steps {min(steps):,} to {max(steps):,}"
    tries = sorted({run.attempts for run in kind.runs})
    attempts = plural(tries[0], "attempt") if len(tries) == 1 else f"{tries[0]} to {tries[-1]} attempts"
    nodes = list(kind.nodes.items())
    named = ", ".join(f"{node} ({count:,})" if len(nodes) > 1 else node for node, count in nodes[:4])
    machines = named + (f" and {len(nodes) - 4} more machines" if len(nodes) > 4 else "")
    return f"{at}{f' of {most:,}' if most else ''}, after {attempts}, on {machines}"


def _shared(labels: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Labels that all of them have, with one value."""
    if not labels:
        return {}
    first = labels[0]
    return {name: value for name, value in first.items() if all(of.get(name) == value for of in labels)}
