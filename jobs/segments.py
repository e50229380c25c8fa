"""Metric rows of several attempts joined into one curve: a later attempt's rows win from its first step on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Segment:
    """What one attempt left.

    Attributes:
        start: step it began at (its ``started`` fact; 0 for a fresh start).
        active: runs it trained; masked members (``Launch`` member ``done``) are not among them.
        rows: its ``metrics.jsonl``.
    """

    start: int
    active: Collection[str]
    rows: Sequence[dict[str, Any]]


def merge_segments(segments: Iterable[Segment]) -> list[dict[str, Any]]:
    """One row per (run, step), ordered by run and step; rows of one step are joined key by key.

    Args:
        segments: in the order of the attempts.
    """
    merged: dict[str, dict[int, dict[str, Any]]] = {}
    for segment in segments:
        active = frozenset(segment.active)
        for run in active & merged.keys():
            kept = {step: row for step, row in merged[run].items() if segment.start and step <= segment.start}
            merged[run] = kept
        for row in segment.rows:
            if row["run"] in active:
                merged.setdefault(row["run"], {}).setdefault(row["step"], {}).update(row)
    return [rows[step] for _, rows in sorted(merged.items()) for step in sorted(rows)]
