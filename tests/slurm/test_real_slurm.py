"""Proofs on a real Slurm: whatever happens to the cluster, after it every run has finished exactly once, equals that of
an undisturbed local sweep of the same packs, and nothing is left in the queue. Slow cases are started first and looked
at last.

What is hurt here is a pack of toy runs, whose results depend on every step of their state as a trainer's do (a step
that is skipped or done twice changes all that follows); the trainer itself is hurt in the last case but one.

Nodes 5 and 6 are those that get hurt or filled and node 7 is that of the slow case; other sweeps stay away from them.
Waits are for conditions, with deadlines for a machine that has other things to do. Where something is to be done to a
run, the run waits for it (``hold_at``).
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

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(900)]

CALM = Profile(lead_s=40, exclude="node[005-007]")
HURT = Profile(lead_s=40, exclude="node[001-004,007]")
SLOW = Profile(lead_s=40, exclude="node[001-006]")


def only(node: str, **options: Any) -> Profile:
    """Jobs of this profile run there, and no others do."""
    return Profile(lead_s=40, sbatch={"nodelist": node}, **options)


@pytest.fixture(scope="module")
def limited(sweeps: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A sweep whose runs are longer than their time limit; started before all else, left alone."""
    folder = tmp_path_factory.mktemp("limited")
    sweep = sweeps.make(folder / "s", SLOW, packs=2, steps=360, step_seconds=0.25, resources={"minutes": 2})
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
def sweep(real: Any, sweeps: Any, limited: Any, commanded: Any, tmp_path: Path) -> Iterator[Any]:
    """Makes a sweep of this test; afterwards the cluster is well again."""
    yield lambda profile=CALM, **options: sweeps.make(tmp_path / "s", profile, **options)
    real.heal()


def outcomes(sweep: Any, pack: str = "") -> list[str]:
    return [closed.outcome for a in sweep.attempts(pack) if (closed := read_closed(a.closed)) is not None]


def test_array_of_100_with_accounting_stopped_for_a_minute(real: Any, sweep: Any) -> None:
    real.kill("slurmdbd")
    began = time.monotonic()
    s = sweep(packs=100, members=1, steps=3, step_seconds=0.01)
    loop = s.loop(policy=replace(s.policy, max_in_flight=24))
    try:
        s.until(loop, lambda _: time.monotonic() - began > 60)
        assert s.finished(), "it went on without accounting"
    finally:
        real.repair()
    s.finish(loop)
    assert len(s.attempts()) == 100


def test_scontrol_requeue(real: Any, sweep: Any) -> None:
    s = sweep(packs=2, steps=30, hold_at=10)
    loop = s.start()
    s.until(loop, lambda _: s.begun() == 2)
    real.sh(f"scontrol requeue {s.array()}_0")
    s.go_on()
    s.finish(loop)
    assert "preempted" in outcomes(s)


def test_a_warning_to_one_element_of_an_array_queues_no_other_again(real: Any, sweep: Any) -> None:
    s = sweep(packs=3, members=1, steps=30, hold_at=10)
    loop = s.start()
    s.until(loop, lambda _: s.begun() == 3)
    array = s.array()
    (again,) = [task for task in range(3) if real.raw(f"{array}_{task}") == array]  # it has the array's own id
    real.sh(f"scancel --signal=USR2 --batch {array}_{again}")  # as Slurm does before a time limit
    s.go_on()
    s.finish(loop)
    assert [len(s.attempts(pack)) for pack in s.packs] == [1 + (task == again) for task in range(3)]


def test_preemption_by_a_higher_partition_goes_on_alone(real: Any, sweep: Any) -> None:
    s = sweep(only("node006", partition="preempt"), packs=1, steps=30, resources={"cpus": 16}, hold_at=10)
    loop = s.start()
    s.until(loop, lambda _: s.begun() == 1)
    real.sh("sbatch -p gpu -w node006 -c 16 -o /dev/null --wrap 'sleep 2'")
    real.until(lambda: len(s.attempts()) == 2)  # nobody ticks
    s.go_on()
    real.until(lambda: real.state(f"{s.array()}_0") in ("COMPLETED", ""))
    s.finish(s.loop())
    assert outcomes(s) == ["preempted", "completed"]
    assert len(list(s.workspace.submissions.iterdir())) == 1


def test_scancel_by_hand_of_a_running_and_of_a_pending_element(real: Any, sweep: Any) -> None:
    s = sweep(only("node005"), packs=3, steps=25, resources={"cpus": 8}, hold_at=10)
    loop = s.start()
    s.until(loop, lambda _: s.begun() >= 2)
    array = s.array()
    assert real.state(f"{array}_2") == "PENDING"
    real.sh(f"scancel {array}_2")  # no record of it anywhere
    real.sh(f"scancel {array}_0")
    s.go_on()
    s.finish(loop)


def test_a_held_job_waits_and_says_so(real: Any, sweep: Any) -> None:
    s = sweep(only("node006"), packs=2, steps=10, resources={"cpus": 16}, hold_at=5)
    loop = s.start()
    job = f"{s.array()}_1"
    real.sh(f"scontrol hold {job}")
    s.go_on()
    s.until(loop, lambda _: len(s.finished()) == 2)  # the other pack
    held = [view.report for _, view in loop.board.live_attempts() if view.report and view.report.word == "PENDING"]
    assert ["held" in report.reason for report in held] == [True]
    real.sh(f"scontrol release {job}")
    s.finish(loop)
    assert len(s.attempts()) == 2


def test_a_failing_prolog(real: Any, sweep: Any) -> None:
    flag = real.directory / "prolog-fails.node005"
    flag.touch()
    s = sweep(only("node005"), packs=1, steps=10)

    def why() -> str:
        return real.sh(f"squeue -h -j {s.array()}_0 -o %r")

    try:
        loop = s.start()
        real.until(lambda: "drain" in real.sh("sinfo -h -n node005 -o %T"))
        real.until(lambda: why() == "launch failed requeued held")
    finally:
        flag.unlink()
    s.until(loop, lambda _: why() != "launch failed requeued held")  # released
    real.back("node005")
    s.finish(loop)
    assert len(s.attempts()) == 1


def test_node_down_and_back(real: Any, sweep: Any) -> None:
    s = sweep(HURT, packs=2, steps=40, hold_at=10)
    loop = s.start()
    s.until(loop, lambda _: s.begun() == 2)
    node = real.node_of(f"{s.array()}_0")
    real.down(node)
    real.until(lambda: real.state(f"{s.array()}_0") == "PENDING")
    real.back(node)
    s.go_on()
    s.finish(loop)
    assert len(s.attempts()) > 2


def test_two_live_copies_of_one_job(real: Any, sweep: Any) -> None:
    s = sweep(HURT, packs=1, steps=30, hold_at=10)
    loop = s.start()
    s.until(loop, lambda _: s.begun() == 1)
    (first,) = s.attempts()
    worker = json.loads(first.claimed.read_bytes())["pid"]
    node = real.node_of(f"{s.array()}_0")
    os.kill(worker, signal.SIGSTOP)  # a node that is cut off: nothing is heard of it, and it has not ended
    real.kill(f"slurmd.{node}")
    real.down(node)  # Slurm gives the job to another node
    real.until(lambda: len(s.attempts()) == 2 and s.attempts()[1].facts.exists())
    s.go_on()
    os.kill(worker, signal.SIGCONT)  # now both go on
    real.until(lambda: b'"yield"' in first.facts.read_bytes())
    s.finish(loop)
    assert len(set(s.jobs().values())) == 1
    assert outcomes(s) == ["lost", "completed"]


def test_kill_9_of_a_slurmd_with_its_steps(real: Any, sweep: Any) -> None:
    s = sweep(HURT, packs=2, steps=60, hold_at=10)
    loop = s.start()
    s.until(loop, lambda _: s.begun() == 2)
    job = f"{s.array()}_0"
    node, raws = real.node_of(job), [real.raw(f"{s.array()}_{task}") for task in range(2)]
    real.kill(f"slurmd.{node}")
    killed = sum(real.kill_steps(raw) for raw in raws)
    assert killed >= 2
    s.go_on()
    s.finish(loop)  # SlurmdTimeout passes, then the node is down and its jobs are queued again
    assert len(s.attempts()) > 2


def test_out_of_memory_in_a_step(real: Any, sweep: Any) -> None:
    s = sweep(packs=1, steps=60, resources={"memory_mb": 200}, hold_at=10)
    loop = s.start()
    s.until(loop, lambda _: s.begun() == 1)
    raw = real.raw(f"{s.array()}_0")
    hog = f"{sys.executable} -c 'x = bytearray(400 << 20); import time; time.sleep(60)'"
    done = subprocess.run(f"srun --overlap --jobid={raw} --mem=100 {hog}", shell=True, capture_output=True, check=False)
    assert done.returncode != 0
    s.go_on()
    s.finish(loop)
    assert len(s.attempts()) == 1  # a step that is not ours does not decide our run


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("disk")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(place)], check=True)
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk(proof: ModuleType, real: Any, sweeps: Any, limited: Any, small_disk: Path) -> None:
    disk = Retry(5, 1.0)
    policy = replace(proof.FAST, retries={**proof.FAST.retries, FailureClass.DISK: disk, FailureClass.UNKNOWN: disk})
    s = sweeps.make(small_disk / "s", CALM, packs=1, steps=40, policy=policy, hold_at=10)
    loop = s.start()
    s.until(loop, lambda _: s.begun() == 1)
    full = small_disk / "full"
    fill(full)
    s.go_on()
    real.until(lambda: any(a.exit.exists() or a.closed.exists() for a in s.attempts()) or not alive(real, s))
    full.unlink()
    s.finish(loop)
    assert len(s.attempts()) >= 2


def fill(path: Path) -> None:
    """Take all the room there is."""
    with open(path, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


def alive(real: Any, sweep: Any) -> bool:
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


def test_controller_killed_within_5_s_of_a_submit(real: Any, sweep: Any) -> None:
    s = sweep(packs=4, steps=20)
    began = time.monotonic()
    loop = s.start()
    real.kill("slurmctld")
    assert time.monotonic() - began < 5
    real.repair()
    s.finish(loop)


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


TRAINER = {
    "task": {"name": "copy", "symbols": 8, "max_length": 5, "test_max_length": 5, "validation": 50, "test": 100},
    "model": {"layers": 2, "heads": 4, "width": 16, "init_std": 0.1},
    "batch_size": 16,
    "optimizer": {"name": "adamw", "lr": 3e-3},
    "evaluate": {"points": 4},
}


def test_the_trainer_itself_requeued_and_killed(real: Any, sweep: Any) -> None:
    s = sweep(packs=2, steps=1200, trainer=TRAINER, resources={"memory_mb": 1500})
    loop = s.start()
    array = s.array()
    struck = set()

    def strike(_: object) -> bool:
        for task, pack in enumerate(s.packs):
            if task not in struck and s.begun(pack):
                struck.add(task)
                if task == 0:
                    real.sh(f"scontrol requeue {array}_0")
                else:
                    assert real.kill_steps(real.raw(f"{array}_1"))
        return len(struck) == 2

    s.until(loop, strike)
    s.finish(loop)
    assert [outcomes(s, pack) for pack in s.packs] == [["preempted", "completed"], ["lost", "completed"]]


def test_time_limit_with_resume(real: Any, limited: Any) -> None:
    """Started first; nobody has ticked since."""
    array = limited.array()
    real.until(lambda: all(real.state(f"{array}_{task}") in ("COMPLETED", "") for task in range(2)))
    limited.finish(limited.loop())
    assert len(list(limited.workspace.submissions.iterdir())) == 1
    assert len(limited.attempts()) >= 4
    assert outcomes(limited).count("completed") == 2


def test_the_command_on_slurm_gives_the_matrix_of_the_local_one(commanded: Any) -> None:
    folder, process = commanded
    _, said = process.communicate(timeout=900)
    assert process.returncode == 0, said
    there, here = (json.loads((folder / f"{backend}.json").read_text()) for backend in ("slurm", "local"))
    assert there["cells"]
    assert there["cells"] == here["cells"]


def test_nothing_is_left_and_nothing_came_of_what_came_back(real: Any, sweeps: Any) -> None:
    """A controller that was killed forgets that jobs had ended, and queues them again minutes after their sweep is done
    and its loop gone. Such a job must leave by itself and change nothing."""
    real.until(lambda: not real.sh("squeue -h -o '%i %j %T %r %M %N'"))
    for s in [s for s in sweeps.made if s.attempts_at_end]:  # others have failed before this
        assert len(s.attempts()) == s.attempts_at_end, s.story()
        s.check()
