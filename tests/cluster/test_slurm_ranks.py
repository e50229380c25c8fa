"""Runs of several ranks on the fake Slurm: a shim for each, one attempt, and goings-on with no orchestrator alive.

The same with real training on a real Slurm: tests/slurm/test_real_ranks.py.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from cluster.fake_slurm.control import FakeSlurm
from jobs.facts import FailureClass, read_closed
from jobs.workspace import AttemptDir

TWO_NODES = {"nodes": 2, "processes": 1, "cpus": 1}


def wait_for(condition: Callable[[], Any], slurm: FakeSlurm, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.1)
        slurm.advance(1.0)


def process_of(attempt: AttemptDir, rank: int) -> int:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                environ = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"jobs.worker" in words and str(attempt.path).encode() in words and b"RANK=%d" % rank in environ:
                return int(entry.name)
    raise AssertionError(f"no process of rank {rank}")


def test_two_ranks_are_preempted_and_go_on_alone(proof: ModuleType, slurm: FakeSlurm, tmp_path: Path) -> None:
    """Rank 0's shim closes the attempt before and launches the next; the other's follows it there."""
    sweep = proof.Sweep(tmp_path / "s", packs=1, steps=60, resources=TWO_NODES)
    loop = sweep.start()
    sweep.until(loop, lambda _: sweep.begun() == 1)
    slurm.preempt(f"{sweep.array()}_0")
    wait_for(lambda: len(sweep.attempts()) == 2, slurm)
    wait_for(lambda: not slurm.live(), slurm)
    sweep.finish(sweep.loop())
    first, second = sweep.attempts()
    records = [read_closed(attempt.closed) for attempt in (first, second)]
    assert [record.outcome for record in records if record is not None] == ["preempted", "completed"]
    assert sorted(second.logs()) == [0, 1]
    assert "rank 1 of 2" in second.of_rank(second.log, 1).read_text()


def test_4_10_a_rank_of_another_node_is_killed(proof: ModuleType, slurm: FakeSlurm, tmp_path: Path) -> None:
    """Rank 0 only notices; what its shim leaves tells of the one that was killed, and where that was."""
    sweep = proof.Sweep(tmp_path / "s", packs=1, steps=60, resources=TWO_NODES)
    loop = sweep.start()
    sweep.until(loop, lambda _: sweep.begun() == 1)
    first = sweep.attempts()[0]
    os.kill(process_of(first, 1), signal.SIGKILL)
    sweep.finish(loop)
    left = json.loads(first.exit.read_text())
    assert (left["rank"], left["signal"], left["ranks"], left["silent"]) == (1, signal.SIGKILL, 2, [])
    record = read_closed(first.closed)
    assert record is not None
    assert record.failure is FailureClass.LOST
    assert record.message.startswith("rank 1: killed by SIGKILL")
