"""Values kept item by item: one value per run, and the error of having drawn just these items."""

import math
from collections.abc import Sequence
from dataclasses import replace

from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.resampling import item_variance
from sweeps.analysis.results import Result


def per_run(results: Sequence[Result]) -> list[Result]:
    """Average the items of each run; runs without items are kept as they are.

    A run one of whose items has no value has none either.

    Raises:
        AnalysisError: runs of one task that were not scored on the same items.
    """
    runs: dict[tuple, list[Result]] = {}
    for r in results:
        runs.setdefault((r.arm, r.task, r.scale, r.search, r.seed), []).append(r)
    items: dict[tuple, frozenset] = {}
    averaged = []
    for (arm, task, scale, _, seed), members in runs.items():
        mine = frozenset(r.item for r in members)
        if mine == {None}:
            averaged += members
            continue
        if items.setdefault((task, scale), mine) != mine:
            apart = next(iter(sorted(str(i) for i in items[task, scale] ^ mine)))
            raise AnalysisError(
                f"arm {arm!r}, task {task!r}, seed {seed}: item {apart!r} is not in every run; "
                "compare runs on the same items"
            )
        absent = next((r for r in members if r.value is None), None)
        value = None if absent is not None else math.fsum(r.value or 0.0 for r in members) / len(members)
        reason = None if absent is None else f"{absent.reason or 'no value'}, item {absent.item}"
        averaged.append(replace(members[0], item=None, value=value, reason=reason))
    return averaged


def item_error(results: Sequence[Result], arm: str, baseline: str, task: str, scale: str | None = None) -> float | None:
    """Standard error of a difference from drawing the items, paired by item; None without two items.

    It is not in the verdicts, which speak of these items; it says how far they reach to new ones.
    """
    tables = []
    for name in (arm, baseline):
        members = [r for r in results if (r.arm, r.task, r.scale) == (name, task, scale) and r.item is not None]
        runs: dict[tuple, dict[str | None, float]] = {}
        for r in members:
            if r.value is not None:
                runs.setdefault((r.search, r.seed), {})[r.item] = r.value
        if not runs:
            return None
        tables.append(list(runs.values()))
    common = sorted(set.intersection(*(set(run) for side in tables for run in side)), key=str)
    if len(common) < 2:
        return None
    ours, theirs = ([[run[i] for i in common] for run in side] for side in tables)
    return math.sqrt(item_variance([ours], [theirs]))
