"""What `retry` and `cancel` share: how runs are chosen, shown, asked about, and how the request is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from jobs.state import RunState
from jobs.workspace import Workspace
from orchestrator.cli.common import confirm, resolve_sweep
from orchestrator.cli.units import hours
from orchestrator.requests import write_request
from orchestrator.selection import Chosen, Selection, select

ASK_FROM = 10
"""So many runs and more are not touched without a question."""


def choose(
    space: Workspace,
    runs: Sequence[str],
    sweep: str | None,
    failures: Sequence[str],
    labels: Sequence[str],
    states: Sequence[RunState],
    *,
    need_one: bool,
) -> list[Chosen]:
    """The runs that the options name.

    Raises:
        click.UsageError: a malformed label, or (``need_one``) nothing that narrows the choice.
    """
    pairs = [text.partition("=") for text in labels]
    if bad := [text for text, (_, sign, _) in zip(labels, pairs, strict=True) if not sign]:
        raise click.UsageError(f"--label takes NAME=VALUE, not {bad[0]!r}")
    if need_one and not (runs or sweep or failures or labels):
        raise click.UsageError("name runs, or choose them by --sweep, --class or --label")
    name = resolve_sweep(space, sweep) if sweep is not None else None
    wanted = Selection(runs, name, failures, {key: value for key, _, value in pairs})
    return select(space, wanted, states)


def preview(chosen: Sequence[Chosen], limit: int, *, begin: Callable[[Chosen], int] | None) -> None:
    """A table of runs, and what they cost still; ``begin`` gives the step each would start from."""
    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("run", "state", "class", "labels", "from step", "of"):
        table.add_column(name, justify="right" if name in ("from step", "of") else "left")
    for one in chosen[: limit or None]:
        labels = " ".join(f"{name}={value}" for name, value in one.labels.items())
        start = "" if begin is None else f"{begin(one)}"
        table.add_row(
            one.run, str(one.verdict.state), str(one.verdict.failure or ""), Text(labels), start, f"{one.steps}"
        )
    console.print(table)
    if limit and len(chosen) > limit:
        console.print(f"[dim]and {len(chosen) - limit} more (--limit 0 shows all)[/dim]")
    classes = Counter(str(one.verdict.failure) for one in chosen if one.verdict.failure)
    said = ", ".join(f"{count} {name}" for name, count in classes.most_common())
    packs = {one.pack for one in chosen}
    console.print(f"{len(chosen)} runs in {len(packs)} packs{f' ({said})' if said else ''}")
    if begin is not None:
        console.print(_remaining(chosen, begin))


def _remaining(chosen: Sequence[Chosen], begin: Callable[[Chosen], int]) -> str:
    """Members of a pack go on together, so a pack costs its longest member."""
    left: dict[str, float] = {}
    unknown = 0
    for one in chosen:
        if one.seconds_per_step is None:
            unknown += 1
            continue
        left[one.pack] = max(left.get(one.pack, 0.0), (one.steps - begin(one)) * one.seconds_per_step)
    text = f"about {hours(sum(left.values()) / 3600)} of one slot left to train"
    return text + (f" (and {unknown} runs whose pace nobody has measured)" if unknown else "")


def ask(
    space: Workspace,
    kind: Literal["cancel", "retry"],
    chosen: Sequence[Chosen],
    *,
    fresh: bool,
    yes: bool,
) -> None:
    """Write the request, after a question where it touches many runs."""
    if len(chosen) >= ASK_FROM:
        confirm(f"{kind} {len(chosen)} runs?", yes=yes, otherwise="nothing was asked for; say --yes to go on")
    write_request(space, kind, {one.run: one.attempts for one in chosen}, fresh=fresh)
