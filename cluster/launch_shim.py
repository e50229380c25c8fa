"""What a scheduler starts: ``python -P -m cluster.launch_shim <batch.json> [index] [name]``.

It looks its entry up, turns the scheduler's variables into neutral ones, runs the command as its child, passes signals
on and leaves how it ended. The command never meets a scheduler, and the shim never meets runs or facts: the entry is
all it knows. Standard library only, few imports: it runs once per attempt on every node.

A command of several processes (ranks) is started whole by one shim on this machine, and by a shim a process under a
scheduler that starts them itself (``cluster.slurm.node``).

The record (``exit.json``; the first one stands):

    {"job", "code", "signal", "forwarded": [signals passed on], "seconds", "max_rss_mb", "host", "time"}

``code`` is None where a signal ended the command, ``signal`` None otherwise. ``job`` is the token that the command saw
in ``ORCHESTRATE_JOB``: ``<name>/<scheduler's id>/<restart count>``, the same for all ranks. Of several ranks the record
says how many there were ("ranks"), and which one ("rank") it speaks of: the first to fail; where each had a shim of its
own, also on which host that was ("failed_on") and which left no record ("silent").
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster.backend import PermanentError
from cluster.batch_file import read_entry
from cluster.command import Command
from cluster.process_id import own_token
from cluster.ranks import explained, local_environments

WARNING = "USR2"
"""The signal that asks a command to checkpoint and leave, on every backend; handed to it, so that it can compare."""


def job_token(name: str, environ: Mapping[str, str]) -> str:
    """Who we are to the rest of the system: our name, the scheduler's id and how often it restarted us."""
    if "SLURM_JOB_ID" in environ:
        job = environ["SLURM_JOB_ID"]
        if "SLURM_ARRAY_JOB_ID" in environ:
            job = f"{environ['SLURM_ARRAY_JOB_ID']}_{environ['SLURM_ARRAY_TASK_ID']}"
        return f"{name}/{job}/{environ.get('SLURM_RESTART_COUNT', '0')}"
    return f"{name}/{own_token()}/0"


def neutral_environment(
    entry: Mapping[str, Any], environ: Mapping[str, str], token: str, rank: Mapping[str, str] | None = None
) -> dict[str, str]:
    """A process's whole environment: the given one, torch's variables, thread limits, then the entry's own.

    Args:
        rank: torch's variables of one of several processes.
    """
    rank = rank or {}
    here = int({**entry["env"], **rank}.get("LOCAL_WORLD_SIZE", "1"))
    threads = str(max(1, entry["cpus"] // here))
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
        **rank,
        "ORCHESTRATE_JOB": token,
        "ORCHESTRATE_NAME": entry["name"],
        "ORCHESTRATE_WARNING": WARNING,
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
    if entry["claim"] and os.path.exists(entry["claim"]):
        # Another job has it, or this very one was started twice (a controller forgot that it had begun): then the claim
        # bears our own token, and how this copy ends must not be taken for the end of the other.
        print(f"launch shim: {entry['name']} is claimed already; nothing to do here", file=sys.stderr, flush=True)
        return 0
    log = os.open(entry["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o664)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    ended: dict[str, Any]
    try:
        ranks = local_environments(int(entry.get("ranks", 1)), environ)
        ended = Command(entry, [neutral_environment(entry, environ, token, rank) for rank in ranks]).wait()
    except OSError as error:  # no such program, no such folder: as a shell would say it
        print(f"launch shim: cannot start {entry['argv'][0]}: {error}", file=sys.stderr, flush=True)
        ended = {"code": 127, "signal": None, "forwarded": [], "seconds": 0.0, "max_rss_mb": 0, "error": str(error)}
    if "peers" in entry:
        ended = explained(ended, entry["record"], int(entry["peers"]), token)
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
    code = main(sys.argv[1:], os.environ)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # the record is on disk; taking Python apart would be a fifth of what a shim costs
