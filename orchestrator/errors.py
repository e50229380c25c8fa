"""The base error of this folder."""

from __future__ import annotations

from orchestrator.exit_codes import Exit


class OrchestratorError(Exception):
    """Something asked of the orchestrator cannot be done; the message says what, where and what to do."""


class PilotUnfinished(OrchestratorError):
    """Runs of a pilot have not completed, so nothing can be chosen from it."""

    exit_code = int(Exit.RUNS_FAILED)
