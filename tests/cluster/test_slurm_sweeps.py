"""Whole sweeps on the fake Slurm: whatever the cluster does, every run finishes exactly once, bit-identical.

The same cases on the real one: tests/slurm/test_real_slurm.py.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import orjson

from cluster.backend import LaunchRequest, Resources
from cluster.batch_file import batch_payload
from cluster.fake_slurm.control import FakeSlurm
from jobs.durable import replace_file
from jobs.facts import read_closed
from jobs.state import RunState
from orchestrator.requests import write_request


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


def test_a_loop_that_looks_on_leaves_a_requeued_job_alone(proof: ModuleType, slurm: FakeSlurm, tmp_path: Path) -> None:
    sweep = proof.Sweep(tmp_path / "s", packs=1, steps=40, resources={"minutes": 1})
    loop = sweep.start()
    sweep.until(loop, lambda _: sweep.begun() == 1)
    slurm.advance(35)
    sweep.finish(loop)
    assert len(sweep.attempts()) == 2
    assert slurm.calls["sbatch"] == 1, "the requeued job's shim launched the second attempt"


def wait_for(what: Any, slurm: FakeSlurm, seconds: float = 40.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, slurm.jobs()
        slurm.tick()
        time.sleep(0.1)


def test_a_warning_to_one_element_of_an_array_queues_no_other_again(
    proof: ModuleType, slurm: FakeSlurm, tmp_path: Path
) -> None:
    sweep = proof.Sweep(tmp_path / "s", packs=3, members=1, steps=30, hold_at=10)
    loop = sweep.start()
    sweep.until(loop, lambda _: sweep.begun() == 3)
    array = sweep.array()
    (element,) = [id for id, job in slurm.jobs().items() if str(job["raw"]) == array]  # it has the array's own id
    subprocess.run(["scancel", "--signal=USR2", "--batch", element], check=True)
    sweep.go_on()
    sweep.finish(loop)
    again = int(element.partition("_")[2])
    assert [len(sweep.workspace.attempts(pack)) for pack in sweep.packs] == [1 + (n == again) for n in range(3)]
    assert sum(job["restarts"] for job in slurm.jobs().values()) == 1


def test_a_failed_node_is_named_and_counts_against_itself(proof: ModuleType, slurm: FakeSlurm, tmp_path: Path) -> None:
    sweep = proof.Sweep(tmp_path / "s", packs=1, steps=30)
    loop = sweep.start()
    sweep.until(loop, lambda _: sweep.begun() == 1)
    job = f"{sweep.array()}_0"
    node = slurm.jobs()[job]["nodes"][0]
    slurm.fail_node(node)
    wait_for(lambda: len(sweep.attempts()) == 2, slurm)
    slurm.return_node(node)
    wait_for(lambda: not slurm.live(), slurm)
    sweep.finish(loop)
    closed = read_closed(sweep.attempts()[0].closed)
    assert closed is not None
    assert (closed.by, closed.outcome, closed.failure) == ("shim", "lost", "node_failure")
    assert closed.evidence["node"] == node
    assert node in closed.message


def test_two_live_copies_and_only_one_writes(proof: ModuleType, slurm: FakeSlurm, tmp_path: Path) -> None:
    sweep = proof.Sweep(tmp_path / "s", packs=1, steps=60)
    loop = sweep.start()
    sweep.until(loop, lambda _: sweep.begun() == 1)
    slurm.fail_node(slurm.jobs()[f"{sweep.array()}_0"]["nodes"][0], processes_live=True)
    sweep.finish(loop)
    assert "lost" in [outcome for _, outcome, _ in closings(sweep)]


def test_a_cancelled_run_whose_job_is_queued_again_while_no_loop_looks_does_not_come_back(
    proof: ModuleType, slurm: FakeSlurm, tmp_path: Path
) -> None:
    sweep = proof.Sweep(tmp_path / "s", packs=1, members=1, steps=30, hold_at=10)
    loop = sweep.start()
    sweep.until(loop, lambda _: sweep.begun() == 1)
    write_request(sweep.workspace, "cancel", dict.fromkeys(sweep.seeds, 1))
    slurm.preempt(f"{sweep.array()}_0")  # at the very moment when the loop asks it to leave, and ends
    loop.tick()
    (attempt,) = sweep.attempts()
    wait_for(attempt.closed.exists, slurm)
    del loop
    report = sweep.until(sweep.loop(), lambda report: report.done, fake=slurm)
    assert report.total(RunState.CANCELLED) == 1
    assert sweep.in_queue() == []
    assert slurm.jobs()[f"{sweep.array()}_0"]["state"] == "CANCELLED"
    assert len(sweep.attempts()) == 1


def test_a_job_that_is_queued_again_after_its_runs_have_finished_is_taken_out(
    proof: ModuleType, slurm: FakeSlurm, tmp_path: Path
) -> None:
    sweep = proof.Sweep(tmp_path / "s", packs=2, members=1, steps=4, step_seconds=0.0)
    sweep.finish(sweep.loop())
    slurm.switch(execute=False)
    subprocess.run(["scontrol", "requeue", f"{sweep.array()}_0"], check=True)  # trap 8: a success is run again
    assert sweep.in_queue()
    sweep.finish(sweep.loop())
    assert slurm.jobs()[f"{sweep.array()}_0"]["state"] == "CANCELLED"
    assert len(sweep.attempts()) == 2


def test_a_controller_that_forgets_what_it_accepted(proof: ModuleType, slurm: FakeSlurm, tmp_path: Path) -> None:
    slurm.switch(execute=False)
    sweep = proof.Sweep(tmp_path / "s", packs=2, steps=4, step_seconds=0.0)
    loop = sweep.start()
    slurm.crash_controller()
    slurm.switch(execute=True)
    sweep.finish(loop)


def test_scancel_by_hand_of_a_running_and_of_a_pending_element(
    proof: ModuleType, slurm: FakeSlurm, tmp_path: Path
) -> None:
    sweep = proof.Sweep(tmp_path / "s", packs=6, members=1, steps=15, resources={"cpus": 16})
    loop = sweep.start()
    sweep.until(loop, lambda _: sweep.begun() >= 2)
    array = sweep.array()
    for task in (0, 5):
        subprocess.run(["scancel", f"{array}_{task}"], check=True)
    sweep.finish(loop)


def test_four_ranks_are_warned_and_the_shell_asks_once(proof: ModuleType, slurm: FakeSlurm, tmp_path: Path) -> None:
    """Complaint 3.02: every rank leaves with the agreed code; none of them asks for a requeue."""
    place = tmp_path / "run"
    place.mkdir()
    code = (
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGUSR2, lambda n, f: sys.exit(75))\n"
        "signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR2])\n"
        "print('up', os.environ['RANK'], os.environ.get('SLURM_RESTART_COUNT', '0'), flush=True)\n"
        "time.sleep(0 if os.environ.get('SLURM_RESTART_COUNT') else 60)\n"
    )
    request = LaunchRequest(
        "orc-p1-a1",
        (sys.executable, "-P", "-c", code),
        str(place),
        str(place / "log.txt"),
        str(place / "exit.json"),
        resources=Resources(cpus=2, gpus=2, nodes=2, minutes=1),
    )
    directory = tmp_path / "submissions" / "b1"
    directory.mkdir(parents=True)
    replace_file(directory / "batch.json", orjson.dumps(batch_payload("b1", [request])))
    backend = proof.Sweep(tmp_path / "s").backend()
    (handle,) = backend.submit(str(directory), [request])
    logs = [place / "log.txt", *(place / f"log.txt.rank{rank}" for rank in range(1, 4))]
    wait_for(lambda: all(log.exists() and "up" in log.read_text() for log in logs), slurm)
    slurm.advance(35)
    wait_for(lambda: slurm.jobs()[handle.id]["state"] == "COMPLETED", slurm)
    assert slurm.jobs()[handle.id]["restarts"] == 1
    assert [log.read_text().split() for log in logs] == [["up", str(r), "0", "up", str(r), "1"] for r in range(4)]
    assert slurm.calls["scontrol"] >= 1
