"""Decoupling task by task: an arm may follow its loss on the mean of the tasks and not on one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dashboards.loss_plane import OnTask, Placed, Plane
from dashboards.sheet import Entry, Section, Table
from dashboards.words import counted, short

FAR = -2.0
"""Index below which a metric falls by more than the loss says."""


def tasks_section(found: Sequence[OnTask]) -> Section | None:
    """The index of every arm on every task; None where there is one task or none."""
    arms = list(dict.fromkeys(p.arm for task in found if task.plane for p in task.plane.placed))
    if not arms:
        return None
    rows = [(arm, *(_entry(task, arm) for task in found)) for arm in arms]
    far = sum(p.found is not None and p.found.index < FAR for task in found if task.plane for p in task.plane.indexed)
    slopes = [f"{t.task} {short(t.plane.beta)}" for t in found if t.plane is not None and t.plane.beta is not None]
    lacking = [f"{t.task}: {t.reason or (t.plane.no_slope if t.plane else None)}" for t in found if _lacks(t)]
    notes = [
        "Index: what is left of the difference after what the loss predicts, over its standard error; below it the "
        "difference. Each task has its own slope; nothing here is corrected for the number of entries."
    ]
    notes += [f"Slopes, a percent: {', '.join(slopes)}."] if slopes else []
    notes += [f"Without an index: {'; '.join(lacking)}."] if lacking else []
    table = Table(
        ("arm", *(t.task for t in found)), tuple(rows), "l" + "r" * len(found), "Decoupling by task", name="tasks"
    )
    return Section(
        "Task by task", f"{far} of {counted(len(arms) * len(found), 'entry', 'entries')} fall further than their loss",
        parts=(table,), notes=tuple(notes),
    )  # fmt: skip


def tasks_content(found: Sequence[OnTask]) -> dict[str, Any]:
    """Task -> slope, and index and difference of every arm."""
    return {
        t.task: {"slope": None, "reason": t.reason, "arms": {}} if t.plane is None else {
            "slope": t.plane.beta, "reason": t.plane.no_slope,
            "arms": {p.arm: {"index": None if p.found is None else p.found.index, "loss_percent": p.loss.percent,
                             "difference": p.verdict.difference if p.verdict else None} for p in t.plane.placed},
        }
        for t in found
    }  # fmt: skip


def _lacks(task: OnTask) -> bool:
    return task.plane is None or task.plane.beta is None


def _entry(task: OnTask, arm: str) -> Entry:
    placed = _placed(task.plane, arm)
    difference = None if placed is None or placed.verdict is None else placed.verdict.difference
    if task.plane is None or placed is None or difference is None:
        return Entry("none", kind="empty")
    if placed.found is None or task.plane.fitted == (arm,):
        return Entry("sets the slope" if task.plane.fitted == (arm,) else "none", short(difference), kind="empty")
    kind = "bad" if placed.found.index < FAR else ""
    return Entry(f"{placed.found.index:+.1f}".replace("-", "−"), short(difference), kind=kind)


def _placed(plane: Plane | None, arm: str) -> Placed | None:
    return next((p for p in plane.placed if p.arm == arm), None) if plane is not None else None
