"""A process id that is never reused and says where it belongs: pid, start time, boot, pid namespace and host."""

from __future__ import annotations

import os
import socket
from enum import Enum
from functools import cache
from pathlib import Path


class Life(Enum):
    """What can be said of a process from here."""

    ALIVE = "alive"
    ENDED = "ended"
    ELSEWHERE = "elsewhere"
    """It runs, or ran, on another host or in another container: nothing can be said."""


@cache
def _place() -> tuple[str, str, str]:
    """Boot, pid namespace, host."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
        namespace = str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        boot = namespace = "0"
    return boot, namespace, socket.gethostname()


def _start_time(pid: int, *, zombies: bool) -> str | None:
    """Start time of a process as text, None where there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The command stands in parentheses and may hold anything; the fields behind it do not.
            fields = file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None if Path("/proc/self/stat").exists() else _start_time_portable(pid)
    return None if fields[0] in (b"Z", b"X") and not zombies else fields[19].decode()


def _start_time_portable(pid: int) -> str | None:
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else str(process.create_time())
    except psutil.NoSuchProcess:
        return None


def process_token(pid: int, *, zombies: bool = False) -> str | None:
    """``<pid>-<start>-<boot>-<namespace>@<host>``, or None if no such process lives. ``zombies``: one that has ended
    and was not collected counts too."""
    start = _start_time(pid, zombies=zombies)
    boot, namespace, host = _place()
    return None if start is None else f"{pid}-{start}-{boot}-{namespace}@{host}"


def own_token() -> str:
    token = process_token(os.getpid())
    assert token is not None, "this process is running"
    return token


def pid_of(token: str) -> int:
    return int(token.split("-", 1)[0])


def life(token: str) -> Life:
    """Whether the very process that ``token`` names still runs; a recycled pid is another process."""
    body, _, host = token.partition("@")
    boot, namespace, here = _place()
    parts = body.split("-")
    if len(parts) != 4 or not parts[0].isdigit():
        return Life.ELSEWHERE  # no token of ours: another backend's job
    pid, _, its_boot, its_namespace = parts
    if host != here or (its_boot == boot and its_namespace != namespace):
        return Life.ELSEWHERE
    if its_boot != boot:
        return Life.ENDED
    return Life.ALIVE if process_token(int(pid)) == token else Life.ENDED
