"""Proofs on a real Slurm: whatever happens to the cluster, after it every run has finished exactly once and equals that
of an undisturbed local sweep. Slow cases are started first and looked at last.

Nodes 5 and 6 are those that get hurt and node 7 is that of the slow case; other sweeps stay away from them.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cluster.backend import LaunchRequest, Resources
from cluster.batch_file import batch_payload
from cluster.slurm.profile import Profile
from jobs.facts import FailureClass, read_closed
from orchestrator.policy import Retry

pytestmark = pytest.mark.slurm

CALM = Profile(lead_s=40, exclude="node[005-007]")
HURT = Profile(lead_s=40, exclude="node[001-004,007]")
SLOW = Profile(lead_s=40, exclude="node[001-006]")


@pytest.fixture(scope="module")
def limited(proof: ModuleType, real: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A sweep whose runs are longer than their time limit; started before all else, left alone."""
    folder = tmp_path_factory.mktemp("limited")
    sweep = proof.Sweep(folder, packs=2, steps=360, step_seconds=0.25, profile=SLOW, resources={"minutes": 2})
    sweep.start()
    return sweep


@pytest.fixture(scope="module")
def commanded(real: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    """The whole command, on Slurm and then here; beside all the other cases."""
    folder = tmp_path_factory.mktemp("commanded")
    (folder / "site.yaml").write_text("exclude: node[005-007]\nlooks_per_minute: 600\nmemory_mb: 1500\n")
    script = "set -e\n"
    for backend in ("slurm", "local"):
        script += f'"$@" --root {backend} sweep compat.yaml preset=smoke --backend {backend} --yes\n'
        script += f'"$@" --root {backend} report compat-smoke --json >{backend}.json\n'
    command = [sys.executable, "-P", "-c", "from orchestrator.cli.main import main; main()"]
    env = {**os.environ, "ORCHESTRATE_SITE": str(folder / "site.yaml"), "XDG_CACHE_HOME": str(folder / "cache")}
    process = subprocess.Popen(
        ["bash", "-c", script, "commanded", *command],
        cwd=folder,
        env=env,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    yield folder, process
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


@pytest.fixture
def sweep(proof: ModuleType, limited: Any, commanded: Any, tmp_path: Path) -> Any:
    """Makes sweeps."""

    def make(profile: Profile = CALM, **options: Any) -> Any:
        return proof.Sweep(tmp_path / "s", profile=profile, **options)

    return make


def outcomes(sweep: Any) -> list[str]:
    return [closed.outcome for a in sweep.attempts() if (closed := read_closed(a.closed)) is not None]


def test_array_of_100_with_accounting_stopped_for_a_minute(
    proof: ModuleType, real: Any, sweep: Any, tmp_path: Path
) -> None:
    real.kill("slurmdbd")
    began = time.monotonic()
    s = sweep(packs=100, members=1, steps=3, step_seconds=0.01)
    policy = replace(s.policy, max_in_flight=24)
    loop = s.loop(policy=policy)
    try:
        s.until(loop, lambda report: report.done or time.monotonic() - began > 60, 90)
    finally:
        real.repair()
    s.finish(loop, 150)
    assert s.digests() == proof.local_digests(tmp_path / "l", packs=100, members=1, steps=3)
    assert len(s.attempts()) == 100


def test_scontrol_requeue(real: Any, sweep: Any) -> None:
    s = sweep(packs=2, steps=30)
    loop = s.start()
    s.until(loop, lambda _: s.begun() == 2)
    real.sh(f"scontrol requeue {s.array()}_0")
    s.finish(loop)
    assert "preempted" in outcomes(s)


def test_preemption_by_a_higher_partition_goes_on_alone(real: Any, sweep: Any) -> None:
    s = sweep(Profile(partition="preempt", sbatch={"nodelist": "node001"}), packs=1, steps=30, resources={"cpus": 16})
    loop = s.start()
    s.until(loop, lambda _: s.begun() == 1)
    real.sh("sbatch -p gpu -w node001 -c 16 -o /dev/null --wrap 'sleep 2'")
    real.until(lambda: len(s.attempts()) == 2)  # nobody ticks
    real.until(lambda: real.state(f"{s.array()}_0") in ("COMPLETED", ""))
    s.finish(s.loop())
    assert outcomes(s) == ["preempted", "completed"]
    assert len(list(s.workspace.submissions.iterdir())) == 1


def test_two_live_copies_of_one_job(real: Any, sweep: Any) -> None:
    s = sweep(HURT, packs=1, steps=150)
    loop = s.start()
    s.until(loop, lambda _: s.begun() == 1)
    job = f"{s.array()}_0"
    node, raw = real.node_of(job), real.raw(job)
    real.kill(f"slurmd.{node}")
    real.down(node)  # Slurm gives the job to another node; its first copy lives
    real.until(lambda: len(s.attempts()) == 2)
    assert real.steps(raw), "the first copy must be alive while the second runs"
    s.finish(loop)
    assert len(set(s.jobs().values())) == 1
    real.repair()
    real.back(node)


def test_kill_9_of_a_slurmd_with_its_steps(real: Any, sweep: Any) -> None:
    s = sweep(HURT, packs=2, steps=60)
    loop = s.start()
    s.until(loop, lambda _: s.begun() == 2)
    job = f"{s.array()}_0"
    node, raws = real.node_of(job), [real.raw(f"{s.array()}_{task}") for task in range(2)]
    real.kill(f"slurmd.{node}")
    killed = sum(real.kill_steps(raw) for raw in raws)
    assert killed >= 2
    s.finish(loop, 150)  # SlurmdTimeout passes, then the node is down and its jobs are queued again
    real.repair()
    real.back(node)


def test_node_down_and_back(real: Any, sweep: Any) -> None:
    s = sweep(HURT, packs=2, steps=40)
    loop = s.start()
    s.until(loop, lambda _: s.begun() == 2)
    node = real.node_of(f"{s.array()}_0")
    real.down(node)
    time.sleep(1)
    real.back(node)
    s.finish(loop)


def test_controller_killed_within_5_s_of_a_submit(real: Any, sweep: Any) -> None:
    s = sweep(packs=4, steps=20)
    loop = s.start()
    real.kill("slurmctld")
    real.repair()
    s.finish(loop, 150)


def test_scancel_by_hand_of_a_running_and_of_a_pending_element(real: Any, sweep: Any) -> None:
    profile = Profile(sbatch={"nodelist": "node002"})
    s = sweep(profile, packs=3, steps=25, resources={"cpus": 8})
    loop = s.start()
    s.until(loop, lambda _: s.begun() >= 2)
    array = s.array()
    assert real.state(f"{array}_2") == "PENDING"
    real.sh(f"scancel {array}_2")  # no record of it anywhere
    real.sh(f"scancel {array}_0")
    s.finish(loop, 150)


def test_a_held_job_waits_and_says_so(real: Any, sweep: Any) -> None:
    s = sweep(Profile(sbatch={"nodelist": "node003"}), packs=2, steps=10, resources={"cpus": 16})
    loop = s.start()
    job = f"{s.array()}_1"
    real.sh(f"scontrol hold {job}")
    s.until(loop, lambda _: len(s.finished()) == 2)  # the other pack
    held = [view.report for _, view in loop.board.live_attempts() if view.report and view.report.word == "PENDING"]
    assert ["held" in report.reason for report in held] == [True]
    real.sh(f"scontrol release {job}")
    s.finish(loop)
    assert len(s.attempts()) == 2


def test_a_failing_prolog(real: Any, sweep: Any) -> None:
    flag = real.directory / "prolog-fails.node004"
    flag.touch()
    s = sweep(Profile(exclude="node[001-003,005-007]"), packs=1, steps=10)
    try:
        loop = s.start()
        real.until(lambda: "drain" in real.sh("sinfo -h -n node004 -o %T"))
        assert real.sh(f"squeue -h -j {s.array()}_0 -o %r") == "launch failed requeued held"
    finally:
        flag.unlink()
    s.until(loop, lambda _: real.sh(f"squeue -h -j {s.array()}_0 -o %r") != "launch failed requeued held")  # released
    real.back("node004")
    s.finish(loop)
    assert len(s.attempts()) == 1


def test_out_of_memory_in_a_step(real: Any, sweep: Any) -> None:
    s = sweep(packs=1, steps=60, resources={"memory_mb": 200})
    loop = s.start()
    s.until(loop, lambda _: s.begun() == 1)
    raw = real.raw(f"{s.array()}_0")
    hog = f"{sys.executable} -c 'x = bytearray(400 << 20); import time; time.sleep(5)'"
    done = subprocess.run(f"srun --overlap --jobid={raw} --mem=100 {hog}", shell=True, capture_output=True, check=False)
    assert done.returncode != 0
    s.finish(loop)
    assert len(s.attempts()) == 1  # a step that is not ours does not decide our run


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(place)], check=True)
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk(proof: ModuleType, real: Any, limited: Any, small_disk: Path) -> None:
    disk = Retry(5, 1.0)
    policy = replace(proof.FAST, retries={**proof.FAST.retries, FailureClass.DISK: disk, FailureClass.UNKNOWN: disk})
    s = proof.Sweep(small_disk, packs=1, steps=40, profile=CALM, policy=policy)
    loop = s.start()
    s.until(loop, lambda _: s.begun() == 1)
    full = small_disk / "full"
    fill(full)
    real.until(lambda: any(a.exit.exists() or a.closed.exists() for a in s.attempts()) or not loop_live(real, s))
    full.unlink()
    s.finish(loop)
    assert len(s.attempts()) >= 2


def fill(path: Path) -> None:
    """Take all the room there is."""
    with open(path, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


def loop_live(real: Any, sweep: Any) -> bool:
    return real.state(f"{sweep.array()}_0") in ("RUNNING", "COMPLETING", "PENDING")


def test_the_launcher_killed_at_random_points(proof: ModuleType, real: Any, sweep: Any) -> None:
    s = sweep(packs=12, members=1, steps=12)
    dice = random.Random(int(os.environ.get("PROOF_SEED", "1")))
    policy = replace(s.policy, max_in_flight=4)
    moments = []  # (attempts, answers, finished runs) at each kill: they must hit linking, submitting and training
    answers = lambda: len(list(s.workspace.submissions.glob("*/answer.json")))  # noqa: E731
    for stage in (
        lambda: s.attempts(),
        lambda: list(s.workspace.submissions.glob("*/array-0.json")),
        lambda: answers() >= 1,
        lambda: len(s.finished()) >= 1,
        lambda: len(s.finished()) >= 5,
    ):
        process = proof.launcher(s, max_in_flight=4)
        real.until(stage)
        time.sleep(dice.uniform(0.0, 0.2))
        process.send_signal(signal.SIGKILL)
        process.wait()
        moments.append((len(s.attempts()), answers(), len(s.finished())))
    s.finish(s.loop(policy=policy))
    assert len(set(moments)) >= 3, moments
    assert len(s.attempts()) == 12, s.story()


def test_two_nodes_with_a_process_a_gpu(proof: ModuleType, real: Any, sweep: Any, tmp_path: Path) -> None:
    """Ranks, one rendezvous, a device each; the warning reaches every rank, the batch shell asks for the requeue."""
    place = tmp_path / "run"
    place.mkdir()
    code = (
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGUSR2, lambda n, f: sys.exit(75))\n"
        "names = ('RANK', 'WORLD_SIZE', 'MASTER_ADDR', 'MASTER_PORT', 'CUDA_VISIBLE_DEVICES')\n"
        "print(*[os.environ[name] for name in names], flush=True)\n"
        "time.sleep(0 if os.environ.get('SLURM_RESTART_COUNT') else 60)\n"
    )
    request = LaunchRequest(
        "orc-p1-a1",
        (sys.executable, "-P", "-c", code),
        str(place),
        str(place / "log.txt"),
        str(place / "exit.json"),
        resources=Resources(cpus=2, gpus=2, nodes=2),
    )
    directory = tmp_path / "submissions" / f"b{time.time_ns():x}"
    directory.mkdir(parents=True)
    (directory / "batch.json").write_text(json.dumps(batch_payload(directory.name, [request])))
    backend = proof.Sweep(tmp_path / "s", profile=CALM).backend()
    (handle,) = backend.submit(str(directory), [request])
    logs = [place / "log.txt", *(place / f"log.txt.rank{rank}" for rank in range(1, 4))]
    real.until(lambda: all(log.exists() and log.read_text() for log in logs))
    said = [log.read_text().split() for log in logs]
    assert [words[0] for words in said] == ["0", "1", "2", "3"]
    assert {tuple(words[1:4]) for words in said} == {tuple(said[0][1:4])}
    assert said[0][1] == "4"
    assert said[0][4] != said[1][4]
    real.sh(f"scancel --signal=USR2 --batch {handle.id}")  # as Slurm does before a time limit
    real.until(lambda: real.state(handle.id) == "COMPLETED")
    assert all(len(log.read_text().splitlines()) == 2 for log in logs)


def test_time_limit_with_resume(real: Any, limited: Any) -> None:
    """Started first; nobody has ticked since."""
    array = limited.array()
    real.until(lambda: all(real.state(f"{array}_{task}") in ("COMPLETED", "") for task in range(2)), 200)
    limited.finish(limited.loop())
    assert len(list(limited.workspace.submissions.iterdir())) == 1
    assert len(limited.attempts()) >= 4
    assert outcomes(limited).count("completed") == 2


def test_the_command_on_slurm_gives_the_matrix_of_the_local_one(commanded: Any) -> None:
    folder, process = commanded
    _, said = process.communicate(timeout=200)
    assert process.returncode == 0, said
    there, here = (json.loads((folder / f"{backend}.json").read_text()) for backend in ("slurm", "local"))
    assert there["cells"]
    assert there["cells"] == here["cells"]


def test_no_copy_is_left(real: Any) -> None:
    end = time.monotonic() + 40
    while left := real.sh("squeue -h -o '%i %j %T %r %M %N'"):
        assert time.monotonic() < end, left
        time.sleep(0.5)
