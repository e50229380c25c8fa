"""The facts a node records about an attempt: immutable JSON lines in ``facts.jsonl``, written by rank 0 alone.

A run's ``finished`` fact is its commit point. ``closed.json`` (one record, the first one stands) ends the attempt;
facts after it are ignored.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from jobs.durable import decide_file, read_json, read_lines
from jobs.workspace import AttemptDir


class FailureClass(StrEnum):
    """Why an attempt or a run ended badly; each has a retry policy. Evidence decides (``jobs.failures``)."""

    DIVERGED = "diverged"
    OUT_OF_MEMORY = "out_of_memory"
    GPU_OUT_OF_MEMORY = "gpu_out_of_memory"
    HANG = "hang"
    DISK = "disk"
    USER_ERROR = "user_error"
    LOST = "lost"
    LAUNCH_FAILED = "launch_failed"
    PREEMPTED = "preempted"
    TIME_LIMIT = "time_limit"
    TIME_LIMIT_NO_CHECKPOINT = "time_limit_no_checkpoint"
    NODE_FAILURE = "node_failure"
    BOOT_FAILURE = "boot_failure"
    PROLOG_FAILED = "prolog_failed"
    PORT_CLASH = "port_clash"
    DIRTY_NODE = "dirty_node"
    WRONG_ALLOCATION = "wrong_allocation"
    DEADLINE = "deadline"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


class ExitCode:
    """What a worker's exit code tells the launcher; anything else is judged by evidence."""

    DONE = 0
    CHECKPOINTED = 75
    DIVERGED = 76
    GPU_OUT_OF_MEMORY = 77
    CONFIG = 78
    PORT_CLASH = 79
    HANG = 80
    DISK = 81
    PEER_LOST = 82
    """Of several processes another one is gone. Why, is that one's to say."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")  # a newer node may know more


class Product(_Record):
    """A file that another run may consume. ``path`` is relative to the attempt's directory."""

    path: str
    sha256: str
    bytes: int


class Started(_Record):
    """The attempt has its models built and is about to step.

    ``step`` is where it begins (0, or the checkpoint's); ``exact`` is None for a fresh start, "exact" where a resume
    is bit-identical to an uninterrupted run, else "not exact: why".
    """

    fact: Literal["started"] = "started"
    time: float
    step: int
    exact: str | None = None
    host: str
    pid: int
    code: str = ""
    members: int
    threads: int
    environment: dict[str, Any] = Field(default_factory=dict)


class Checkpointed(_Record):
    """A checkpoint is complete on disk."""

    fact: Literal["checkpointed"] = "checkpointed"
    time: float
    step: int
    bytes: int
    seconds: float


class Finished(_Record):
    """One run's commit point.

    ``summary`` holds flat values (metric -> float, or "nan"/"inf"/"-inf"); ``seconds`` is this run's share of the
    wall time that its pack has trained, over all attempts.
    """

    fact: Literal["finished"] = "finished"
    time: float
    run: str
    status: Literal["completed", "failed"]
    step: int
    seconds: float = 0.0
    summary: dict[str, float | int | str | None] = Field(default_factory=dict)
    products: dict[str, Product] = Field(default_factory=dict)
    failure: FailureClass | None = None
    message: str = ""
    exact: tuple[str, ...] = ()
    """One verdict per resume that was not exact."""


class Event(_Record):
    """Anything worth keeping that decides nothing (a skipped broken checkpoint, a yield, a warning)."""

    fact: Literal["event"] = "event"
    time: float
    name: str
    message: str = ""
    step: int | None = None
    data: dict[str, Any] = Field(default_factory=dict)


Fact = Annotated[Started | Checkpointed | Finished | Event, Field(discriminator="fact")]
_FACT: TypeAdapter[Fact] = TypeAdapter(Fact)
_FACTS: TypeAdapter[list[Fact]] = TypeAdapter(list[Fact])


class Claimed(_Record):
    """Which job holds the attempt (``claimed.json``): the first stands, a worker that did not win exits 0."""

    time: float
    job: str
    """The launch's unique name plus the scheduler's id and restart count, as the shim passed them."""
    host: str
    pid: int


class Closed(_Record):
    """How the attempt ended (``closed.json``): the first stands, whoever wrote it."""

    time: float
    by: Literal["worker", "shim", "loop"]
    outcome: Literal["completed", "failed", "preempted", "lost", "cancelled"]
    """completed: every member has a finished fact. preempted: checkpointed and left when asked to."""
    failure: FailureClass | None = None
    message: str = ""
    step: int | None = None
    evidence: dict[str, Any] = Field(default_factory=dict)
    facts_bytes: int | None = None
    """Length of ``facts.jsonl`` when the attempt was closed: what a writer that was still alive added is ignored."""


class Heartbeat(_Record):
    """``heartbeat.json``, replaced every few seconds. Judge ``beat`` by its changing, on the reader's own clock."""

    beat: int
    step: int
    steps: int
    median_step_s: float | None = None
    time: float


def fact_record(fact: Fact) -> dict[str, Any]:
    """The JSON line of a fact, defaults left out."""
    return {"fact": fact.fact, **fact.model_dump(mode="json", exclude_defaults=True)}


def read_facts(path: Path, offset: int = 0, limit: int | None = None) -> tuple[list[Fact], int]:
    """Facts from byte ``offset`` on and the offset behind them; kinds a newer version wrote are passed over.

    ``limit`` is ``Closed.facts_bytes`` of a closed attempt."""
    lines, end = read_lines(path, offset, limit)
    try:
        # All at once takes two thirds of the time. A line that is broken, or of a newer kind, spoils the whole.
        facts = _FACTS.validate_json(b"[" + b",".join(lines) + b"]")
        if len(facts) == len(lines):
            return facts, end
    except ValidationError:
        pass
    return [fact for line in lines if (fact := _fact(line)) is not None], end


def _fact(line: bytes) -> Fact | None:
    try:
        return _FACT.validate_json(line)
    except ValidationError:
        return None


def read_closed(path: Path) -> Closed | None:
    record = read_json(path)
    return None if record is None else Closed.model_validate(record)


def read_claimed(path: Path) -> Claimed | None:
    record = read_json(path)
    return None if record is None else Claimed.model_validate(record)


def read_heartbeat(path: Path) -> Heartbeat | None:
    """The last beat, or None where there is none (heartbeats are not fsynced: a power cut may leave an empty file)."""
    try:
        return Heartbeat.model_validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def close_attempt(
    attempt: AttemptDir,
    *,
    by: Literal["worker", "shim", "loop"],
    outcome: Literal["completed", "failed", "preempted", "lost", "cancelled"],
    failure: FailureClass | None = None,
    message: str = "",
    step: int | None = None,
    evidence: Mapping[str, Any] | None = None,
) -> bool:
    """Write ``closed.json``; the first one stands.

    Returns:
        True if this call's record is the one that stands.
    """
    try:
        facts_bytes = attempt.facts.stat().st_size
    except FileNotFoundError:
        facts_bytes = 0
    closed = Closed(
        time=time.time(),
        by=by,
        outcome=outcome,
        failure=failure,
        message=message,
        step=step,
        evidence=dict(evidence or {}),
        facts_bytes=facts_bytes,
    )
    return decide_file(attempt.closed, closed.model_dump(mode="json"))
