"""The analysis block a report follows, and every way in which it departs from the one that was frozen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jobs.durable import read_json
from jobs.workspace import Workspace
from sweeps.schema import Analysis
from sweeps.tables import Columns


def analysis_block(
    root: Path, sweep: str, runs: Columns, asked: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str], list[str]]:
    """The block to follow, the departures from the frozen one, and notes.

    The frozen block stands (``frozen.json``; before the first launch, the planned one); what a person asked for
    otherwise is followed and named as a departure.
    """
    planned = dict(runs.plan.get("analysis") or {})
    frozen = read_json(Workspace(root).frozen(sweep))
    notes = []
    if frozen is None:
        base = planned
        notes.append("The analysis block is not frozen yet: nothing of this sweep was launched by the loop.")
    else:
        base = dict(frozen.get("analysis", frozen))
        changed = sorted(k for k in base.keys() | planned.keys() if base.get(k) != planned.get(k))
        if changed:
            notes.append(
                f"The sweep file's analysis block was changed after launch ({', '.join(changed)}): ignored here."
            )
    block = base | {k: v for k, v in asked.items() if v is not None}
    departures = [
        f"{name} = {block[name]!r}, planned {base.get(name, 'unset')!r}"
        for name in sorted(block)
        if block[name] != base.get(name)
    ]
    used = {"test": "nested_t", "correction": "holm", "sigma": "pooled", "family": "matrix"}
    departures += [
        f"decided with {name} {value}, planned {base[name]}"
        for name, value in used.items()
        if base.get(name, value) != value
    ]
    return block, departures, notes


def planned_options(block: Mapping[str, Any]) -> dict[str, Any]:
    """What a block says of the comparison of arms, as keywords of `sweeps.analysis.options.Options`.

    ``nested_t`` with Holm and a pooled sigma, a block's defaults, is the transfer matrix's rule and stands there
    beside a guard; alone it does not keep its level where spreads differ. Where a block says no more, arms are
    compared by the default rule of docs/statistics.md.
    """
    test = block.get("test") or "nested_t"
    found: dict[str, Any] = {
        "alpha": float(block.get("alpha") or 0.05),
        "margin": block.get("margin"),
        "lower_is_better": block.get("goal") == "min",
        "paired": test == "paired_t",
    }
    for name in ("correction", "sigma"):
        value = block.get(name)
        if value is not None and (test != "nested_t" or value != Analysis.model_fields[name].default):
            found[name] = str(value)
    if test == "dunnett":
        found["correction"] = "dunnett"
    if test == "welch":
        found["sigma"] = "own"
    return found
