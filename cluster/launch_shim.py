"""What a scheduler starts: ``python -P -m cluster.launch_shim <batch.json> [index] [name]``.

It looks its entry up, turns the scheduler's variables into neutral ones, runs the command as its child, passes signals
on and leaves how it ended. The command never meets a scheduler, and the shim never meets runs or facts: the entry is
all it knows. Standard library only, few imports: it runs once per attempt on every node.

The record (``exit.json``; the first one stands):

    {"job", "code", "signal", "forwarded": [signals passed on], "seconds", "max_rss_mb", "host", "time"}

``code`` is None where a signal ended the command, ``signal`` None otherwise. ``job`` is the token that the command saw
in ``ORCHESTRATE_JOB``: ``<name>/<scheduler's id>/<restart count>``.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster.backend import PermanentError
from cluster.batch_file import read_entry
from cluster.process_id import own_token

PASSED_ON = (signal.SIGTERM, signal.SIGUSR2, signal.SIGINT, signal.SIGHUP)
UNBLOCKS = "ORCHESTRATE_SIGNALS_BLOCKED"
"""Set to 1 in an entry's environment: the command unblocks TERM, INT and USR2 once its handlers stand. Until then they
wait, so that a signal during its imports is not lost and does not kill it."""
GRACE_S = 120.0
"""After a TERM the command may checkpoint this long, then it is killed; a scheduler's own limit may be shorter."""

_PR_SET_PDEATHSIG = 1


def job_token(name: str, environ: Mapping[str, str]) -> str:
    """Who we are to the rest of the system: our name, the scheduler's id and how often it restarted us."""
    if "SLURM_JOB_ID" in environ:
        job = environ["SLURM_JOB_ID"]
        if "SLURM_ARRAY_JOB_ID" in environ:
            job = f"{environ['SLURM_ARRAY_JOB_ID']}_{environ['SLURM_ARRAY_TASK_ID']}"
        return f"{name}/{job}/{environ.get('SLURM_RESTART_COUNT', '0')}"
    return f"{name}/{own_token()}/0"


def neutral_environment(entry: Mapping[str, Any], environ: Mapping[str, str], token: str) -> dict[str, str]:
    """The command's whole environment: the given one, torch's variables, thread limits, then the entry's own."""
    threads = str(max(1, entry["cpus"]))
    return {
        **environ,
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "1",
        "LOCAL_WORLD_SIZE": "1",
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "PYTHONSAFEPATH": "1",
        "PYTHONUNBUFFERED": "1",
        **entry["env"],
        "ORCHESTRATE_JOB": token,
        "ORCHESTRATE_NAME": entry["name"],
    }


def _before_exec(parent: int, block: bool) -> Callable[[], None]:
    """For the child: if the shim is killed, so is the command (Linux); nobody else would report its end or pass it a
    signal. ``block``: see ``UNBLOCKS``."""
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
    """The entry's command as our child, in a process group of its own."""

    def __init__(self, entry: Mapping[str, Any], env: Mapping[str, str]) -> None:
        self.forwarded: list[int] = []
        self._early: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._began = time.monotonic()
        self._grace = float(entry.get("grace_s", GRACE_S))
        for number in PASSED_ON:
            signal.signal(number, self._pass_on)
        signal.signal(signal.SIGALRM, self._kill)
        self._process = subprocess.Popen(
            entry["argv"],
            cwd=entry["cwd"],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            process_group=0,
            preexec_fn=_before_exec(os.getpid(), env.get(UNBLOCKS) == "1"),
        )
        for number in self._early:
            self._process.send_signal(number)

    def _pass_on(self, number: int, _frame: object) -> None:
        self.forwarded.append(int(number))
        if number == signal.SIGTERM:
            signal.setitimer(signal.ITIMER_REAL, self._grace)
        if self._process is None:
            self._early.append(number)
        else:
            self._process.send_signal(number)

    def _kill(self, _number: int, _frame: object) -> None:
        if self._process is not None:
            self._process.kill()

    def wait(self) -> dict[str, Any]:
        """How it ended. What it left behind in its process group is ended too."""
        assert self._process is not None
        code = self._process.wait()
        signal.setitimer(signal.ITIMER_REAL, 0)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        return {
            "code": code if code >= 0 else None,
            "signal": -code if code < 0 else None,
            "forwarded": self.forwarded,
            "seconds": round(time.monotonic() - self._began, 3),
            "max_rss_mb": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024,
        }


def held_by_other(claim: str, token: str) -> bool:
    """Whether another job executes this attempt; how we ended then says nothing about it."""
    if not claim:
        return False
    try:
        return json.loads(Path(claim).read_bytes()).get("job") != token
    except (FileNotFoundError, json.JSONDecodeError):
        return False


def leave_record(path: Path, record: Mapping[str, Any]) -> None:
    """Write aside, fsync, link: the first record stands."""
    aside = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with open(aside, "xb") as file:
        file.write(json.dumps(record, sort_keys=True).encode())
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(aside, path)
    except FileExistsError:
        pass
    finally:
        os.unlink(aside)


def run_entry(entry: Mapping[str, Any], environ: Mapping[str, str]) -> int:
    """Run one entry to its end and leave its record. Returns the exit code to leave with."""
    token = job_token(entry["name"], environ)
    log = os.open(entry["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o664)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    ended: dict[str, Any]
    try:
        ended = Command(entry, neutral_environment(entry, environ, token)).wait()
    except OSError as error:  # no such program, no such folder: as a shell would say it
        print(f"launch shim: cannot start {entry['argv'][0]}: {error}", file=sys.stderr, flush=True)
        ended = {"code": 127, "signal": None, "forwarded": [], "seconds": 0.0, "max_rss_mb": 0, "error": str(error)}
    if not held_by_other(entry["claim"], token):
        leave_record(Path(entry["record"]), {**ended, "job": token, "host": socket.gethostname(), "time": time.time()})
    return ended["code"] if ended["code"] is not None else 128 + ended["signal"]


def main(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """``argv``: batch file, array index (default: SLURM_ARRAY_TASK_ID), name that the entry must have (optional; it
    makes the process findable in a process table)."""
    if not argv:
        print("usage: python -P -m cluster.launch_shim BATCH_JSON [INDEX] [NAME]", file=sys.stderr)
        return 2
    index = argv[1] if len(argv) > 1 else environ.get("SLURM_ARRAY_TASK_ID", "")
    try:
        if not index.isdigit():
            raise PermanentError(f"array index {index!r} is not a number and SLURM_ARRAY_TASK_ID does not help")
        entry = read_entry(Path(argv[0]), int(index))
        if len(argv) > 2 and argv[2] != entry["name"]:
            raise PermanentError(f"{argv[0]} has {entry['name']} at index {index}, not {argv[2]}")
    except PermanentError as error:
        print(f"launch shim: {error}", file=sys.stderr)
        return 2
    if "SLURM_JOB_ID" in environ:
        from cluster.slurm.node import Stop, prepare

        try:
            entry = prepare(entry, environ, job_token(entry["name"], environ))
        except Stop as stop:
            print(f"launch shim: {stop}", file=sys.stderr)
            return stop.code
    return run_entry(entry, environ)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
