"""On a node: ranks, devices, ports, and whether the job got what it asked for."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cluster import ports, ranks
from cluster.slurm import node
from cluster.slurm.requeue import Stop
from jobs.facts import read_closed
from jobs.workspace import AttemptDir


@pytest.mark.parametrize(
    ("devices", "processes", "shares"),
    [
        ("0,1,2,3", 4, ["0", "1", "2", "3"]),
        ("2,3", 4, ["2", "2", "3", "3"]),
        ("0,1,2,3", 2, ["0,1", "2,3"]),
        ("5", 2, ["5", "5"]),
        ("GPU-a,GPU-b,GPU-c", 2, ["GPU-a,GPU-b", "GPU-c"]),
    ],
)
def test_6_06_devices_are_shared_out_and_never_widened(devices: str, processes: int, shares: list[str]) -> None:
    given = devices.split(",")
    assert [",".join(ranks.share(given, processes, index)) for index in range(processes)] == shares


def test_6_11_one_device_stays_one_device() -> None:
    env = {"SLURM_NTASKS": "2", "SLURM_PROCID": "1", "SLURM_LOCALID": "1", "CUDA_VISIBLE_DEVICES": "3"}
    assert node.rank_variables(env)["CUDA_VISIBLE_DEVICES"] == "3"


def test_torch_variables_of_a_job_of_two_nodes() -> None:
    env = {
        "SLURM_NTASKS": "8", "SLURM_PROCID": "5", "SLURM_LOCALID": "1", "SLURM_NODEID": "1", "SLURM_NNODES": "2",
        "MASTER_ADDR": "node001", "MASTER_PORT": "15001", "CUDA_VISIBLE_DEVICES": "0,1,2,3",
    }  # fmt: skip
    found = node.rank_variables(env)
    assert found["RANK"] == "5"
    assert (found["WORLD_SIZE"], found["LOCAL_WORLD_SIZE"], found["GROUP_RANK"]) == ("8", "4", "1")
    assert (found["MASTER_ADDR"], found["MASTER_PORT"]) == ("node001", "15001")
    assert found["CUDA_VISIBLE_DEVICES"] == "1"  # its own device, which torch then counts as number 0
    assert (found["LOCAL_RANK"], found["ORCHESTRATE_LOCAL_RANK"]) == ("0", "1")


def test_a_single_process_needs_no_ranks() -> None:
    assert node.rank_variables({"SLURM_PROCID": "0", "CUDA_VISIBLE_DEVICES": "0,1"}) == {}


def test_6_04_a_taken_port_is_passed_over() -> None:
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        with socket.socket() as other:
            other.bind(("", 0))
            free = other.getsockname()[1]
        assert ports.free_port([port, free]) == free
        with pytest.raises(OSError, match="every port"):
            ports.free_port([port])


def test_6_05_ports_lie_outside_the_range_of_connections() -> None:
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    found = [int(subprocess.check_output([sys.executable, "-P", "-m", "cluster.ports"])) for _ in range(2)]
    found += [ports.free_port() for _ in range(20)]
    assert all(1024 < port < max(low, ports.FIRST + 1) for port in found)
    assert len(set(found)) > 15


GOT = {"cpus_on_node": 4, "affinity": 4, "machine_cpus": 64, "gpus": 2, "devices": "0,1", "node": "node001"}


@pytest.mark.parametrize(
    ("change", "asked", "says"),
    [
        ({}, {"cpus": 4, "gpus": 2}, None),
        ({}, {"cpus": 1, "gpus": 0}, None),
        ({"cpus_on_node": 2}, {"cpus": 4}, "2 CPUs instead of 4"),
        ({"affinity": 1}, {"cpus": 4}, "bound to 1 cores instead of 4"),
        ({"affinity": 2, "machine_cpus": 2}, {"cpus": 4}, None),
        ({"gpus": 1, "devices": "0"}, {"cpus": 4, "gpus": 2}, "1 GPUs"),
        ({"gpus": 0, "devices": ""}, {"cpus": 4, "gpus": 2}, "none"),
        ({"memory_mb": 4000, "memory_limit_mb": None}, {"cpus": 4, "memory_mb": 4000}, None),
        ({"memory_mb": 0, "memory_limit_mb": None}, {"cpus": 4, "memory_mb": 4000}, None),
        ({"memory_mb": 2000, "memory_limit_mb": 4000}, {"cpus": 4, "memory_mb": 4000}, "2000 MB of memory instead"),
        ({"memory_mb": 4000, "memory_limit_mb": 1000}, {"cpus": 4, "memory_mb": 4000}, "1000 MB of memory instead"),
        ({"memory_mb": 4000, "memory_limit_mb": 1000}, {"cpus": 4}, None),
    ],
)
def test_6_02_what_was_given_is_compared_with_what_was_asked(
    change: dict[str, Any], asked: dict[str, Any], says: str | None
) -> None:
    wrong = node.differences(asked, {**GOT, **change})
    assert not wrong if says is None else says in wrong[0]


def entry(folder: Path, **changes: Any) -> dict[str, Any]:
    place = AttemptDir(folder / "p1" / "a1")
    place.path.mkdir(parents=True)
    place.launch.write_text(json.dumps({"members": [], "name": "orc-p1-a1", "attempt": 1}))
    return {
        "name": "orc-p1-a1", "argv": [], "env": {"X": "1"}, "cwd": str(place.path), "log": str(place.log),
        "record": str(place.exit), "claim": str(place.claimed), "cpus": 1, "gpus": 0, **changes,
    }  # fmt: skip


def test_a_wrong_allocation_closes_the_attempt(tmp_path: Path) -> None:
    with pytest.raises(Stop) as caught:
        node.prepare(entry(tmp_path, gpus=2), {"SLURM_JOB_ID": "1", "SLURMD_NODENAME": "node009"}, "orc-p1-a1/1_0/0")
    assert caught.value.code == node.WRONG
    closed = read_closed(tmp_path / "p1" / "a1" / "closed.json")
    assert closed is not None
    assert (closed.by, str(closed.failure)) == ("shim", "wrong_allocation")
    assert "node009: 0 GPUs" in closed.message


def test_6_09_a_device_that_is_not_empty_is_a_dirty_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho '0, 3'\necho '1, 70123'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    with pytest.raises(Stop, match="device 1 holds 70123 MB") as caught:
        node.prepare(entry(tmp_path, gpus=2), {"SLURM_JOB_ID": "1", "CUDA_VISIBLE_DEVICES": "0,1"}, "t")
    assert caught.value.code == node.DIRTY
    closed = read_closed(tmp_path / "p1" / "a1" / "closed.json")
    assert closed is not None
    assert str(closed.failure) == "dirty_node"


def test_what_was_given_is_handed_on(tmp_path: Path) -> None:
    prepared = node.prepare(entry(tmp_path), {"SLURM_JOB_ID": "5", "SLURM_CPUS_ON_NODE": "2"}, "t")
    got = json.loads(prepared["env"]["ORCHESTRATE_ALLOCATION"])
    assert (got["job"], got["cpus_on_node"]) == ("5", 2)
    assert got["affinity"] == len(os.sched_getaffinity(0))
    assert prepared["env"]["X"] == "1"


def test_other_ranks_keep_apart_what_they_say(tmp_path: Path) -> None:
    env = {"SLURM_JOB_ID": "5", "SLURM_NTASKS": "2", "SLURM_PROCID": "1", "SLURM_LOCALID": "1"}
    prepared = node.prepare(entry(tmp_path, ranks=2), env, "t")
    assert prepared["ranks"] == 1, "Slurm starts the others"
    assert prepared["log"].endswith("log.txt.rank1")
    assert prepared["record"].endswith("exit.json.rank1")
    assert prepared["claim"] == ""
    assert prepared["env"]["RANK"] == "1"


def test_the_first_rank_looks_for_what_the_others_left(tmp_path: Path) -> None:
    env = {"SLURM_JOB_ID": "5", "SLURM_NTASKS": "2", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
    prepared = node.prepare(entry(tmp_path, ranks=2), env, "t")
    assert (prepared["ranks"], prepared["peers"]) == (1, 2)


def test_a_job_of_one_task_starts_its_ranks_by_itself(tmp_path: Path) -> None:
    """And what surrounds a job of one process (an allocation of several tasks) makes no ranks of it."""
    env = {"SLURM_JOB_ID": "5", "SLURM_NTASKS": "1", "SLURM_PROCID": "0"}
    assert node.prepare(entry(tmp_path, ranks=2), env, "t")["ranks"] == 2
    alone = node.prepare(entry(tmp_path / "b"), {**env, "SLURM_NTASKS": "4"}, "t")
    assert "RANK" not in alone["env"]


def test_a_rank_of_a_restarted_job_waits_for_the_first_to_close_what_was_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt of the start before stays open until rank 0 has closed it: it is not ours to go on with."""
    env = {"SLURM_JOB_ID": "5", "SLURM_RESTART_COUNT": "1", "SLURM_NTASKS": "2", "SLURM_PROCID": "1"}
    given = entry(tmp_path, ranks=2)
    before = AttemptDir(tmp_path / "p1" / "a1")
    before.launch.write_text(json.dumps({"members": [{"run": "r1"}], "name": "orc-p1-a1", "attempt": 1}))
    before.claimed.write_text(json.dumps({"job": "orc-p1-a1/5/0"}))
    monkeypatch.setattr(node, "FOLLOW_S", 0.5)
    with pytest.raises(Stop, match="rank 0 did not go on"):
        node.prepare(given, env, "orc-p1-a1/5/1")
    node.take_over(given, "orc-p1-a1/5/1")  # as rank 0's shim does
    assert node.prepare(given, env, "orc-p1-a1/5/1")["log"] == str(tmp_path / "p1" / "a2" / "log.txt.rank1")
