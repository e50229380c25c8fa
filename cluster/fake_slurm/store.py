"""The one state file: jobs, nodes, clock and fault switches, under a lock that every command takes.

Times are seconds since 1970 on the pretended clock. A job record (``jobs``) is one element of an array or a single job;
what its elements share lies in ``specs``. Ended runs are kept in the job's ``runs``, which is what accounting shows.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CONFIG: dict[str, Any] = {
    "ClusterName": "fake",
    "MaxArraySize": 1001,
    "MaxJobCount": 10000,
    "MinJobAge": 300,
    "KillWait": 5,
    "RequeueWait": 10,
    "MaxSubmit": None,
    "Partitions": {"gpu": "OFF", "preempt": "REQUEUE", "scavenge": "CANCEL"},
    "DefaultTime": 60,
    "MaxTime": None,
    "Maintenance": {},
}
SWITCHES: dict[str, Any] = {
    "accounting_off": False,
    "dbd_down": False,
    "controller_down": False,
    "message_timeout_s": 0.0,
    "sacct_lag_s": 5.0,
    "sacct_end_lag_s": 0.2,
    "sacct_window": "",
    "accept_then_timeout": 0,
    "hang_s": 60.0,
    "reject_with": "",
    "reject_count": 0,
    "reject_above": 0,
    "squeue_empty": False,
    "hide": [],
    "force_state": {},
    "slow": {},
    "prolog_fails": [],
    "execute": True,
}
"""Every fault switch and its silent value; docs/fake-slurm.md says what each does."""


class Store:
    """The state under its lock. Use ``with store.open() as state``; what is changed in it is kept."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / "state.json"

    def create(self, nodes: int, cpus: int, gpus: int, memory_mb: int, config: dict[str, Any], frozen: bool) -> None:
        for name in ("run", "scripts", "bin"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        names = [f"node{number:03d}" for number in range(1, nodes + 1)]
        node = {"cpus": cpus, "gpus": gpus, "mem": memory_mb, "state": "idle", "reason": ""}
        state = {
            "frozen": time.time() if frozen else None,
            "offset": 0.0,
            "next_id": 1,
            "config": {**CONFIG, **config},
            "switches": dict(SWITCHES),
            "nodes": {name: dict(node) for name in names},
            "specs": {},
            "jobs": [],
            "orphans": [],
            "calls": {},
        }
        self._write(state)

    def _write(self, state: dict[str, Any]) -> None:
        aside = self.path.with_suffix(".new")
        aside.write_text(json.dumps(state))
        os.replace(aside, self.path)

    @contextmanager
    def open(self) -> Iterator[dict[str, Any]]:
        with open(self.directory / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            state = json.loads(self.path.read_bytes())
            try:
                yield state
            finally:  # a refusal leaves its traces too
                self._write(state)


def now(state: dict[str, Any]) -> float:
    """The pretended time."""
    return state["frozen"] if state["frozen"] is not None else time.time() + state["offset"]


def stamp(moment: float | None, absent: str = "Unknown") -> str:
    """As Slurm prints times: local, without a zone."""
    return absent if moment is None else time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(moment))
