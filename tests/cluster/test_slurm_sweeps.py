"""Whole sweeps on the fake Slurm: whatever the cluster does, every run finishes exactly once, bit-identical.

The same cases on the real one: tests/slurm/test_real_slurm.py.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

from cluster.fake_slurm.control import FakeSlurm
from jobs.facts import read_closed


def closings(sweep: Any) -> list[tuple[str, str, str | None]]:
    found = []
    for attempt in sweep.attempts():
        closed = read_closed(attempt.closed)
        assert closed is not None
        found.append((closed.by, closed.outcome, closed.failure))
    return found


def test_an_undisturbed_sweep_equals_a_local_one(proof: ModuleType, slurm: FakeSlurm, tmp_path: Path) -> None:
    sweep = proof.Sweep(tmp_path / "s", packs=6, steps=8, step_seconds=0.02)
    sweep.finish(sweep.loop())
    assert sweep.digests() == proof.local_digests(tmp_path / "l", packs=6, steps=8)
    assert slurm.calls["sbatch"] == 1
    assert set(closings(sweep)) == {("worker", "completed", None)}


def test_a_requeue_goes_on_with_no_orchestrator_alive(proof: ModuleType, slurm: FakeSlurm, tmp_path: Path) -> None:
    sweep = proof.Sweep(tmp_path / "s", packs=2, steps=30)
    loop = sweep.start()
    sweep.until(loop, lambda _: sweep.begun() == 2)
    array = sweep.array()
    for task in range(2):
        slurm.preempt(f"{array}_{task}")
    wait_for(lambda: len(sweep.attempts()) == 4, slurm)
    wait_for(lambda: not slurm.live(), slurm)
    assert sorted(set(closings(sweep))) == [("worker", "completed", None), ("worker", "preempted", "preempted")]
    sweep.finish(sweep.loop())
    assert slurm.calls["sbatch"] == 1


def test_a_time_limit_is_requeued_by_the_batch_shell(proof: ModuleType, slurm: FakeSlurm, tmp_path: Path) -> None:
    sweep = proof.Sweep(tmp_path / "s", packs=1, steps=40, resources={"minutes": 1})
    loop = sweep.start()
    sweep.until(loop, lambda _: sweep.begun() == 1)
    slurm.advance(35)  # 25 s before the limit; the lead of a short limit is half of it
    wait_for(lambda: len(sweep.attempts()) == 2, slurm)
    wait_for(lambda: not slurm.live(), slurm)
    sweep.finish(loop)
    assert slurm.calls["sbatch"] == 1
    assert slurm.jobs()[f"{sweep.array()}_0"]["restarts"] == 1


def wait_for(what: Any, slurm: FakeSlurm, seconds: float = 40.0) -> None:
    import time

    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, slurm.jobs()
        slurm.tick()
        time.sleep(0.1)
