"""The Try lines about running jobs (sections 3 and 6 of the complaints): any command, races, clocks, devices, and
neighbours on one machine. See also test_slurm_complaints.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import orjson
import psutil
import pytest

from cluster.backend import LaunchRequest, Resources
from cluster.batch_file import batch_payload
from cluster.fake_slurm.control import FakeSlurm
from cluster.slurm.commands import clean_environment
from jobs.durable import replace_file
from jobs.facts import read_claimed, read_closed, read_facts, read_heartbeat

TRAIN = """\
step=$(cat step 2>/dev/null || echo 0)
echo "from $step"
trap 'echo $step >step; exit 75' USR2
while [ $step -lt 50 ]; do sleep 0.1 & wait $!; step=$((step + 1)); done
echo "done at $step"
"""


def until(slurm: FakeSlurm, what: Callable[[], object], seconds: float = 40.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, slurm.jobs()
        slurm.tick()
        time.sleep(0.1)


def hand_over(proof: ModuleType, folder: Path, *argv: str, resources: Resources) -> tuple[Path, str]:
    """Any command as a job: (its folder, its job)."""
    place = folder / "run"
    place.mkdir(exist_ok=True)
    files = str(place), str(place / "log"), str(place / "exit.json")
    request = LaunchRequest("orc-p1-a1", argv, *files, resources=resources)
    directory = folder / "submissions" / "b1"
    directory.mkdir(parents=True)
    replace_file(directory / "batch.json", orjson.dumps(batch_payload("b1", [request])))
    (handle,) = proof.Sweep(folder / "s").backend().submit(str(directory), [request])
    return place, handle.id


# 3. Limits, preemption, signals


def test_3_01_any_command_that_saves_and_leaves_is_queued_again(
    proof: ModuleType, slurm: FakeSlurm, tmp_path: Path
) -> None:
    """A shell command was never requeued after a time-out: only objects with a checkpoint method were."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "train.sh").write_text(TRAIN)
    place, job = hand_over(proof, tmp_path, "bash", "train.sh", resources=Resources(minutes=1))
    log = place / "log"
    until(slurm, lambda: log.exists() and "from 0" in log.read_text())
    time.sleep(0.5)  # some steps
    slurm.advance(35)  # it is warned half a minute before its limit
    until(slurm, lambda: slurm.jobs()[job]["state"] == "COMPLETED")
    assert slurm.jobs()[job]["restarts"] == 1
    words = log.read_text().split()
    assert words[:3] == ["from", "0", "from"]
    assert 0 < int(words[3]) < 50, "the second job starts where the first one left"
    assert words[4:] == ["done", "at", "50"]


def test_3_07_two_workers_race_for_one_rescheduled_run(proof: ModuleType, slurm: FakeSlurm, tmp_path: Path) -> None:
    """A rescheduled experiment could be picked up by another job."""
    slurm.switch(execute=False)
    sweep = proof.Sweep(tmp_path / "s", packs=1, members=1, steps=5, step_seconds=0.05)
    sweep.start()
    (attempt,) = sweep.attempts()
    tokens = [f"orc-{attempt.pack}-a1/7_0/1", f"orc-{attempt.pack}-a1/9_0/0"]
    racers = [
        subprocess.Popen(
            [sys.executable, "-P", "-m", "jobs.worker", str(attempt.path)],
            env={**os.environ, "ORCHESTRATE_JOB": token},
            stderr=subprocess.PIPE,
            text=True,
        )
        for token in tokens
    ]
    said = [racer.communicate(timeout=60)[1] for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0]
    claimed = read_claimed(attempt.claimed)
    assert claimed is not None
    winner = tokens.index(claimed.job)
    assert "is claimed or closed already" in said[1 - winner]
    assert [fact.fact for fact in read_facts(attempt.facts)[0]].count("started") == 1
    sweep.check()


# 2. Knowing


def test_2_11_a_child_killed_for_memory_while_its_parent_exits_0(
    proof: ModuleType, slurm: FakeSlurm, tmp_path: Path
) -> None:
    """The job was filed as success with one sample silently missing. Slurm calls it COMPLETED; we need the result."""
    mark, enter = tmp_path / "mark", tmp_path / "enter"
    enter.write_text(
        f'#!/bin/sh\nif [ ! -e {mark} ]; then touch {mark} "$FAKE_SLURM_RUN.note-oom-step"; exit 0; fi\nexec "$@"\n'
    )
    enter.chmod(0o755)
    profile = proof.Profile(lead_s=40, container=(str(enter),))
    sweep = proof.Sweep(tmp_path / "s", packs=1, members=1, steps=3, profile=profile)
    sweep.finish(sweep.loop())
    first, second = [read_closed(attempt.closed) for attempt in sweep.attempts()]
    assert first is not None
    assert second is not None
    assert slurm.jobs()[f"{sweep.array()}_0"]["state"] == "COMPLETED"
    assert first.outcome == "failed"
    assert second.outcome == "completed"


def test_2_13_the_trainers_clock_is_five_minutes_behind(
    proof: ModuleType, slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pulse file looked stale, and the task was declared dead."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys, time\n"
        "if 'jobs.worker' in sys.orig_argv:\n"
        "    right = time.time\n"
        "    time.time = lambda: right() - 300\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    sweep = proof.Sweep(tmp_path / "s", packs=2, members=1, steps=20)
    sweep.finish(sweep.loop())
    assert len(sweep.attempts()) == 2
    beats = [read_heartbeat(attempt.heartbeat) for attempt in sweep.attempts()]
    assert all(beat is not None and 250 < time.time() - beat.time < 600 for beat in beats), "its clock was wrong indeed"


# 6. Environment, devices, neighbours


def test_6_02_a_binding_of_the_caller_does_not_reach_the_worker_which_says_what_it_has(
    proof: ModuleType, slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An inherited binding pinned all ranks to a few cores, for days."""
    monkeypatch.setenv("SLURM_CPU_BIND", "mask_cpu:0x1")
    monkeypatch.setenv("SLURM_CPU_BIND_TYPE", "mask_cpu:")
    sweep = proof.Sweep(tmp_path / "s", packs=2, members=1, steps=3, step_seconds=0.0)
    sweep.finish(sweep.loop())
    (spec,) = slurm.state["specs"].values()
    assert not [name for name in spec["env"] if "CPU_BIND" in name]
    for attempt in sweep.attempts():
        started = next(fact for fact in read_facts(attempt.facts)[0] if fact.fact == "started")
        given = started.environment["allocation"]
        assert given["affinity"] == len(os.sched_getaffinity(0))
        assert given["cpus_on_node"] >= 1


def test_6_07_two_sweeps_on_one_machine_share_nothing(
    proof: ModuleType, slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two heads on one machine: clashing ports, shared temporary folders."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    sweeps = [proof.Sweep(tmp_path / name, packs=2, members=1, steps=10) for name in ("one", "two")]
    loops = [sweep.start() for sweep in sweeps]
    assert len(slurm.jobs()) == 4, "the same runs, in two workspaces"
    for sweep, loop in zip(sweeps, loops, strict=True):
        sweep.finish(loop)
        assert len(sweep.attempts()) == 2
    jobs = [set(sweep.jobs().values()) for sweep in sweeps]
    assert jobs[0].isdisjoint(jobs[1])
    assert list(temporary.iterdir()) == []


def test_6_08_what_somebody_else_started_first_is_never_attached_to(
    proof: ModuleType, slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job attached to another user's service that it had discovered on its node."""
    slurm.switch(execute=False)
    foreign = proof.Sweep(tmp_path / "foreign", packs=2, members=1)
    foreign.start()
    names = [f"orc-{attempt.pack}-a1" for attempt in foreign.attempts()]
    assert len(foreign.backend().find(names)) == 2
    ours = proof.Sweep(tmp_path / "ours", packs=2, members=1)
    assert [f"orc-{pack}-a1" for pack in ours.packs] == names, "the same names"
    assert ours.backend().find(names) == {}
    for name in ("MASTER_ADDR", "MASTER_PORT", "RAY_ADDRESS", "RANK", "WORLD_SIZE"):
        monkeypatch.setenv(name, "elsewhere")
    ours.start()
    assert len(slurm.jobs()) == 4
    assert not {"MASTER_ADDR", "MASTER_PORT", "RAY_ADDRESS"} & clean_environment(os.environ).keys()
    assert all("elsewhere" not in spec["env"].values() for spec in list(slurm.state["specs"].values())[1:])


def test_6_09_children_that_ignore_term_are_gone_with_their_job(
    proof: ModuleType, slurm: FakeSlurm, tmp_path: Path
) -> None:
    """Cancelled jobs left data workers that held whole GPUs."""
    settings = {"toy": {"children": 8}}
    sweep = proof.Sweep(tmp_path / "s", packs=1, members=1, steps=400, settings=settings)
    loop = sweep.start()
    sweep.until(loop, lambda _: sweep.begun() == 1)
    claimed = read_claimed(sweep.attempts()[0].claimed)
    assert claimed is not None
    children = psutil.Process(claimed.pid).children()
    assert len(children) == 8
    subprocess.run(["scancel", f"{sweep.array()}_0"], check=True)
    until(slurm, lambda: not any(child.is_running() for child in children), 20)


def test_6_11_one_device_stays_one_device_for_four_runs(proof: ModuleType, slurm: FakeSlurm, tmp_path: Path) -> None:
    """The launcher overrode the device variable that it was given."""
    code = "import os, json; print(json.dumps([os.environ['RANK'], os.environ['CUDA_VISIBLE_DEVICES']]), flush=True)"
    resources = Resources(cpus=4, gpus=1, processes=4)
    place, job = hand_over(proof, tmp_path, sys.executable, "-P", "-c", code, resources=resources)
    until(slurm, lambda: slurm.jobs()[job]["state"] == "COMPLETED")
    said = [json.loads(line) for path in place.glob("log*") for line in path.read_text().splitlines() if line[0] == "["]
    assert sorted(said) == [[str(rank), "0"] for rank in range(4)]
