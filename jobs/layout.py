"""How a checkpoint depends on the number of processes that wrote it; what another number makes of a resume. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal

Judged = Literal["exact", "not exact", "refused"]


class Layout(StrEnum):
    """What a runner says of its checkpoints (``Session.layout``)."""

    WHOLE = "whole"
    """All of the state, and no bit of it depends on the number of processes."""
    SUMS = "sums"
    """All of the state; sums over a batch are taken in parts, so another number of processes rounds otherwise."""
    SHARDED = "sharded"
    """Each process's part of the state: another number of processes cannot read it."""


def layout_record(layout: Layout, processes: int) -> dict[str, Any]:
    """For a checkpoint's manifest."""
    return {"world_size": processes, "layout": str(layout)}


def judge_count(meta: Mapping[str, Any], now: int) -> tuple[Judged, str]:
    """(Verdict, why) for a resume by ``now`` processes of a checkpoint whose manifest holds ``meta``; why is "" where
    the verdict says it all."""
    before = int(meta.get("world_size", 1))
    layout = Layout(meta.get("layout", Layout.SUMS))
    if before == now or layout is Layout.WHOLE:
        return "exact", ""
    if layout is Layout.SUMS:
        return "not exact", f"processes {before} -> {now}"
    return "refused", (
        f"its state was saved in parts by {before} process{'es' * (before != 1)}, the plan asks for {now}; "
        f"go back to {before} or use --fresh"
    )
