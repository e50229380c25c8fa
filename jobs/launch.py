"""``launch.json``: all that a worker needs, resolved and frozen; it never reads the sweep file or the plan."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from jobs.errors import JobError


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ResolvedInput(_Frozen):
    """A product of another run, looked up when the launch was written. ``path`` is relative to the workspace root."""

    run: str
    product: str
    path: str
    sha256: str


class Member(_Frozen):
    """One run of the pack. ``config`` indexes ``Launch.configs`` (members often share one)."""

    run: str
    config: int
    seed: int
    inputs: dict[str, ResolvedInput] = Field(default_factory=dict)
    done: bool = False
    """Finished in an earlier attempt: its place in the stack is kept and masked."""


class Launch(_Frozen):
    """One attempt of one pack."""

    pack: str
    attempt: int
    name: str
    """Unique job name, ``orc-<pack id>-a<k>``."""
    runner: str
    members: tuple[Member, ...]
    configs: tuple[dict[str, Any], ...]
    """Normalised runner configs (defaulted fields left out)."""
    root: str
    """Workspace root, as the nodes see it."""
    code: str = ""
    """Tree hash of the code snapshot, "" for the installed packages."""
    resume: bool = True
    """False: start at step 0 whatever checkpoints there are (``retry --fresh``)."""
    fresh_after: int = 0
    """Checkpoints written by attempts up to this number are ignored (they belong to a run that was restarted fresh)."""
    checkpoint_steps: int | None = None
    checkpoint_seconds: float | None = 300.0
    """Checkpoint at whichever comes first; outside identity."""
    hang_floor_s: float = 300.0
    threads: int = 1
    max_steps: int | None = None
    """A probe: do this many steps, record their time, finish nothing."""
    settings: Mapping[str, Any] = Field(default_factory=dict)
    """Never part of a result: ``heartbeat_s`` (seconds between heartbeats), ``keep_checkpoints`` (how many stay while
    the pack trains), ``toy`` (fault switches, ``jobs.toy_config.Faults``)."""


def read_launch(path: Path) -> Launch:
    """Raises JobError where the file is absent."""
    try:
        return Launch.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise JobError(f"{path} does not exist: this attempt was never launched") from None
