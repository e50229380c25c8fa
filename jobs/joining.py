"""How the processes of one attempt come together: the first claims and chooses the checkpoint, the others follow it."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from jobs import checkpoint as checkpoints
from jobs import rendezvous
from jobs.admission import claim
from jobs.checkpoint import Checkpoint
from jobs.errors import JobError
from jobs.heartbeat import STARTUP_FACTOR
from jobs.launch import Launch
from jobs.layout import judge_count
from jobs.ranks import Ranks, Seat
from jobs.rendezvous import Meeting
from jobs.session import Member
from jobs.workspace import AttemptDir

COLLECTIVE_FACTOR = 4
"""The watchdog is faster than the timeout of a meeting of all, which is so many times its longest patience."""


def admit(attempt: AttemptDir, launch: Launch, job: str, seat: Seat) -> tuple[bool, Meeting | None]:
    """(Whether this process takes part, where it finds the first one).

    Raises:
        PeersSilent: the first process does not say where to meet.
    """
    if not seat.rank:
        return claim(attempt, job), None
    from jobs import process_group  # noqa: F401  (it takes a while, in which the first one prepares)

    meeting = rendezvous.await_first(attempt, job, STARTUP_FACTOR * launch.hang_floor_s)
    return meeting is not None, meeting


def choose_checkpoint(
    attempt: AttemptDir, launch: Launch, members: Sequence[Member], seat: Seat, meeting: Meeting | None
) -> tuple[Checkpoint | None, list[Checkpoint]]:
    """The checkpoint to resume, and newer ones that had to be passed over.

    Raises:
        JobError: so many processes cannot read it. OSError: it is not here as the first process has seen it.
    """
    newest, passed = None, []
    if meeting is not None:
        newest = checkpoints.inspect(attempt.checkpoints / meeting.checkpoint) if meeting.checkpoint else None
        if newest is not None and not newest.complete:
            raise OSError(errno.EIO, f"the first process resumes it, but here: {newest.verdict}", str(newest.path))
    else:
        checkpoints.clear_asides(attempt.checkpoints, attempt.number - 1)
        if launch.resume:
            done = {member.run for member in members if member.done}
            newest, passed = checkpoints.newest_checkpoint(
                attempt.checkpoints, done=done, after_attempt=launch.fresh_after
            )
    if newest is not None:
        verdict, why = judge_count(newest.meta, seat.size)
        if verdict == "refused":
            raise JobError(f"{newest.path.name}: {why}")
    return newest, passed


def join(
    attempt: AttemptDir, launch: Launch, job: str, seat: Seat, meeting: Meeting | None, newest: Checkpoint | None
) -> tuple[Ranks, str]:
    """The processes, met; and what was wrong with the port that was to be used ("" where nothing was).

    Raises:
        PeersSilent, PeerLost: see ``process_group.join``.
    """
    if seat.size == 1:
        return Ranks(), ""
    from jobs import process_group

    listener, clash = None, ""
    if meeting is None:
        listener, port, clash = rendezvous.listen(seat.port)
        meeting = Meeting(job, rendezvous.reachable(seat.host), port, newest.path.name if newest else "")
        rendezvous.announce(attempt, meeting)
    patience = STARTUP_FACTOR * launch.hang_floor_s
    ranks = process_group.join(
        seat.rank,
        seat.size,
        meeting.host,
        meeting.port,
        listener=listener,
        join_s=patience,
        collective_s=COLLECTIVE_FACTOR * patience,
    )
    return ranks, f"{clash}; meeting at {meeting.port} instead" if clash else ""
