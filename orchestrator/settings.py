"""Environment twins of the command's options, in one table."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import OrchestratorError

ROOT, BACKEND, MAX_IN_FLIGHT = "ORCHESTRATE_ROOT", "ORCHESTRATE_BACKEND", "ORCHESTRATE_MAX_IN_FLIGHT"


@dataclass(frozen=True, slots=True)
class Settings:
    """What holds for a whole invocation."""

    root: Path = Path("runs")
    backend: str = "local"
    max_in_flight: int | None = None


def read_settings(environ: Mapping[str, str] = os.environ) -> Settings:
    """Settings from the environment.

    Raises:
        OrchestratorError: ``ORCHESTRATE_MAX_IN_FLIGHT`` is not a positive number.
    """
    limit = environ.get(MAX_IN_FLIGHT)
    if limit is not None and not (limit.isdigit() and int(limit) > 0):
        raise OrchestratorError(f"{MAX_IN_FLIGHT}={limit!r} is not a number of packs; give a positive whole number")
    return Settings(
        Path(environ.get(ROOT, "runs")), environ.get(BACKEND, "local"), None if limit is None else int(limit)
    )
