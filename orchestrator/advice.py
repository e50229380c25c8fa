"""What each class of failure means and what a person can do about it, in one line each."""

from __future__ import annotations

from jobs.facts import FailureClass

_F = FailureClass

MEANS: dict[FailureClass, str] = {
    _F.DIVERGED: "the loss is not finite: the same run ends the same way; in reports it counts at chance",
    _F.OUT_OF_MEMORY: "the machine's memory was full: ask for more (resources.memory_mb) or pack fewer runs (pack.max)",
    _F.GPU_OUT_OF_MEMORY: "the GPU's memory was full: pack fewer runs (pack.max) or use a larger GPU",
    _F.HANG: "it lived and made no step; the stacks are in its log",
    _F.DISK: "a file could not be written; it waits, and goes on by itself once there is room: make some, or raise the "
    "quota",
    _F.USER_ERROR: "its configuration, its inputs or the code: mend it, then plan the sweep again",
    _F.LOST: "it was gone without a word (killed, or its machine was)",
    _F.LAUNCH_FAILED: "no worker ever began; a machine or the installation is at fault (`orchestrate nodes`)",
    _F.PREEMPTED: "it was asked to leave again and again and made no progress",
    _F.TIME_LIMIT: "it ran into the time limit again and again and made no progress",
    _F.TIME_LIMIT_NO_CHECKPOINT: "the time limit came before its first checkpoint: ask for more (resources.minutes) or "
    "checkpoint sooner (execution.checkpoint_seconds)",
    _F.NODE_FAILURE: "its machine failed (`orchestrate nodes`)",
    _F.BOOT_FAILURE: "its machine did not boot (`orchestrate nodes`)",
    _F.PROLOG_FAILED: "the site's prolog failed there (`orchestrate nodes`)",
    _F.PORT_CLASH: "the port of its processes was taken, every time",
    _F.DIRTY_NODE: "somebody else's memory was on its GPU (`orchestrate nodes`)",
    _F.WRONG_ALLOCATION: "it was given something else than it asked for; its log names the difference",
    _F.DEADLINE: "the scheduler's deadline for it has passed",
    _F.CANCELLED: "somebody cancelled its job outside of orchestrate",
    _F.UNKNOWN: "nobody knows better than its log",
}

FIX_FIRST = frozenset({_F.DIVERGED, _F.USER_ERROR, _F.OUT_OF_MEMORY, _F.GPU_OUT_OF_MEMORY, _F.DISK})
"""Running these again without a change ends the same way."""
