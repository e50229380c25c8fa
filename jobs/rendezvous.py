"""Where the processes of an attempt meet. The first one claims the attempt, listens, and says where in a file beside
the claim; the others wait for that file. So nobody joins a process that lost the claim, and the address is one that is
listened on already, not one that somebody hoped would be free.
"""

from __future__ import annotations

import errno
import os
import socket
import time
from dataclasses import dataclass

import orjson

from jobs.durable import read_json, replace_file
from jobs.facts import read_claimed
from jobs.ranks import PeersSilent
from jobs.workspace import AttemptDir

POLL_S = 0.05
BACKLOG = 4096


@dataclass(frozen=True)
class Meeting:
    """``rendezvous.json``.

    Attributes:
        job: the claim's token; a file of another job is none for us.
        checkpoint: name of the checkpoint that all resume, "" for none.
    """

    job: str
    host: str
    port: int
    checkpoint: str = ""


def listen(wanted: int | None) -> tuple[socket.socket, int, str]:
    """A socket that listens on the port that was asked for, or on one that the system gives where that is taken.

    Returns:
        The socket, its port, and what was wrong with the port that was asked for ("" where nothing was).

    Raises:
        OSError: no port can be had.
    """
    clash = ""
    for port in (wanted, 0) if wanted is not None else (0,):
        assert port is not None
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("", port))
            listener.listen(BACKLOG)
        except OSError as error:
            listener.close()
            if not port or error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            clash = f"port {port} cannot be had ({os.strerror(error.errno)})"
            continue
        return listener, listener.getsockname()[1], clash
    raise AssertionError("the system gives a port or says why not")


def reachable(wanted: str) -> str:
    """The name that the others are told: the one that was asked for, unless nobody here knows whose it is (the names of
    Slurm's nodes need not be those of machines), else this machine's own."""
    for name in (wanted, socket.gethostname()):
        try:
            socket.getaddrinfo(name or None, 0, socket.AF_INET)
        except OSError:
            continue
        if name:
            return name
    return "127.0.0.1"


def announce(attempt: AttemptDir, meeting: Meeting) -> None:
    record = {"job": meeting.job, "host": meeting.host, "port": meeting.port, "checkpoint": meeting.checkpoint}
    replace_file(attempt.rendezvous, orjson.dumps(record))


def await_first(attempt: AttemptDir, job: str, patience_s: float) -> Meeting | None:
    """Wait until the first process says where to meet.

    Returns:
        None where it will not: the attempt is over, or another job has claimed it.

    Raises:
        PeersSilent: it has said nothing for so long.
    """
    end = time.monotonic() + patience_s
    while True:
        record = read_json(attempt.rendezvous)
        if record is not None and record.get("job") == job:
            return Meeting(record["job"], record["host"], record["port"], record["checkpoint"])
        claimed = read_claimed(attempt.claimed)
        if attempt.closed.exists() or (claimed is not None and claimed.job != job):
            return None
        if time.monotonic() > end:
            raise PeersSilent(f"the first process has not said for {patience_s:.3g} s where to meet")
        time.sleep(POLL_S)
