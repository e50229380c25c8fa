"""How one run is shown."""

from __future__ import annotations

import time

from rich.console import Console
from rich.table import Table
from rich.text import Text

from jobs.workspace import Workspace
from orchestrator.cli.again import to_type
from orchestrator.cli.status_view import COLOURS
from orchestrator.cli.units import size
from orchestrator.run_view import AttemptShown, RunView


def show_run(space: Workspace, view: RunView) -> None:
    """Print a run: who it is, how it stands and why, each attempt, where its files are."""
    console = Console(highlight=False, soft_wrap=True)
    state = view.verdict.state
    line = Text(view.run, style="bold")
    line.append(f"  {state}", style=COLOURS.get(state, "default"))
    if view.verdict.message:
        line.append(f": {view.verdict.message}", style="default")
    console.print(line)
    facts = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    facts.add_column(no_wrap=True)
    facts.add_column(overflow="fold")
    facts.add_row("labels", Text("  ".join(f"{name}={value}" for name, value in view.labels.items())))
    facts.add_row("sweeps", ", ".join(view.sweeps))
    facts.add_row("runner", f"{view.spec.runner}, seed {view.spec.seed}")
    others = len(view.members) - 1
    facts.add_row("pack", f"{view.pack}, shared with {others} other run{'s' * (others != 1)}" if others else view.pack)
    for name, (run, product, producer) in view.inputs.items():
        facts.add_row(f"input {name}", f"{product} of {run} ({producer})")
    for name, path in view.products.items():
        facts.add_row(f"product {name}", str(path))
    for checkpoint in view.checkpoints:
        verdict = Text(checkpoint.verdict, style="default" if checkpoint.complete else "yellow")
        said = Text(f"step {checkpoint.step:,} of attempt {checkpoint.attempt}, {size(checkpoint.bytes)}: ") + verdict
        facts.add_row("checkpoint", said)
    console.print(facts)
    if not view.attempts:
        console.print("[dim]no attempt yet[/dim]")
    for attempt in view.attempts:
        _show_attempt(console, attempt)
    if view.attempts:
        console.print(Text(f"log:    {to_type(space, 'logs', view.run)}", style="dim"))
        console.print(Text(f"config: {to_type(space, 'show', view.run, '--json')}", style="dim"))


def _show_attempt(console: Console, attempt: AttemptShown) -> None:
    line = Text(f"attempt {attempt.number}", style="bold")
    line.append(f"  {attempt.outcome}", style="default")
    if attempt.failure:
        line.append(f" ({attempt.failure})", style="bold red")
    if attempt.steps or attempt.step:
        line.append(f", steps {attempt.first_step} to {attempt.step} of {attempt.steps or '?'}", style="default")
    if attempt.started is not None:
        begin = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(attempt.started))
        line.append(f", {begin} on {attempt.host}", style="default")
        if attempt.last is not None:
            line.append(f", {max(0.0, attempt.last - attempt.started):.0f} s", style="default")
    if attempt.exact:
        line.append(f", resumed: {attempt.exact}", style="default")
    console.print(line)
    if attempt.message:
        console.print(Text(f"  {attempt.message}"))
    for name, words in (("code", "exit code"), ("signal", "signal")):
        value = (attempt.exit or {}).get(name)
        if value and f"{words} {value}" not in attempt.message:
            console.print(f"  {words} {value}")
    console.print(f"  [dim]{attempt.log}[/dim]")
