"""The command of an entry as the shim's children: one process, or one for each rank. Standard library only.

The children die with the shim (Linux); nobody else would report their end or pass them a signal. Of several, all that
end in order end by themselves; when one fails, the others have a moment to notice, and are then killed.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cluster.ranks import ORDERLY, WAIT_S, first_to_fail, path_of

PASSED_ON = (signal.SIGTERM, signal.SIGUSR2, signal.SIGINT, signal.SIGHUP)
UNBLOCKS = "ORCHESTRATE_SIGNALS_BLOCKED"
"""Set to 1 in an entry's environment: the command unblocks TERM, INT and USR2 once its handlers stand. Until then they
wait, so that a signal during its imports is not lost and does not kill it."""
GRACE_S = 120.0
"""After a TERM the command may checkpoint this long, then it is killed; a scheduler's own limit may be shorter."""

_PR_SET_PDEATHSIG = 1


def _before_exec(parent: int, block: bool) -> Callable[[], None]:
    """For the child: if the shim is killed, so is the command (Linux). ``block``: see ``UNBLOCKS``."""
    prctl = None
    if sys.platform.startswith("linux"):
        import ctypes

        prctl = ctypes.CDLL(None, use_errno=True).prctl

    def arrange() -> None:
        if block:
            signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2))
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:  # it died before we asked
                os._exit(128 + signal.SIGKILL)

    return arrange


class Command:
    """The children, each in a process group of its own.

    Args:
        envs: the whole environment of each; rank 0 writes where the shim does, the others beside it.
    """

    def __init__(self, entry: Mapping[str, Any], envs: Sequence[Mapping[str, str]]) -> None:
        self.forwarded: list[int] = []
        self._early: list[int] = []
        self._children: list[subprocess.Popen[bytes]] = []
        self._ends: list[tuple[int, int]] = []
        self._complete = self._killed = False
        self._began = time.monotonic()
        self._grace = float(entry.get("grace_s", GRACE_S))
        self._peers = float(entry.get("peers_s", WAIT_S))
        for number in PASSED_ON:
            signal.signal(number, self._pass_on)
        signal.signal(signal.SIGALRM, self._kill)
        try:
            for rank, env in enumerate(envs):
                self._children.append(self._start(entry, rank, env))
        except OSError:
            self._kill()
            raise
        self._complete = True
        for number in self._early:
            self._send(number)

    def _start(self, entry: Mapping[str, Any], rank: int, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        log = os.open(path_of(entry["log"], rank), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o664) if rank else None
        try:
            return subprocess.Popen(
                entry["argv"],
                cwd=entry["cwd"],
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
                preexec_fn=_before_exec(os.getpid(), env.get(UNBLOCKS) == "1"),
            )
        finally:
            if log is not None:
                os.close(log)

    def _pass_on(self, number: int, _frame: object) -> None:
        self.forwarded.append(int(number))
        if number == signal.SIGTERM:
            self._kill_after(self._grace)
        if self._complete:
            self._send(number)
        else:
            self._early.append(number)

    def _send(self, number: int) -> None:
        for child in self._children:
            if child.returncode is None:  # not collected, so the pid is still its own
                os.kill(child.pid, number)

    def _kill_after(self, seconds: float) -> None:
        """Nothing lives longer than the shortest time that was given."""
        left, _ = signal.getitimer(signal.ITIMER_REAL)
        if not left or seconds < left:
            signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3))

    def _kill(self, _number: int = 0, _frame: object = None) -> None:
        self._killed = True
        self._send(signal.SIGKILL)

    def wait(self) -> dict[str, Any]:
        """How it ended; of several processes, how the first to fail did. What they left behind in their process groups
        is ended too."""
        while any(child.returncode is None for child in self._children):
            pid, status = os.wait()
            for rank, child in enumerate(self._children):
                if child.pid == pid:
                    child.returncode = os.waitstatus_to_exitcode(status)
                    self._note(rank, child)
        signal.setitimer(signal.ITIMER_REAL, 0)
        first = first_to_fail(self._ends) or (0, self._children[0].returncode)
        code = first[1]
        ended = {
            "code": code if code >= 0 else None,
            "signal": -code if code < 0 else None,
            "forwarded": self.forwarded,
            "seconds": round(time.monotonic() - self._began, 3),
            "max_rss_mb": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024,
        }
        return ended if len(self._children) == 1 else {**ended, "rank": first[0], "ranks": len(self._children)}

    def _note(self, rank: int, child: subprocess.Popen[bytes]) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        if self._killed and self._ends and child.returncode == -signal.SIGKILL:
            return  # our own doing
        self._ends.append((rank, child.returncode))
        if child.returncode not in ORDERLY:
            self._kill_after(self._peers)
