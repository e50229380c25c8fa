"""Closing an attempt that ended without a word: gather the evidence, have it judged, link ``closed.json``."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any, Literal

from jobs.facts import FailureClass, close_attempt
from jobs.failures import Evidence, judge
from jobs.workspace import AttemptDir
from orchestrator.decide import Close
from orchestrator.history import AttemptView

LOG_TAIL_BYTES = 16384
_WORDLESS = frozenset({FailureClass.LOST, FailureClass.LAUNCH_FAILED, FailureClass.UNKNOWN})
"""What an attempt is judged to be that left nothing behind."""
_OUTCOMES: dict[FailureClass, Literal["cancelled", "preempted", "lost"]] = {
    FailureClass.CANCELLED: "cancelled",
    FailureClass.PREEMPTED: "preempted",
    FailureClass.LOST: "lost",
    FailureClass.NODE_FAILURE: "lost",
}


def read_tail(path: Path, size: int = LOG_TAIL_BYTES) -> str:
    """The last part of a log, decoded somehow; "" where there is none."""
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - size))
        return file.read().decode(errors="replace")
    return ""


def rank_of(view: AttemptView) -> int:
    """Which of an attempt's processes its end is told of: the first to fail."""
    return int((view.ended or {}).get("rank", 0))


def evidence_of(view: AttemptView, place: AttemptDir, now: float) -> Evidence:
    """All that is known of how an attempt ended. ``now``: the clock of the view's times."""
    ended, report = view.ended or {}, view.report
    return Evidence(
        exit_code=ended.get("code", report.exit_code if report else None),
        signal=ended.get("signal", report.signal if report else None),
        log_tail=read_tail(place.of_rank(place.log, rank_of(view))),
        cause=report.cause if report else None,
        word=report.word if report else "",
        reason=report.reason if report else "",
        claimed=view.begun,
        checkpointed=view.checkpoint is not None or view.first_step > 0,
        heartbeat_silent_s=now - view.pulse.changed if view.pulse.beat >= 0 else None,
        median_step_s=view.pulse.median_step_s,
        hang_floor_s=view.hang_floor_s,
    )


def close_by_evidence(action: Close, view: AttemptView, place: AttemptDir, now: float, *, full: bool = False) -> bool:
    """Link ``closed.json`` for an attempt. Returns whether it is our record that stands.

    Args:
        full: the disk was full while it was alive, so that it may have been kept from leaving a word.
    """
    shown: dict[str, Any] = {"reason": action.reason}
    if view.ended is not None:
        shown["exit"] = dict(view.ended)
    if view.report is not None:
        shown["word"], shown["why"] = view.report.word, view.report.reason
    if view.placed:
        shown["node"] = view.placed
    step = view.checkpoint
    if view.carried and all(run in view.finished for run in view.carried):
        message = f"every run had finished; {action.reason}"
        step = max(view.step, *(end.step for end in view.finished.values()))
        return close_attempt(place, by="loop", outcome="completed", message=message, step=step, evidence=shown)
    if action.cancelled:
        failure, message = FailureClass.CANCELLED, action.reason
    elif action.failure is not None:
        failure, message = action.failure, action.reason
    else:
        failure, message = judge(evidence_of(view, place, now))
        if full and failure in _WORDLESS:
            failure, message = FailureClass.DISK, f"the disk was full meanwhile; {message}"
        if (view.ended or {}).get("ranks", 1) > 1:
            message = f"rank {rank_of(view)}: {message}"
    return close_attempt(
        place,
        by="loop",
        outcome=_OUTCOMES.get(failure, "failed"),
        failure=failure,
        message=message,
        step=step,
        evidence=shown,
    )
