"""What `retry` and `cancel` share: how runs are chosen, shown, asked about, and how the request is written."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import click
from rich.console import Console
from rich.text import Text

from jobs.checkpoint import KEEP
from jobs.state import RunState
from jobs.workspace import Workspace
from orchestrator.cli.again import last_backend
from orchestrator.cli.common import confirm, resolve_sweep, share_files
from orchestrator.cli.units import clip, hours, plural, size
from orchestrator.cost import devices_of, unit_of
from orchestrator.job_limits import Ask
from orchestrator.requests import write_request
from orchestrator.resume import Resume
from orchestrator.selection import Choice, Chosen, Selection, select

ASK_FROM = 10
"""So many runs and more are not touched without a question."""
STYLES = {"refused": "bold red", "not exact": "yellow", "exact": "green"}


def choose(
    space: Workspace,
    runs: Sequence[str],
    sweep: str | None,
    failures: Sequence[str],
    labels: Sequence[str],
    states: Sequence[RunState],
    *,
    need_one: bool,
) -> Choice:
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


def preview(
    space: Workspace,
    choice: Choice,
    limit: int,
    resumes: Mapping[str, Resume] | None,
    asks: Mapping[str, Ask] | None = None,
) -> None:
    """Show packs and what would become of them; for a retry ``resumes`` (pack -> where it goes on) and ``asks`` (pack
    -> what it would ask for)."""
    console = Console(highlight=False)
    packs = choice.packs
    for pack, chosen in list(packs.items())[: limit or None]:
        _show_pack(console, pack, chosen, None if resumes is None else resumes[pack])
        _show_ask(console, (asks or {}).get(pack) or Ask())
    if limit and len(packs) > limit:
        console.print(f"[dim]and {len(packs) - limit} more packs (--limit 0 shows all)[/dim]")
    classes = Counter(str(one.verdict.failure) for one in choice.runs if one.verdict.failure)
    said = ", ".join(f"{count} {name}" for name, count in classes.most_common())
    total = f"{plural(len(choice.runs), 'run')} in {plural(len(packs), 'pack')}"
    console.print(Text(total, style="bold") + Text(f" ({said})" if said else ""))
    if resumes is not None:
        verdicts = Counter(resumes[pack].verdict for pack in packs)
        console.print(f"resumes: {', '.join(f'{count} {name}' for name, count in verdicts.most_common())}")
        for line in _remaining(space, choice, resumes):
            console.print(line)


def _show_pack(console: Console, pack: str, chosen: Sequence[Chosen], resume: Resume | None) -> None:
    states = Counter(str(one.verdict.failure or one.verdict.state) for one in chosen)
    line = Text(f"{pack}  {plural(len(chosen), 'run')}, {', '.join(states)}")
    if resume is not None:
        steps = max(one.steps for one in chosen)
        line.append(f"  from step {resume.step:,}{f' of {steps:,}' if steps else ''}  ", style="default")
        line.append(resume.verdict, style=STYLES.get(resume.verdict, "default"))
        if resume.verdict == "fresh":
            line.append(f", {resume.why}", style="dim")
    console.print(line, soft_wrap=True)
    room = console.width - 4
    labels = {name: [str(one.labels.get(name)) for one in chosen] for name in chosen[0].labels}
    told = " ".join(f"{name}={','.join(dict.fromkeys(values))}" for name, values in labels.items())
    console.print(Text(f"    {clip(told, room)}", style="dim"))
    if resume is not None and resume.why and resume.verdict != "fresh":
        console.print(Text(f"    {resume.why}", style=STYLES.get(resume.verdict, "dim")), soft_wrap=True)
    for passed in () if resume is None else resume.passed:
        console.print(Text(f"    passes over {clip(passed, room - 12)}", style="dim"))


def _show_ask(console: Console, ask: Ask) -> None:
    lines = [(ask.limit.words, "dim"), *((note, "yellow") for note in ask.limit.notes)] if ask.limit else []
    lines += [(f"memory: {ask.memory.words}", "yellow")] if ask.memory else []
    for words, style in lines:
        console.print(Text(f"    {words}", style=style), soft_wrap=True)


def _remaining(space: Workspace, choice: Choice, resumes: Mapping[str, Resume]) -> Iterable[str]:
    """Members of a pack go on together, so a pack costs its longest member."""
    seconds = room = 0.0
    unknown = 0
    for pack, chosen in choice.packs.items():
        pace, steps = chosen[0].seconds_per_step, max(one.steps for one in chosen)
        if pace is None or not steps:
            unknown += len(chosen)
        else:
            left = max(0, steps - resumes[pack].step)
            seconds += left * pace * devices_of(chosen[0].pack.resources)
        room += KEEP * sum(one.checkpoint_bytes for one in chosen)
    unit = unit_of(one.pack.resources for one in choice.runs)
    unmeasured = f"{plural(unknown, 'run')} whose pace nobody has measured"
    if unknown == len(choice.runs):
        yield f"how long it takes is not known: {unmeasured}"
    else:
        yield f"about {hours(seconds / 3600)} of one {unit} left to train" + (f" (and {unmeasured})" if unknown else "")
    free = shutil.disk_usage(space.root).free
    yield f"checkpoints need up to {size(room)}; {size(free)} are free"


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
    share_files(last_backend(space))
    write_request(space, kind, {one.run: one.attempts for one in chosen}, fresh=fresh)
