"""One suite for the fake Slurm and the real one, so that the fake cannot drift: every claim here holds on both.

The fake on every run; the real one where tests/slurm/run.sh has brought it up (marker ``slurm``).
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cluster.fake_slurm.control import FakeSlurm


@dataclass
class Bench:
    """A cluster to try commands on."""

    kind: str
    env: dict[str, str]
    cwd: Path
    fake: FakeSlurm | None = None

    def sh(self, command: str, *, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            shell=True,
            env={**self.env, **(env or {})},
            cwd=self.cwd,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def out(self, command: str) -> list[str]:
        done = self.sh(command)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def submit(self, options: str, body: str = "true") -> str:
        script = self.cwd / f"job{time.monotonic_ns()}.sh"
        script.write_text(f"#!/bin/bash\n{body}\n")
        return self.out(f"sbatch --parsable {options} {script}")[0]

    def state(self, job: str) -> str:
        lines = self.out(f"squeue -h -r -t all -j {job},{job} -o %T") if self.known(job) else []
        return lines[0] if lines else ""

    def known(self, job: str) -> bool:
        return self.sh(f"squeue -h -t all -j {job}").returncode == 0

    def until(self, what: Callable[[], object], seconds: float = 240.0) -> None:
        end = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < end, f"waited {seconds} s in vain"
            time.sleep(0.1)

    def skip_time(self, seconds: float) -> None:
        """Let Slurm's own clocks pass: at once where the clock is ours."""
        if self.fake is not None:
            self.fake.advance(seconds)
        else:
            time.sleep(seconds)


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.slurm)])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    base = {k: v for k, v in os.environ.items() if not k.startswith(("SBATCH_", "SRUN_"))}
    if request.param == "fake":
        fake = FakeSlurm(tmp_path / "slurm")
        yield Bench("fake", {**base, **fake.env()}, tmp_path, fake)
        fake.close()
        return
    assert "SLURM_CONF" in os.environ, "no cluster: use tests/slurm/run.sh"
    bench = Bench("real", base, tmp_path)
    yield bench
    subprocess.run("squeue -h -o %A | sort -un | xargs -r scancel", shell=True, check=False)


ROW = "squeue -h -t all -o '%i|%j|%T|%t|%r|%N' -j {}"
ACCOUNT = "sacct -n -P -X -D -S now-1hours -o JobID,JobName,State,ExitCode,NodeList,Start,End -j {}"


def test_submit_prints_the_id_and_runs_the_script_with_its_environment(bench: Bench) -> None:
    first = bench.out("sbatch --wrap true")[0]
    assert re.fullmatch(r"Submitted batch job \d+", first)
    job = bench.submit(
        "-J envs -c 2 --mem=500 --gres=gpu:2 -o out.txt --comment='our key'", "env | grep -E '^(SLURM|CUDA)' | sort"
    )
    assert int(job) > int(first.split()[-1])
    bench.until(lambda: bench.state(job) == "COMPLETED")
    env = dict(line.split("=", 1) for line in (bench.cwd / "out.txt").read_text().splitlines())
    assert env["SLURM_JOB_ID"] == job
    assert env["SLURM_JOB_NAME"] == "envs"
    assert env["SLURM_CPUS_PER_TASK"] == "2"
    assert env["SLURM_MEM_PER_NODE"] == "500"
    assert len(env["CUDA_VISIBLE_DEVICES"].split(",")) == 2
    assert env["CUDA_VISIBLE_DEVICES"] == env["SLURM_JOB_GPUS"]
    assert env["SLURMD_NODENAME"] == env["SLURM_JOB_NODELIST"]
    assert "SLURM_RESTART_COUNT" not in env
    assert "SLURM_ARRAY_JOB_ID" not in env
    row = bench.out(ROW.format(job))[0].split("|")
    assert row[:4] == [job, "envs", "COMPLETED", "CD"]
    assert bench.out(f"squeue -h -t all -o %k -j {job}") == ["our key"]


def test_an_array_has_one_line_for_what_waits_and_one_for_each_that_ran(bench: Bench) -> None:
    (bench.cwd / "gate").touch()
    wait = f"while [ -e {bench.cwd}/gate ]; do sleep 0.1; done"
    job = bench.submit("-J arr --array=0-5%2 -o /dev/null", f"{wait}; exit $(( SLURM_ARRAY_TASK_ID == 1 ? 3 : 0 ))")
    bench.until(lambda: sum("RUNNING" in line for line in bench.out(ROW.format(job))) == 2)
    lines = bench.out(ROW.format(job))
    (bench.cwd / "gate").unlink()
    waiting = [line for line in lines if "PENDING" in line]
    assert len(waiting) == 1
    assert re.match(rf"{job}_\[2-5%2\]\|arr\|PENDING\|PD\|JobArrayTaskLimit", waiting[0]), lines
    bench.until(lambda: not bench.sh(f"squeue -h -j {job}").stdout.strip())
    bench.skip_time(5)
    bench.until(lambda: len(bench.out(ACCOUNT.format(job))) == 6)
    rows = {row.split("|")[0]: row.split("|") for row in bench.out(ACCOUNT.format(job))}
    assert set(rows) == {f"{job}_{task}" for task in range(6)}
    assert rows[f"{job}_1"][2:4] == ["FAILED", "3:0"]
    assert rows[f"{job}_0"][2:4] == ["COMPLETED", "0:0"]
    ids = bench.out(f"sacct -n -P -X -j {job} -o JobIDRaw")
    assert job in ids
    assert len(set(ids)) == 6  # each element has a raw id of its own; the array's id is one of them


def test_long_lists_are_cut_unless_asked_otherwise(bench: Bench) -> None:
    odd = ",".join(str(n * n) for n in range(2, 31))
    job = bench.submit(f"--hold --array={odd}", "true")
    even = bench.submit("--hold --array=0-198:2", "true")
    assert bench.out(f"squeue -h -o %i -j {even}") == [f"{even}_[0-198:2]"]
    short = bench.out(f"squeue -h -o %i -j {job}")[0]
    assert len(short) < 90
    assert not short.endswith("]")
    full = bench.sh(f"squeue -h -o %i -j {job}", env={"SLURM_BITSTR_LEN": "0"}).stdout.strip()
    assert full == f"{job}_[{odd}]"


def test_a_cancelled_pending_element_has_no_record(bench: Bench) -> None:
    job = bench.submit("--hold --array=0-2", "true")
    assert bench.sh(f"scancel {job}_1").returncode == 0
    assert bench.out(f"squeue -h -r -o %i -j {job}") in ([f"{job}_0", f"{job}_2"], [f"{job}_2", f"{job}_0"])
    bench.skip_time(6)
    rows = bench.out(f"sacct -n -P -X -D -S now-1hours -o JobID,State -j {job}")
    assert all(not row.startswith(f"{job}_1|") for row in rows)


def test_cancel_is_silent_about_the_unknown_and_signals_the_known(bench: Bench) -> None:
    assert bench.sh("scancel 999999").returncode == 0
    held = bench.submit("--hold -J ours")
    done = bench.sh(f"scancel --name=other {held}")
    assert (done.returncode, bench.state(held)) == (0, "PENDING")
    assert bench.sh(f"scancel --name=ours {held}").returncode == 0
    assert bench.state(held) == "CANCELLED"
    done = bench.sh(f"scancel --name=ours {held}")
    assert done.returncode == 1
    assert "Invalid job id specified" in done.stderr
    done = bench.sh("squeue -h -j 999999")
    assert (done.returncode, done.stderr.strip()) == (1, "slurm_load_jobs error: Invalid job id specified")
    job = bench.submit(
        "-o sig.txt", "trap 'echo USR2; exit 0' USR2\necho ready\nfor i in $(seq 100); do sleep 0.1; done"
    )
    bench.until(lambda: (bench.cwd / "sig.txt").exists() and "ready" in (bench.cwd / "sig.txt").read_text())
    assert bench.sh(f"scancel --signal=USR2 --batch {job}").returncode == 0
    bench.until(lambda: bench.state(job) == "COMPLETED")
    assert "USR2" in (bench.cwd / "sig.txt").read_text()


def test_a_cancelled_running_job_completes_first_and_says_by_whom(bench: Bench) -> None:
    job = bench.submit("-o /dev/null", "trap '' TERM\nfor i in $(seq 300); do sleep 0.1; done")
    bench.until(lambda: bench.state(job) == "RUNNING")
    time.sleep(0.5)
    bench.sh(f"scancel {job}")
    bench.until(lambda: bench.state(job) == "COMPLETING")
    bench.skip_time(6)
    bench.until(lambda: bench.state(job) == "CANCELLED")
    bench.until(lambda: bench.out(ACCOUNT.format(job)))
    row = bench.out(ACCOUNT.format(job))[0].split("|")
    assert row[2] == f"CANCELLED by {os.getuid()}"
    assert row[3] == "0:0"
    steps = bench.out(f"sacct -n -P -S now-1hours -o JobID,State,ExitCode -j {job}")
    assert f"{job}.batch|CANCELLED|0:9" in steps or f"{job}.batch|CANCELLED|0:15" in steps


def test_accounting_knows_nothing_at_first(bench: Bench) -> None:
    began, job, rows = 0.0, "", None
    while rows is None or time.monotonic() - began > 3:  # the machine was busy: it may know of it by now
        began, job = time.monotonic(), bench.submit("--hold", "true")
        rows = bench.out(ACCOUNT.format(job))
    assert rows == []
    assert bench.out(ACCOUNT.format("999999")) == []
    bench.sh(f"scontrol release {job}")
    bench.skip_time(6)
    bench.until(lambda: bench.out(ACCOUNT.format(job)))


def test_requeue_counts_restarts_appends_and_waits(bench: Bench) -> None:
    body = 'echo "run ${SLURM_RESTART_COUNT:-none}"\n[ -n "$SLURM_RESTART_COUNT" ] && exit 0\nsleep 60 & wait'
    job = bench.submit("--requeue --open-mode=append -o rq.txt", body)
    done = bench.sh(f"scontrol requeue {bench.submit('--hold')}")
    assert done.returncode == 1
    assert "Job is pending execution for job" in done.stderr
    bench.until(lambda: bench.state(job) == "RUNNING")
    bench.until(lambda: (bench.cwd / "rq.txt").exists() and "run none" in (bench.cwd / "rq.txt").read_text())
    assert bench.sh(f"scontrol requeue {job}").returncode == 0
    bench.until(lambda: bench.state(job) == "PENDING")
    bench.until(lambda: bench.out(f"squeue -h -o %r -j {job}") == ["BeginTime"])
    assert "Restarts=1" in bench.out(f"scontrol -o show job {job}")[0]
    bench.skip_time(11)
    bench.until(lambda: bench.state(job) == "COMPLETED")
    text = (bench.cwd / "rq.txt").read_text().splitlines()
    assert [line for line in text if line.startswith("run")] == ["run none", "run 1"]
    bench.skip_time(5)
    bench.until(lambda: len(bench.out(ACCOUNT.format(job))) == 2)
    assert [row.split("|")[2] for row in bench.out(ACCOUNT.format(job))] == ["REQUEUED", "COMPLETED"]
    assert len(bench.out(f"sacct -n -P -X -S now-1hours -o JobID -j {job}")) == 1


def test_hold_and_release(bench: Bench) -> None:
    job = bench.submit("--hold")
    assert bench.out(f"squeue -h -o '%T|%r' -j {job}") == ["PENDING|JobHeldUser"]
    bench.sh(f"scontrol release {job}")
    bench.until(lambda: bench.state(job) == "COMPLETED")
    running = bench.submit("-o /dev/null", "sleep 30")
    bench.until(lambda: bench.state(running) == "RUNNING")
    time.sleep(0.5)
    bench.sh(f"scontrol requeuehold {running}")
    bench.until(lambda: bench.state(running) == "PENDING")
    held = ("job requeued in held state", "JobHeldUser", "JobHeldAdmin")
    bench.until(lambda: bench.out(f"squeue -h -o %r -j {running}")[0] in held)


def test_dependencies(bench: Bench) -> None:
    good = bench.submit("", "true")
    bad = bench.submit("", "false")
    after = bench.submit(f"-d afterok:{good}")
    never = bench.submit(f"-d afterok:{bad}")
    bench.until(lambda: bench.state(after) == "COMPLETED")
    bench.until(lambda: bench.out(f"squeue -h -o %r -j {never}") == ["DependencyNeverSatisfied"])


def test_a_node_that_goes_down_requeues_or_fails_its_job(bench: Bench) -> None:
    again = bench.submit("--requeue -o /dev/null", "sleep 60")
    fails = bench.submit("--no-requeue -o /dev/null", "sleep 60")
    bench.until(lambda: bench.state(again) == bench.state(fails) == "RUNNING")
    nodes = set(bench.out(f"squeue -h -o %N -j {again},{fails}"))
    for node in nodes:
        bench.out(f"scontrol update nodename={node} state=down reason=test")
    bench.until(lambda: bench.state(again) == "PENDING")
    bench.until(lambda: bench.state(fails) == "NODE_FAIL")
    bench.skip_time(5)
    bench.until(lambda: any("NODE_FAIL" in row for row in bench.out(ACCOUNT.format(again))))
    for node in nodes:
        bench.sh(f"scontrol update nodename={node} state=resume")
    up = r"idle|mixed|allocated|completing"
    bench.until(lambda: all(re.search(up, bench.out(f"sinfo -h -n {node} -o %T")[0]) for node in nodes))


def test_a_wrong_output_folder_fails_without_a_word(bench: Bench) -> None:
    job = bench.submit("-o /nowhere/at/all.txt", "true")
    bench.until(lambda: bench.state(job) == "FAILED")
    assert bench.out(f"squeue -h -t all -o %r -j {job}") == ["JobLaunchFailure"]
    bench.until(lambda: bench.out(ACCOUNT.format(job)))
    assert bench.out(ACCOUNT.format(job))[0].split("|")[2:4] == ["FAILED", "0:53"]


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        ("-p nosuch", 1, "Invalid partition name specified"),
        ("--time=abc", 255, "Invalid --time specification"),
        ("--gres=gpu:99", 1, "Requested node configuration is not available"),
        ("--array=0-99999999", 1, "Invalid job array specification"),
        ("--array=x", 1, "Invalid job array specification"),
        ("--no-such-option", 255, "unrecognized option"),
    ],
)
def test_refusals(bench: Bench, options: str, code: int, says: str) -> None:
    done = bench.sh(f"sbatch {options} --wrap true")
    assert done.returncode == code
    assert says in done.stderr
    assert done.stdout == ""


def test_config_and_nodes_can_be_read(bench: Bench) -> None:
    config = dict(line.split("=", 1) for line in bench.out("scontrol show config") if "=" in line)
    keys = {key.strip() for key in config}
    assert {"MaxArraySize", "MaxJobCount", "MinJobAge", "KillWait", "ClusterName", "AccountingStorageType"} <= keys
    assert len(bench.out("sinfo -h -N -p gpu -o '%N %T'")) >= 1
    assert bench.out("scontrol show hostnames node001")[0] == "node001"
