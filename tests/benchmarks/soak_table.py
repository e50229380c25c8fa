"""The soak's verdict: one table, and every fault in words."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table
from soak_chaos import KINDS, STARTING
from soak_count import Plan, Tally, count, differing, differing_weights, results, story

from jobs.workspace import Workspace


@dataclass
class Outcome:
    """One sweep that has ended. ``weights``: see ``soak_watch.Watch``; ``more``: whatever else is to be told."""

    root: str
    seconds: float
    cpu: dict[str, float]
    weights: Mapping[tuple[str, int], set[str]]
    exits: dict[str, int]
    more: dict[str, Any] = field(default_factory=dict)

    def keep(self, path: Path) -> None:
        weights = [[*key, *sorted(seen)] for key, seen in self.weights.items()]
        path.write_bytes(orjson.dumps({**vars(self), "weights": weights}))

    @staticmethod
    def load(path: Path) -> Outcome:
        data = orjson.loads(path.read_bytes())
        weights: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
        for pack, step, *seen in data.pop("weights"):
            weights[pack, step] |= set(seen)
        return Outcome(**data, weights=weights)


@dataclass
class Verdict:
    """Rows of the table, faults (any one fails the soak), and lines that explain them."""

    rows: list[tuple[str, str]]
    faults: list[str]
    story: list[str]


def judge(folder: Path, sweep: str, calm: Outcome, wild: Outcome, hits: Sequence[Mapping[str, Any]]) -> Verdict:
    """Compare what came out."""
    there, here = Workspace(Path(calm.root)), Workspace(Path(wild.root))
    plan = Plan.read(here, sweep)
    if plan != Plan.read(there, sweep):
        return Verdict([], ["the two sweeps have different plans: the undisturbed one in the folder is stale"], [])
    tally = count(here, plan)
    ours, theirs = results(here, plan), results(there, plan)
    changed = list(differing(ours, theirs))
    compared, other_weights = differing_weights(wild.weights, calm.weights, min(plan.steps.values()) + 1)
    struck = {hit["kind"] for hit in hits}
    never = [kind for kind in KINDS if kind not in struck and len(hits) >= 3 * len(KINDS)]
    faults = [
        *(f"lost: {line}" for line in tally.lost),
        *(f"twice: {line}" for line in tally.twice),
        *(f"repeated more than an interval: {line}" for line in tally.too_far_back),
        *(f"another result than undisturbed: {run}" for run in changed),
        *(f"other weights: {line}" for line in other_weights),
        *(f"left in the queue: {line}" for line in wild.more.get("left", ())),
        *(f"never hit: {kind}" for kind in never),
    ]
    if tally.not_exact:
        faults.append(f"{tally.not_exact} runs say that a resume was not exact")
    if tally.checkpoints_before_end < 2:
        faults.append(f"a run has only {tally.checkpoints_before_end} checkpoints before its end")
    if "gave up" in wild.more.get("asked", {}):
        faults.append(wild.more["asked"]["gave up"])
    named = {word.partition(":")[0] for word in (*tally.lost, *tally.twice)}
    packs = [pack for pack in plan.packs if pack in named]
    return Verdict(
        _rows(plan, tally, calm, wild, hits, len(changed), len(ours), compared), faults, list(story(here, plan, packs))
    )


def _rows(
    plan: Plan,
    tally: Tally,
    calm: Outcome,
    wild: Outcome,
    hits: Sequence[Mapping[str, Any]],
    changed: int,
    results: int,
    compared: int,
) -> list[tuple[str, str]]:
    at_work = [hit for hit in hits if hit.get("step", STARTING) != STARTING]
    rows = [
        ("runs, packs", f"{tally.runs:,} in {len(plan.packs)} packs"),
        ("lost runs", str(len(tally.lost))),
        ("duplicated", str(len(tally.twice))),
        ("finished", f"{sum(n == 1 for n in tally.finished.values()):,} exactly once"),
        ("hits", f"{len(hits)}, each on something alive; {len(at_work)} on a pack between two steps of its training"),
    ]
    rows += [(f"  {kind}", str(n)) for kind, n in sorted(Counter(h["kind"] for h in hits).items())]
    rows += [("attempts", f"{sum(tally.attempts.values())}, {tally.interruptions} of them interrupted")]
    rows += [(f"  {how}", str(n)) for how, n in tally.attempts.most_common()]
    share = [100 * n / tally.useful for n in (tally.again_least, tally.again_most)]
    per_run = [n / tally.runs for n in (tally.again_least, tally.again_most)]
    rows += [
        ("steps repeated", f"{tally.again_least:,} to {tally.again_most:,} of {tally.useful:,}"),
        ("  share of all steps", f"{share[0]:.2f} to {share[1]:.2f} %"),
        ("  a run", f"{per_run[0]:.1f} to {per_run[1]:.1f}; the worst {tally.worst_run}"),
        ("  behind a checkpoint", f"{len(tally.too_far_back)} (an interval is {plan.interval} steps)"),
        ("words of a second live copy", f"{tally.ignored}, ignored"),
        ("results unlike undisturbed", f"{changed} of {results:,} (summary and curve, bit by bit)"),
        ("checkpoints compared", f"{compared:,} by sha256 of their tensors"),
        ("launcher", ", ".join(f"{n} x {how}" for how, n in sorted(wild.exits.items()))),
        ("asked of a person", str(len(wild.more.get("asked", {})) or "nothing")),
        ("wall", f"{wild.seconds:.0f} s, undisturbed on this machine {calm.seconds:.0f} s"),
    ]
    for kind in sorted({*calm.cpu, *wild.cpu}):
        was, is_now = calm.cpu.get(kind, 0.0), wild.cpu.get(kind, 0.0)
        more = f" ({100 * (is_now / was - 1):+.0f} %)" if was else ""
        rows.append((f"CPU of {kind}", f"{is_now:.0f} s, undisturbed {was:.0f} s{more}"))
    return rows


def show(verdict: Verdict) -> None:
    """Print it."""
    table = Table(title="Soak", show_header=False)
    table.add_column("what")
    table.add_column("found")
    for row in verdict.rows:
        table.add_row(*row)
    console = Console(width=120)
    console.print(table)
    for line in [*verdict.faults, *verdict.story]:
        console.print(line, markup=False, highlight=False)
    console.print("FAILED" if verdict.faults else "Nothing was lost, nothing ran twice.", highlight=False)
