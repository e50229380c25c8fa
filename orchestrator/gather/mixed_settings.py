"""Columns that read as settings and differ between the runs of one arm: are those runs of one kind?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple

from orchestrator.gather.read_table import Row, TableColumns

SETTINGS = frozenset((
    *("lr", "learning_rate", "rate", "warmup", "warmup_steps", "optimizer", "weight_decay", "wd", "momentum"),
    *("dropout", "batch", "batch_size", "steps", "max_steps", "num_steps", "epochs", "precision", "dtype"),
    *("width", "depth", "layers", "n_layers", "num_layers", "d_model", "hidden", "params"),
    *("dataset", "data", "split", "prompt", "shots", "n_shots", "temperature"),
    *("commit", "git_commit", "git_sha", "revision", "version"),
))  # fmt: skip
"""Names, in lower case, that people give to settings."""


def mixed_settings(rows: Sequence[Row], columns: TableColumns) -> list[str]:
    """Words for each settings column that the comparison does not use and that differs within an arm.

    A remark and no refusal: nobody said that the column decides the result.
    """
    used = set(astuple(columns))
    names = [n for n in dict.fromkeys(n for row in rows for n in row.values) if n not in used and n.lower() in SETTINGS]
    remarks = []
    for name in names:
        found: dict[tuple, list[str]] = {}
        for row in rows:
            values = row.values
            place = tuple(str(values.get(c)) for c in (columns.arm, columns.scale, columns.task) if c is not None)
            level = str(values.get(name))
            if level not in found.setdefault(place, []):
                found[place].append(level)
        mixed = {place[0]: levels for place, levels in found.items() if len(levels) > 1}
        if mixed:
            arm, levels = next(iter(mixed.items()))
            several = f" (and {len(mixed) - 1} more)" if len(mixed) > 1 else ""
            remarks.append(
                f"{name} differs between the runs of arm {arm!r}{several}: {', '.join(levels[:4])}; "
                f"choose with --where {name}=..."
            )
    return remarks
