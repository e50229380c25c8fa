"""How a job ended, from its rows in accounting. Pure.

The job's own row and its steps disagree: an out-of-memory kill hides in a step, and TIMEOUT or CANCELLED rows say 0:0.
The state is the job row's, the exit code the batch step's.
"""

from __future__ import annotations

import pwd
from collections.abc import Sequence
from typing import Any

from cluster.backend import JobReport, JobState
from cluster.slurm.parse import AccountRow
from cluster.slurm.states import cancelled_by, look_up

NEVER_BEGAN = "taken out of the queue by hand before it began"
"""Cancelled by somebody else while it waited: nothing was decided about the run, so it is launched again. Who wants it
gone says so with ``orchestrate cancel``."""


def verdict_of(runs: Sequence[AccountRow]) -> JobReport:
    """The last run of a job that is over, as accounting tells it."""
    row = runs[-1]
    state, cause = look_up(row.word)
    code, number = row.exit_code, row.signal
    batch = row.steps.get("batch")
    if (code, number) == (0, 0) and batch is not None and state is JobState.ENDED and row.word != "COMPLETED":
        code, number = batch[1], batch[2]  # TIMEOUT, CANCELLED and the like hide it in the job's own row
    reason = ""
    by = cancelled_by(row.word)
    if full := [name for name, step in row.steps.items() if step[0].startswith("OUT_OF_ME")]:
        cause = "out_of_memory"
        reason = "" if full == ["batch"] else f"step {full[0]} of the job ran out of memory"
    elif by is not None and by == 0 and row.blank_batch and row.elapsed_s == 0:
        cause, reason = "prolog_failed", "its prolog failed (cancelled by root before it began)"
    elif cause == "cancelled" and row.start in ("None", "Unknown"):
        cause, reason = "launch_failed", f"{NEVER_BEGAN} ({_user(by)})" if by is not None else NEVER_BEGAN
    elif by is not None:
        reason = f"cancelled by {_user(by)}"
    elif cause == "exit" and (row.exit_code, row.signal) == (0, 53):
        cause, reason = "launch_failed", "its output file or working directory could not be opened"
    elif cause == "exit" and number:
        cause = "signal"
    known = cause in ("exit", "signal") and row.word != "COMPLETED"
    details: dict[str, Any] = {"node": row.nodes} if row.nodes not in ("", "None assigned") else {}
    if len(runs) > 1:
        details["restarts"] = len(runs) - 1
        details["earlier"] = " ".join(run.word for run in runs[:-1])
    return JobReport(
        state,
        row.word,
        cause,
        exit_code=code if known and not number else 0 if row.word == "COMPLETED" else None,
        signal=number if known and number else None,
        reason=reason,
        details={**details, "elapsed_s": row.elapsed_s},
    )


def _user(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"
