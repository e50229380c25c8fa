"""How a comparison is shown: a table, the verdicts in words, JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sweeps.analysis.sentences import of_comparison

if TYPE_CHECKING:
    from orchestrator.cli.comparing import Loaded
    from sweeps.analysis.audit import AuditLine
    from sweeps.analysis.beside import CombinedTasks, Drawn
    from sweeps.analysis.checklist import Item
    from sweeps.analysis.comparison import Comparison
    from sweeps.analysis.floor import Floor
    from sweeps.analysis.options import Options
    from sweeps.analysis.results import Result
    from sweeps.analysis.verdict import Verdict

WIDE = 160
MORE = (
    "'More would decide' holds if the difference seen is the true one, with 80 % power; "
    "seeds added because of it are a further look (--look)."
)
DRAWN = "'drawn' is a bootstrap interval for a figure: with few seeds it is too narrow, and it decides nothing."
DRAWS = 20_000
"""Simulated audits behind the error that the protocol's view names."""
Audits = dict[tuple[str, str | None], list["AuditLine"]]
"""Task and scale -> the audit's lines."""


def show(
    found: Comparison,
    table: Loaded,
    combined: Sequence[CombinedTasks] = (),
    drawn: Sequence[Drawn | None] | None = None,
) -> None:
    """Three sentences, a table, arms over their tasks, the noise floors, and every verdict in full."""
    console = _console()
    for sentence in of_comparison(found, table.metric):
        console.print(sentence)
    for note in table.notes:
        console.print(f"[yellow]{note}[/yellow]")
    console.print()
    several = len({(v.task, v.scale) for v in found.verdicts}) > 1
    _show_grid(console, found.verdicts, table.groups, drawn)
    if any(v.more is not None for v in found.verdicts):
        console.print(MORE, style="dim")
    if drawn is not None:
        console.print(DRAWN, style="dim")
    console.print()
    if combined:
        _show_combined(console, combined)
    for floor in found.floors:
        console.print(_floor(floor, table.groups))
    console.print()
    for v in found.verdicts:
        console.print(f"{_where(v, several, table.groups)}: {v.words}", markup=False)


def _show_grid(
    console: Console, verdicts: Sequence[Verdict], groups: str, drawn: Sequence[Drawn | None] | None
) -> None:
    """A row a verdict. What a narrow terminal has no room for is left to the words below: they hold all of it."""
    columns: dict[str, list[str]] = {
        groups: [v.task for v in verdicts],
        "scale": [v.scale or "" for v in verdicts],
        "arm": [v.arm for v in verdicts],
        "n": [f"{v.n} v {v.n_baseline}" for v in verdicts],
        "difference": [_number(v.difference, "+.3g") for v in verdicts],
        "interval, alone": [
            "" if v.low is None or v.high is None else f"{v.low:+.3g} to {v.high:+.3g}" for v in verdicts
        ],
        "drawn": [] if drawn is None else [_drawn(d) for d in drawn],
        "p": [_p(v.p) for v in verdicts],
        "corrected": [_p(v.p_adjusted) for v in verdicts],
        "verdict": [v.headline for v in verdicts],
    }
    alone = {groups: len(set(columns[groups])) == 1, "scale": not any(columns["scale"]), "drawn": drawn is None}
    shown = {name: column for name, column in columns.items() if not alone.get(name)}
    for sacrifice in ("verdict", "p", "interval, alone", "n"):
        if sum(max(map(len, [name, *column]), default=0) + 2 for name, column in shown.items()) <= console.width + 2:
            break
        if sacrifice == "verdict":
            shown["verdict"] = [v.verdict for v in verdicts]
        else:
            shown.pop(sacrifice, None)
    grid = Table(box=None, pad_edge=False, header_style="dim")
    for name in shown:
        words = name in (groups, "scale", "arm", "verdict")
        grid.add_column(name, justify="left" if words else "right", no_wrap=not words, overflow="fold")
    for row in zip(*shown.values(), strict=True):
        grid.add_row(*map(Text, row))
    console.print(grid)


def plain(
    found: Comparison, table: Loaded, combined: Sequence[CombinedTasks], drawn: Sequence[Drawn | None]
) -> dict[str, Any]:
    """Everything as plain data; ``drawn`` has an entry a verdict."""
    from sweeps.analysis.beside import ANTI_CONSERVATIVE

    return {
        "source": table.source,
        "metric": table.metric,
        "options": asdict(found.options),
        "level": found.level,
        "exploratory": found.exploratory,
        "notes": list(table.notes),
        "sentences": list(of_comparison(found, table.metric)),
        "verdicts": [
            asdict(v) | {"headline": v.headline, "words": v.words} | _plain_drawn(d)
            for v, d in zip(found.verdicts, drawn, strict=True)
        ],
        "combined": [asdict(row) | {"independent_is": ANTI_CONSERVATIVE, "decides": False} for row in combined],
        "floors": [asdict(floor) for floor in found.floors],
    }


def show_checklist(items: Sequence[Item]) -> None:
    """One line a rule, and how many are met."""
    console = _console()
    colour = {"met": "green", "lacking": "red", "unknown": "yellow"}
    grid = Table(box=None, pad_edge=False, show_header=False)
    for item in items:
        grid.add_row(item.code, f"[{colour[item.state]}]{item.state}[/]", item.asks, item.why)
    console.print(grid)
    states = [item.state for item in items]
    console.print(
        f"\n{states.count('met')} met, {states.count('lacking')} lacking, {states.count('unknown')} not to be seen here"
    )


def plain_checklist(items: Sequence[Item]) -> list[dict[str, Any]]:
    return [asdict(item) for item in items]


def audits(results: Sequence[Result], options: Options) -> Audits:
    """The audit's rule, task by task and scale by scale, over all arms with values."""
    from sweeps.analysis.audit import audit
    from sweeps.analysis.errors import AnalysisError
    from sweeps.analysis.results import checked

    clean = [r for r in checked(results) if r.value is not None and not r.diverged]
    if options.baseline not in {r.arm for r in clean}:
        raise AnalysisError(f"baseline {options.baseline!r} has no value; give --baseline an arm that has")
    found: Audits = {}
    for group in sorted({(r.task, r.scale) for r in clean}, key=lambda g: (g[0], g[1] or "")):
        arms: dict[str, list[float]] = {}
        for r in clean:
            if (r.task, r.scale) == group and r.value is not None:
                arms.setdefault(r.arm, []).append(r.value)
        baseline = arms.pop(options.baseline, [])
        found[group] = audit(arms, baseline, options.family, options.alpha)
    return found


def show_audits(found: Audits, options: Options, results: Sequence[Result]) -> None:
    """The published columns, and the small-sample t that they leave out."""
    from sweeps.analysis.audit import realised_error, uncorrected_error
    from sweeps.analysis.corrections import critical_z

    console = _console()
    for (task, scale), lines in found.items():
        size = options.family or len(lines)
        console.print(f"{task}{'' if scale is None else f' at {scale}'}: z against the baseline's sd, family of {size}")
        grid = Table(box=None, pad_edge=False, header_style="dim")
        for name in ("arm", "z", "p", "Bonferroni", "Sidak", "audit says", "t", "df", "t, Bonferroni"):
            grid.add_column(name, justify="left" if name in ("arm", "audit says") else "right", no_wrap=True)
        for a in lines:
            says = "survives" if a.survives else "within noise" if a.inside else "not significant"
            t = [f"{a.t.statistic:.2f}", f"{a.t.df:.0f}", _p(min(1.0, size * a.t.p))] if a.t else ["", "", ""]
            grid.add_row(a.arm, f"{a.z:+.2f}", _log(a.p, a.log_p), _log(a.p_bonferroni, a.log_p_bonferroni),
                         _log(a.p_sidak, a.log_p_bonferroni), says, *t)  # fmt: skip
        console.print(grid)
        for arm, why in _left_out(results, task, scale).items():
            console.print(f"{arm}: left out, {why}", style="yellow", markup=False)
        survive = (critical_z(options.alpha, size, kind) for kind in ("bonferroni", "sidak"))
        console.print(
            f"|z| beyond {next(survive):.3f} survives ({next(survive):.3f} by Sidak). "
            f"Uncorrected, a false flag somewhere has probability {uncorrected_error(size, options.alpha):.4f}."
        )
        seeds = int(lines[0].t.df) + 1 if lines and lines[0].t else 0
        if seeds > 1:
            real = realised_error(arms=size, baseline_seeds=seeds, draws=DRAWS, alpha=options.alpha)["family_wise"]
            console.print(
                f"The rule takes the sd of {seeds} baseline seeds as known: of {size} arms of one run, none of which "
                f"differs, it calls one different with a chance of {real:.2f}, not {options.alpha:g} (simulated).\n"
            )


def plain_audits(found: Audits, results: Sequence[Result]) -> list[dict[str, Any]]:
    """A row an arm; ``left_out`` says which of its runs the rule does not see, also of arms it does not see at all."""
    rows = []
    for (task, scale), lines in found.items():
        lost = _left_out(results, task, scale)
        rows += [{"task": task, "scale": scale, **asdict(a), "left_out": lost.pop(a.arm, None)} for a in lines]
        rows += [{"task": task, "scale": scale, "arm": arm, "left_out": why} for arm, why in lost.items()]
    return rows


def _left_out(results: Sequence[Result], task: str, scale: str | None) -> dict[str, str]:
    """Arm -> which of its runs have no value that the audit's rule could take, and why."""
    from sweeps.analysis.results import checked, without_value

    gone: dict[str, list[Result]] = {}
    for r in checked(results):
        if (r.task, r.scale) == (task, scale) and (r.value is None or r.diverged):
            gone.setdefault(r.arm, []).append(replace(r, value=None, reason=r.reason or "diverged"))
    return {arm: without_value(runs) for arm, runs in sorted(gone.items())}


def _show_combined(console: Console, combined: Sequence[CombinedTasks]) -> None:
    from sweeps.analysis.beside import ANTI_CONSERVATIVE

    console.print("over the tasks (Stouffer, positive is better, p two-sided and not corrected over arms):")
    for row in combined:
        text = f"  {row.arm}{'' if row.scale is None else f' at {row.scale}'}, {len(row.tasks)} tasks:"
        if row.z is not None and row.correlation is not None:
            text += f" Z = {row.z:+.2f}, p {_p(row.p)}, mean correlation {row.correlation:.2f}"
            text += f" ({row.correlation_df} df);"
        if row.z_independent is not None:
            text += f" if independent Z = {row.z_independent:+.2f}, p {_p(row.p_independent)}"
        console.print(text + ("" if row.reason is None else f" ({row.reason})"), markup=False)
    console.print(f"'If independent' is {ANTI_CONSERVATIVE}.\n", style="dim")


def _drawn(d: Drawn | None) -> str:
    return "" if d is None else f"{d.interval.low:+.3g} to {d.interval.high:+.3g}"


def _plain_drawn(d: Drawn | None) -> dict[str, Any]:
    """The interval apart from what it is: ``drawn.decides`` is false whatever the number of seeds."""
    if d is None:
        return {"drawn_interval": None, "drawn": None}
    i = d.interval
    about = {"decides": False, "resampled": list(d.levels), "enumerated": i.enumerated, "outcomes": i.outcomes}
    return {"drawn_interval": [i.low, i.high], "drawn": about}


def _floor(floor: Floor, groups: str) -> str:
    where = _place(floor.task, groups) + ("" if floor.scale is None else f" at {floor.scale}")
    text = f"noise floor of {where}: baseline {floor.baseline:.4g} (n = {floor.n}"
    text += "" if floor.own is None else f", sd {floor.own.sd:.3g} [{floor.own.low:.3g}, {floor.own.high:.3g}]"
    text += ")"
    if floor.pooled is not None:
        text += f", sd pooled over the arms {floor.pooled.sd:.3g} with {floor.pooled.df:g} df"
    if floor.search_sd is not None:
        text += f", between searches {floor.search_sd:.3g}"
    if floor.detectable is not None:
        text += f"; effects from {floor.detectable:.3g} are seen with 80 % power {floor.detectable_by}"
    return text


def _place(task: str, groups: str) -> str:
    """A task by its name; a level of another factor with that factor's: ``lr 0.003``."""
    return task if groups == "task" else f"{groups} {task}"


def _where(v: Verdict, several: bool, groups: str) -> str:
    place = f" on {_place(v.task, groups)}{'' if v.scale is None else f' at {v.scale}'}" if several else ""
    return v.arm + place


def _console() -> Console:
    console = Console(highlight=False)
    if not console.is_terminal:  # into a file or a pipe nothing needs to be folded
        console = Console(highlight=False, soft_wrap=True, width=max(console.width, WIDE))
    return console


def _number(value: float | None, spec: str) -> str:
    return "" if value is None else format(value, spec)


def _p(p: float | None) -> str:
    return "" if p is None else f"{p:.3g}" if p > 0 else "< 1e-300"


def _log(p: float, log_p: float) -> str:
    """A p-value, or its power of ten where a double cannot hold it (Sidak's is Bonferroni's there)."""
    return f"{p:.3g}" if p > 0 else f"1e{log_p / 2.302585092994046:.0f}"
