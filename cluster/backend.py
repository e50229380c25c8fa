"""The protocol every way of reaching machines keeps, and its few nouns.

A backend starts an argv, says what became of it and stops it. It knows nothing of runs, facts or retries: it is
handed requests and answers with reports. Silence of a scheduler is never an answer: a job that cannot be looked up
right now is UNKNOWN, and only positive evidence makes it ENDED or GONE.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable


class ClusterError(Exception):
    """Base error of this folder."""


class TemporaryError(ClusterError):
    """The scheduler could not answer now (busy, unreachable, at a limit); ask again after ``delay`` seconds."""

    def __init__(self, message: str, delay: float = 10.0) -> None:
        super().__init__(message)
        self.delay = delay


class PermanentError(ClusterError):
    """Asking again cannot help (refused parameters, unknown partition, no such backend)."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a job is expected to need, as measured on earlier ones; a backend may go by it where nobody named a limit.

    Attributes:
        minutes: time limit that what is left fits into, with room to spare.
        least_minutes: from its start to a first checkpoint that is saved; a limit below that brings nothing.
        lead_s: how long before its limit it must be warned to save and leave; None: no save was measured.
    """

    minutes: int
    least_minutes: int
    lead_s: int | None = None


@dataclass(frozen=True, slots=True)
class Resources:
    """What one job asks for. ``minutes`` None: the site's default limit. ``extra``: passed through untouched.
    ``needs``: None where nothing was measured. ``processes``: on each node, which share its ``cpus`` and ``gpus``."""

    cpus: int = 1
    gpus: int = 0
    memory_mb: int | None = None
    nodes: int = 1
    minutes: int | None = None
    extra: tuple[tuple[str, str], ...] = ()
    needs: Needs | None = None
    processes: int | None = None

    @property
    def ranks_a_node(self) -> int:
        """Processes on each node: said outright, else one a GPU in jobs of several nodes, else one."""
        if self.processes is not None:
            return self.processes
        return max(1, self.gpus) if self.nodes > 1 else 1

    @property
    def ranks(self) -> int:
        """Processes of the job."""
        return self.nodes * self.ranks_a_node


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """One job to start.

    Attributes:
        name: ours and unique for ever; the only thing a job is ever adopted by (never its id alone).
        argv: what to run, after the launch shim has set the scheduler-neutral environment.
        env: variables to add to the job's environment.
        cwd: an existing directory on the shared file system.
        log: path that stdout and stderr of the job are appended to.
        record: path at which the shim leaves how the command ended (see ``launch_shim``).
    """

    name: str
    argv: tuple[str, ...]
    cwd: str
    log: str
    record: str
    env: Mapping[str, str] = field(default_factory=dict)
    resources: Resources = Resources()


@dataclass(frozen=True, slots=True)
class JobHandle:
    """A started job: ``id`` is the scheduler's (it may be reused), ``name`` is ours (it is not)."""

    backend: str
    id: str
    name: str


class JobState(StrEnum):
    """All that is ever said of a job. QUEUED and RUNNING live; ENDED and GONE do not; UNKNOWN decides nothing."""

    QUEUED = "queued"
    RUNNING = "running"
    ENDED = "ended"
    """The scheduler (or the shim's record) says that it is over."""
    GONE = "gone"
    """The scheduler was asked, answered, and has never heard of it or has forgotten it."""
    UNKNOWN = "unknown"
    """No answer, or a word that is not in the table: keep the run alive and show the word."""


@dataclass(frozen=True, slots=True)
class JobReport:
    """What became of one job.

    Attributes:
        word: the scheduler's own state word (``RUNNING``, ``NODE_FAIL``, ...), or the local backend's.
        cause: evidence class where the scheduler knows one: ``exit``, ``signal``, ``timeout``, ``preempted``,
            ``node_failure``, ``out_of_memory``, ``cancelled``, ``launch_failed``, ``deadline`` ... or None.
        exit_code, signal: of the command, where known.
        reason: the scheduler's reason in words ("why is it waiting", "who cancelled it").
        details: anything else worth showing, as flat JSON values (node, restarts, elapsed seconds, ...).
        missing_s: with UNKNOWN: the scheduler has answered and knows no such job, which must be heard for so many
            seconds, and twice (``details["misses"]``), before it means GONE. A backend counts for as long as it lives,
            the loop across loops.
    """

    state: JobState
    word: str = ""
    cause: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    reason: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    missing_s: float | None = None


@runtime_checkable
class Backend(Protocol):
    """Local processes, Slurm, later Ray. One instance lives in one orchestrator process; it may be killed at any time.

    Every method may raise TemporaryError (the caller backs off and decides nothing) or PermanentError.
    """

    name: str

    def submit(self, batch: str, requests: Sequence[LaunchRequest]) -> list[JobHandle]:
        """Start every request, as few scheduler calls as possible. ``batch`` is the path of a directory that already
        holds ``batch.json`` (see ``launch_shim``): array index -> request. Called again with the same names after
        an unclear answer, it must not start what is already there."""
        ...

    def find(self, names: Sequence[str]) -> dict[str, JobHandle]:
        """Jobs of ours that exist (live or ended and still known) among ``names``; absent ones are left out."""
        ...

    def poll(self, handles: Sequence[JobHandle]) -> dict[JobHandle, JobReport]:
        """A report for every handle, in a number of scheduler calls that does not depend on how many there are."""
        ...

    def cancel(self, handles: Sequence[JobHandle], *, grace_s: float = 30.0) -> None:
        """Ask the jobs to stop (the command gets TERM and may checkpoint), then make them."""
        ...

    def free_slots(self, in_flight: int, limit: int | None) -> int:
        """How many more jobs may be handed over now, given ``--max-in-flight`` (same meaning everywhere)."""
        ...
