"""How much is in flight, how patient the loop is, and what is retried how often."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from jobs.facts import FailureClass


@dataclass(frozen=True, slots=True)
class Retry:
    """At most ``tries`` new attempts in a row without progress (a checkpoint further on, or a finished member); None:
    it is no fault of the run, which pauses as long as need be and loses none of its tries for it.

    The n-th waits ``base_s * 2**(n-1)`` seconds, ``cap_s`` at most, counted on the loop's own clock.
    """

    tries: int | None
    base_s: float = 0.0
    cap_s: float = 1800.0

    def delay(self, n: int) -> float:
        return 0.0 if n < 1 else min(self.cap_s, self.base_s * 2.0 ** min(n - 1, 30))


NEVER = Retry(0)

RETRIES: Mapping[FailureClass, Retry] = MappingProxyType(
    {
        # What the run itself did: the same inputs end the same way.
        FailureClass.DIVERGED: NEVER,
        FailureClass.USER_ERROR: NEVER,
        FailureClass.GPU_OUT_OF_MEMORY: NEVER,
        FailureClass.DEADLINE: NEVER,
        FailureClass.CANCELLED: NEVER,
        FailureClass.TIME_LIMIT_NO_CHECKPOINT: Retry(1, 10.0),
        # What may not happen again, or not there.
        FailureClass.OUT_OF_MEMORY: Retry(1, 30.0),
        FailureClass.HANG: Retry(2, 10.0),
        # Waits for room (``orchestrator.room``), and for this long where there seems to be some.
        FailureClass.DISK: Retry(None, 10.0),
        FailureClass.WRONG_ALLOCATION: Retry(2, 30.0),
        FailureClass.UNKNOWN: Retry(2, 10.0),
        # What the machines did.
        FailureClass.LOST: Retry(5, 2.0),
        FailureClass.LAUNCH_FAILED: Retry(5, 5.0),
        FailureClass.NODE_FAILURE: Retry(10, 5.0),
        FailureClass.BOOT_FAILURE: Retry(10, 30.0),
        FailureClass.PROLOG_FAILED: Retry(5, 30.0),
        FailureClass.DIRTY_NODE: Retry(5, 5.0),
        FailureClass.PORT_CLASH: Retry(10, 1.0, 30.0),
        # What was meant to happen. The cap ends endless requeue loops that make no progress.
        FailureClass.PREEMPTED: Retry(50, 0.5, 60.0),
        FailureClass.TIME_LIMIT: Retry(50, 0.0),
    }
)


@dataclass(frozen=True, slots=True)
class Policy:
    """See the attributes; nothing here is part of a run's identity."""

    max_in_flight: int | None = None
    """Packs handed over and not ended; None: what the backend offers."""
    retries: Mapping[FailureClass, Retry] = field(default_factory=lambda: RETRIES)
    requeues: str = ""
    """Name of the backend, where it queues jobs again whose command was made to leave: then the job's own shim launches
    the next attempt, and the loop does so only when that job is over."""
    quiet_s: float = 30.0
    """An intent without an answer whose job cannot be found is handed over again after this long. Two hand-overs are
    harmless (the claim decides), only wasteful."""
    lost_after_s: float = 120.0
    """The scheduler must go on saying that a job is gone, and its heartbeat stay silent, for this long. So must a
    heartbeat that was heard after the scheduler had called the job ended."""
    linger_s: float = 120.0
    """How long a loop that is otherwise done waits to see the queue hold nothing of its runs."""
    settle_s: float = 5.0
    """How long files may take to become visible here after a job has ended without a record."""
    verdict_wait_s: float = 30.0
    """A command that was killed says not why, and its record is here before the scheduler's word (out of memory,
    preempted, time limit). It is waited for so long: two looks at four a minute."""
    stuck_factor: float = 3.0
    """The worker ends its own hangs; the loop steps in when a step takes this many times the worker's own limit."""
    probe: bool = True
    """One pack of a shape goes first; the others follow when it has made its first steps."""
    probe_heartbeat_s: float | None = None
    """How often that first pack tells how far it is; None: as every other."""
    probe_failures: int = 3
    """So many packs of one shape may fail before any of that shape has made a step; then the rest is held."""
    most_idle: int = 60
    """So many attempts in a row that got no further, whatever their classes, end a loop of requeues."""
    instant_s: float = 30.0
    """A worker that is gone within so long, without a step, may have met a bad machine."""
    node_failures: int = 3
    """A machine is excluded after so many mishaps since it last did anything good (``orchestrator.nodes``), ..."""
    node_exclusion_s: float = 3600.0
    node_exclusion_cap_s: float = 86400.0
    """... for so long; twice as long with each further mishap, up to the cap."""
    avoid_last: int = 3
    """A pack keeps away from the machines of so many of its last attempts that met with a mishap."""
    room_every_s: float = 30.0
    """How often free space is looked at while a pack waits for it."""
    batch_size: int = 2000
    """Packs of one hand-over; a backend splits it where an array may not be so large."""
    poll_s: tuple[float, float] = (5.0, 60.0)
    """Shortest and longest pause between two passes; it doubles while nothing happens."""
    cancel_grace_s: float = 60.0

    def retry(self, failure: FailureClass) -> Retry:
        return self.retries.get(failure, NEVER)


LOCAL = Policy(
    quiet_s=5.0,
    lost_after_s=0.0,
    settle_s=0.0,
    verdict_wait_s=0.0,
    poll_s=(0.05, 1.0),
    probe_heartbeat_s=0.25,
    room_every_s=1.0,
)
"""One machine: its process table always answers, and its files are visible at once."""


def default_policy(backend: str, max_in_flight: int | None = None) -> Policy:
    """The policy to start from for a backend of this name."""
    return replace(LOCAL if backend == "local" else Policy(requeues=backend), max_in_flight=max_in_flight)
