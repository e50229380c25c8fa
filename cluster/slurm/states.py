"""Every state word of Slurm's manual, and what it says of a job; reasons for which a job waits.

Words of versions 20.11 to 25.05. A word that is not here is UNKNOWN: the run is kept alive and the word is shown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cluster.backend import JobState

_Q, _R, _E = JobState.QUEUED, JobState.RUNNING, JobState.ENDED

STATES: dict[str, tuple[JobState, str | None]] = {
    "BOOT_FAIL": (_E, "boot_failure"),
    "CANCELLED": (_E, "cancelled"),
    "COMPLETED": (_E, "exit"),
    "CONFIGURING": (_Q, None),
    "COMPLETING": (_R, None),  # what comes after it is hidden: a requeue, a cancellation, an end
    "DEADLINE": (_E, "deadline"),
    "EXPEDITING": (_Q, None),
    "FAILED": (_E, "exit"),
    "LAUNCH_FAILED": (_E, "launch_failed"),
    "NODE_FAIL": (_E, "node_failure"),
    "OUT_OF_MEMORY": (_E, "out_of_memory"),
    "PENDING": (_Q, None),
    "POWER_UP_NODE": (_Q, None),
    "PREEMPTED": (_E, "preempted"),
    "RECONFIG_FAIL": (_E, "boot_failure"),
    "REQUEUED": (_Q, None),
    "REQUEUE_FED": (_Q, None),
    "REQUEUE_HOLD": (_Q, None),
    "RESIZING": (_R, None),
    "RESV_DEL_HOLD": (_Q, None),
    "REVOKED": (_E, "cancelled"),  # a sibling on another cluster of the federation took it
    "RUNNING": (_R, None),
    "SIGNALING": (_R, None),
    "SPECIAL_EXIT": (_Q, None),
    "STAGE_OUT": (_R, None),
    "STOPPED": (_R, None),
    "SUSPENDED": (_R, None),
    "TIMEOUT": (_E, "timeout"),
    "UPDATE_DB": (_R, None),
}


def look_up(word: str) -> tuple[JobState, str | None]:
    """State and cause of a word as squeue or sacct print it (``CANCELLED by 1001``, a trailing ``+``)."""
    return STATES.get(word.partition(" ")[0].rstrip("+").upper(), (JobState.UNKNOWN, None))


def cancelled_by(word: str) -> int | None:
    """The user id in ``CANCELLED by 1001``."""
    found = re.fullmatch(r"CANCELLED by (\d+)", word)
    return int(found[1]) if found else None


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a pending job's reason means. ``never``: it cannot start as it is; ``release``: releasing it may help."""

    words: str
    never: bool = False
    release: bool = False
    cause: str = "launch_failed"


_REASONS: dict[str, Waiting] = {
    "none": Waiting("the scheduler has not looked at it yet"),
    "priority": Waiting("jobs of higher priority go first"),
    "resources": Waiting("waits for free nodes"),
    "dependency": Waiting("waits for another job"),
    "begintime": Waiting("was requeued, or asked for a later start"),
    "jobarraytasklimit": Waiting("its array's own limit"),
    "jobheldadmin": Waiting("held by an administrator; `scontrol release` is his"),
    "jobhelduser": Waiting("held by hand; `scontrol release JOB` lets it go"),
    "job requeued in held state": Waiting("requeued and held by hand; `scontrol release JOB` lets it go"),
    "launch failed requeued held": Waiting("a node could not start it; Slurm holds it", release=True),
    "dependencyneversatisfied": Waiting("its dependency can never be met", never=True),
    "badconstraints": Waiting("no node has what it asks for", never=True),
    "invalidaccount": Waiting("its account does not exist", never=True),
    "invalidqos": Waiting("its QOS does not exist", never=True),
    "qosnotallowed": Waiting("its QOS is not allowed there", never=True),
    "accountnotallowed": Waiting("its account is not allowed there", never=True),
    "partitionconfig": Waiting("asks for more than its partition has", never=True),
    "partitiontimelimit": Waiting("asks for more time than its partition gives", never=True),
    "partitionnodelimit": Waiting("asks for more nodes than its partition gives", never=True),
    "reservationdeleted": Waiting("its reservation was deleted", never=True),
    "joblaunchfailure": Waiting("its launch failed", release=True),
    "reservation": Waiting("waits for its reservation"),
    "partitiondown": Waiting("its partition is down"),
    "partitioninactive": Waiting("its partition is inactive"),
    "licenses": Waiting("waits for a licence"),
    "reqnodenotavail": Waiting("the nodes it could use are down or reserved (maintenance?)"),
    "nodedown": Waiting("a node it needs is down"),
    "cleaning": Waiting("its last run is still being cleaned up"),
}


def waiting(reason: str) -> Waiting:
    """What a reason says (blanks and commas as squeue prints them, ``_`` as scontrol does; a list counts by its worst
    member)."""
    text = reason.replace("_", " ").strip("()").lower()
    if text in _REASONS:
        return _REASONS[text]
    parts = [_REASONS[part] for part in re.split(r",\s*", text) if part in _REASONS]
    if parts:
        return max(parts, key=lambda part: (part.never, part.release))
    if re.search(r"limit|max|grp|assoc|qos", text):
        return Waiting(f"held back by a limit of the site ({reason})")
    return Waiting(reason)
