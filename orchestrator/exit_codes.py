"""The one table of exit codes of the command ``orchestrate``."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """What the command's exit code means."""

    OK = 0
    RUNS_FAILED = 1
    USAGE = 2
    REFUSED = 3
    UNFINISHED = 4
    UNREACHABLE = 5
    INTERRUPTED = 130


MEANINGS: dict[Exit, str] = {
    Exit.OK: "all good",
    Exit.RUNS_FAILED: "some runs failed (or, with --strict, a cell has no number)",
    Exit.USAGE: "a usage or configuration error: nothing was launched",
    Exit.REFUSED: "the plan was refused (a limit, a budget, a question answered with no)",
    Exit.UNFINISHED: "not finished yet",
    Exit.UNREACHABLE: "the scheduler or a store could not be reached",
    Exit.INTERRUPTED: "interrupted; runs that were launched go on",
}
