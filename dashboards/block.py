"""The analysis block a report follows, and every way in which it departs from the one that was frozen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jobs.durable import read_json
from jobs.workspace import Workspace
from sweeps.schema import Analysis
from sweeps.tables import Columns

UNDECIDING = ("permutation", "audit")
"""Tests that a plan could name once, and that decide nothing: both stand beside the verdicts."""


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
        keys = (base.keys() | planned.keys()) - {"written"}
        changed = sorted(k for k in keys if base.get(k) != planned.get(k))
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
    if base.get("test") in UNDECIDING:  # frozen before a sweep file refused them
        departures.append(f"decided with t tests, planned {base['test']}")
    return block, departures, notes


def matrix_departures(block: Mapping[str, Any]) -> list[str]:
    """In what a block differs from the transfer matrix's own rule, which decides a matrix whatever it says."""
    used = {"test": "nested_t", "correction": "holm", "sigma": "pooled", "family": "matrix"}
    return [
        f"decided with {name} {value}, planned {block[name]}"
        for name, value in used.items()
        if (block.get(name) or value) != value and block[name] not in UNDECIDING
    ]


def planned_options(block: Mapping[str, Any]) -> dict[str, Any]:
    """What a block says of the comparison of arms, as keywords of `sweeps.analysis.options.Options`.

    A test, a correction and a sigma that the file names decide. Its defaults (``nested_t``, Holm, a pooled sigma) are
    the transfer matrix's rule, which has a guard there and does not keep its level without one where spreads differ,
    so that where a file names none, arms are compared by the default rule of docs/statistics.md. Plans that do not say
    what was written are read as if their defaults were not.
    """
    test = block.get("test") or "nested_t"
    found: dict[str, Any] = {
        "alpha": float(block.get("alpha") or 0.05),
        "margin": block.get("margin"),
        "lower_is_better": block.get("goal") == "min",
        "paired": test == "paired_t",
    }
    written = block.get("written")
    for name in ("correction", "sigma"):
        value = block.get(name)
        named = value != Analysis.model_fields[name].default if written is None else name in written
        if value is not None and named:
            found[name] = str(value)
    if test == "dunnett":
        found["correction"] = "dunnett"
    if test == "welch":
        found["sigma"] = "own"
    return found
