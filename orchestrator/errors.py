"""The base error of this folder."""

from __future__ import annotations


class OrchestratorError(Exception):
    """Something asked of the orchestrator cannot be done; the message says what, where and what to do."""
