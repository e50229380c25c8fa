"""The fake's own switches and clock; what it has in common with the real one is in contracts/test_slurm_suite.py."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster.fake_slurm.control import FakeSlurm
from cluster.fake_slurm.jobs import compress, expand
from cluster.fake_slurm.options import Refusal, array_tasks, duration, parse, script_options, seconds
from cluster.fake_slurm.store import SWITCHES

Shell = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def frozen(tmp_path: Path) -> Iterator[FakeSlurm]:
    slurm = FakeSlurm(tmp_path / "slurm", nodes=2, frozen=True)
    slurm.switch(execute=False)
    yield slurm
    slurm.close()


@pytest.fixture
def sh(frozen: FakeSlurm, tmp_path: Path) -> Shell:
    def run(command: str, timeout: float = 30) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, **frozen.env()}
        return subprocess.run(
            command, shell=True, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=timeout, check=False
        )

    return run


def test_nothing_moves_but_by_advance(frozen: FakeSlurm, sh: Shell) -> None:
    sh("sbatch --wrap true")
    before = frozen.now()
    time.sleep(0.05)
    assert frozen.now() == before
    assert sh("sacct -n -P -X -o JobID").stdout == ""
    frozen.advance(5)
    assert frozen.now() == before + 5
    assert sh("sacct -n -P -X -o JobID,State").stdout == "1|RUNNING\n"


def test_a_time_limit_and_the_end_of_memory(frozen: FakeSlurm, sh: Shell) -> None:
    sh("sbatch --time=2 --wrap 'sleep 1000'")
    frozen.advance(121)
    assert sh("squeue -h -t all -o %T").stdout == "TIMEOUT\n"
    frozen.advance(301)
    assert sh("squeue -h -t all").stdout == ""
    assert sh("squeue -h -j 1").returncode == 1
    assert sh("sacct -n -P -X -j 1 -o State").stdout == "TIMEOUT\n"


def test_the_default_window_of_sacct_ends_at_midnight(frozen: FakeSlurm, sh: Shell) -> None:
    sh("sbatch --wrap true")
    frozen.finish("1")
    frozen.advance(86400)
    assert sh("sacct -n -P -X -o JobID").stdout == ""
    assert sh("sacct -n -P -X -j 1 -o JobID").stdout == "1\n"
    frozen.switch(sacct_window="midnight")
    assert sh("sacct -n -P -X -j 1 -o JobID").stdout == ""
    assert sh("sacct -n -P -X -j 1 -S now-2days -o JobID").stdout == "1\n"


def test_accept_then_timeout(frozen: FakeSlurm, sh: Shell) -> None:
    frozen.switch(accept_then_timeout=1, hang_s=0.1)
    done = sh("sbatch --wrap true")
    assert done.returncode == 1
    assert "Socket timed out" in done.stderr
    assert len(frozen.jobs()) == 1
    assert sh("sbatch --wrap true").returncode == 0


def test_rejections_are_counted(frozen: FakeSlurm, sh: Shell) -> None:
    frozen.switch(reject_with="Socket timed out", reject_count=2)
    assert [sh("sbatch --wrap true").returncode for _ in range(3)] == [1, 1, 0]
    frozen.switch(reject_with="AssocMaxSubmitJobLimit", reject_count=-1, reject_above=2)
    assert [sh("sbatch --wrap true").returncode for _ in range(2)] == [0, 1]


@pytest.mark.parametrize(
    ("switch", "command", "code", "says"),
    [
        ({"controller_down": True}, "squeue", 1, "Unable to contact slurm controller (connect failure)"),
        ({"controller_down": True}, "sbatch --wrap true", 1, "Unable to contact"),
        ({"controller_down": True}, "scancel 1", 8, "Kill job error on job id 1"),
        ({"controller_down": True}, "sacct", 0, ""),
        ({"dbd_down": True}, "sacct", 1, "Connection refused"),
        ({"accounting_off": True}, "sacct", 1, "Slurm accounting storage is disabled"),
        ({"dbd_down": True}, "squeue", 0, ""),
    ],
)
def test_who_is_away(frozen: FakeSlurm, sh: Shell, switch: dict[str, bool], command: str, code: int, says: str) -> None:
    frozen.switch(**switch)
    done = sh(command)
    assert done.returncode == code
    assert says in done.stderr


def test_lies_of_the_queue(frozen: FakeSlurm, sh: Shell) -> None:
    sh("sbatch --array=0-2 --wrap true")
    frozen.switch(hide=["1_1"], force_state={"1_2": "FROBNICATING"})
    assert sh("squeue -h -o '%i %T'").stdout.splitlines() == ["1_0 RUNNING", "1_2 FROBNICATING"]
    frozen.switch(squeue_empty=True)
    assert sh("squeue -h").stdout == ""


def test_a_crash_forgets_young_jobs_and_gives_their_ids_again(frozen: FakeSlurm, sh: Shell) -> None:
    sh("sbatch -J old --wrap true")
    frozen.advance(6)
    sh("sbatch -J young --wrap true")
    frozen.advance(1)
    frozen.crash_controller()
    assert sh("squeue -h -o %j").stdout == "old\n"
    assert sh("sbatch -J new --wrap true").stdout == "Submitted batch job 2\n"
    frozen.advance(6)
    rows = sh("sacct -n -P -X -D -j 2 -o JobName,State").stdout.splitlines()
    assert rows == ["young|RUNNING", "new|RUNNING"]


def test_a_failing_prolog_holds_the_job_and_drains_the_node(frozen: FakeSlurm, sh: Shell) -> None:
    frozen.switch(prolog_fails=["node001", "node002"])
    sh("sbatch --wrap true")
    sh("sbatch --no-requeue --wrap true")
    rows = sh("squeue -h -t all -o '%i|%T|%r'").stdout.splitlines()
    assert rows == ["1|PENDING|launch failed requeued held", "2|CANCELLED|None"]
    assert sh("sinfo -h -N -o '%N %T'").stdout.splitlines() == ["node001 drained", "node002 drained"]


def test_requeuing_a_completed_job_hides_its_success(frozen: FakeSlurm, sh: Shell) -> None:
    sh("sbatch --wrap true")
    frozen.finish("1")
    frozen.advance(1)
    assert sh("scontrol requeue 1").returncode == 0
    frozen.advance(6)
    assert sh("sacct -n -P -X -D -j 1 -o State").stdout.splitlines() == ["REQUEUED", "PENDING"]


def test_two_copies_after_a_cut_network(tmp_path: Path) -> None:
    slurm = FakeSlurm(tmp_path / "slurm", nodes=2, RequeueWait=0)
    env = {**os.environ, **slurm.env()}
    script = tmp_path / "s.sh"
    script.write_text("#!/bin/bash\n#SBATCH --requeue --open-mode=append -o out.txt\necho $$\nsleep 60 & wait\n")
    subprocess.run(["sbatch", str(script)], env=env, cwd=tmp_path, check=True, capture_output=True)
    pids = until(tmp_path / "out.txt", 1)
    slurm.fail_node("node001", processes_live=True)
    slurm.tick()
    pids = until(tmp_path / "out.txt", 2)
    assert all(Path(f"/proc/{pid}").exists() for pid in pids)
    slurm.return_node("node001")
    end = time.monotonic() + 5
    while Path(f"/proc/{pids[0]}").exists():
        assert time.monotonic() < end
        time.sleep(0.02)
    assert Path(f"/proc/{pids[1]}").exists()
    slurm.close()


def until(path: Path, lines: int) -> list[str]:
    end = time.monotonic() + 10
    while not path.exists() or len(path.read_text().splitlines()) < lines:
        assert time.monotonic() < end
        time.sleep(0.02)
    return path.read_text().splitlines()


def test_out_of_memory_can_be_pretended(tmp_path: Path) -> None:
    slurm = FakeSlurm(tmp_path / "slurm", sacct_end_lag_s=0)
    env = {**os.environ, **slurm.env()}
    for note, code in (("oom", 0), ("oom-step", 1)):
        wrap = f'touch "$FAKE_SLURM_RUN.note-{note}"; exit {code}'
        subprocess.run(["sbatch", "--wrap", wrap], env=env, cwd=tmp_path, check=True, capture_output=True)
    end = time.monotonic() + 10
    while slurm.live():
        assert time.monotonic() < end
        time.sleep(0.02)
    slurm.advance(1)
    done = subprocess.run(["sacct", "-n", "-P", "-o", "JobID,State,ExitCode"], env=env, capture_output=True, text=True)
    rows = done.stdout.splitlines()
    assert "1|OUT_OF_MEMORY|0:125" in rows
    assert "2|FAILED|1:0" in rows
    assert "2.0|OUT_OF_MEMORY|0:125" in rows
    slurm.close()


def test_the_command_line_twin(frozen: FakeSlurm, sh: Shell) -> None:
    sh("sbatch --wrap true")
    before = frozen.now()
    assert sh("fakeslurm advance 60").returncode == 0
    assert frozen.now() == before + 60
    assert sh("fakeslurm set dbd_down=true").returncode == 0
    assert sh("sacct").returncode == 1
    assert sh("fakeslurm jobs").stdout.startswith("1|RUNNING|")
    assert sh("fakeslurm nonsense").returncode == 2


def test_switches_are_known_and_documented(frozen: FakeSlurm) -> None:
    with pytest.raises(ValueError, match="no such switch"):
        frozen.switch(nonsense=1)
    text = (Path(__file__).parents[2] / "docs" / "fake-slurm.md").read_text()
    assert [name for name in SWITCHES if f"`{name}" not in text and name not in text] == []


def test_options_arrays_and_durations() -> None:
    assert parse(["-J", "x", "--time=5", "--hold", "job.sh", "a"]) == (
        {"job-name": "x", "time": "5", "hold": True},
        ["job.sh", "a"],
    )
    assert script_options("#!/bin/sh\n#SBATCH -c 4 # a comment\n\ntrue\n#SBATCH -J late\n") == {"cpus-per-task": "4"}
    assert array_tasks("0-6:3,9%2", 100) == ([0, 3, 6, 9], 2)
    with pytest.raises(Refusal):
        array_tasks("0-100", 100)
    assert [seconds(text) for text in ("5", "1:30", "1:00:00", "1-0", "0")] == [300, 90, 3600, 86400, 0]
    assert [duration(s) for s in (7, 3723, 200000)] == ["0:07", "1:02:03", "2-07:33:20"]
    numbers = {0, 1, 2, 5, 9, 10}
    assert expand(compress(sorted(numbers), None).strip("[]")) == numbers
