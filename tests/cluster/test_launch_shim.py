"""The shim as a process: environment, record, signals, and that its command never outlives it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster.backend import LaunchRequest, PermanentError, Resources
from cluster.batch_file import batch_payload, read_entry
from cluster.launch_shim import job_token, leave_record

Start = Callable[..., subprocess.Popen[bytes]]


def until(condition: Callable[[], Any], seconds: float = 10.0) -> Any:
    """Wait for something that is about to be true; returns it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.005)
    raise AssertionError("it did not come true in time")


@pytest.fixture
def start(tmp_path: Path, python: list[str]) -> Start:
    """Write a batch of one Python command and start its shim."""

    def begin(code: str, *, name: str = "orc-p1-a1", env: dict[str, str] | None = None, **changes: Any):
        request = LaunchRequest(
            name,
            (*python, "-c", code),
            str(tmp_path),
            str(tmp_path / "log.txt"),
            str(tmp_path / "exit.json"),
            env or {},
        )
        payload = batch_payload("b1", [request], [str(tmp_path / "claimed.json")])
        payload["entries"]["0"] |= changes
        (tmp_path / "batch.json").write_text(json.dumps(payload))
        return subprocess.Popen([*python, "-m", "cluster.launch_shim", str(tmp_path / "batch.json"), "0", name])

    return begin


def record(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "exit.json").read_text())


def test_neutral_environment_and_record(start: Start, tmp_path: Path) -> None:
    code = "import os, json; print(json.dumps([dict(os.environ), os.getcwd()]))"
    assert start(code, env={"EXTRA": "1"}, cpus=3).wait() == 0
    env, cwd = json.loads((tmp_path / "log.txt").read_text())
    assert cwd == str(tmp_path)
    assert (env["RANK"], env["LOCAL_RANK"], env["WORLD_SIZE"]) == ("0", "0", "1")
    assert (env["OMP_NUM_THREADS"], env["PYTHONSAFEPATH"], env["EXTRA"]) == ("3", "1", "1")
    assert env["ORCHESTRATE_JOB"] == record(tmp_path)["job"]
    assert env["ORCHESTRATE_JOB"].startswith("orc-p1-a1/")
    left = record(tmp_path)
    assert (left["code"], left["signal"], left["forwarded"]) == (0, None, [])
    assert left["max_rss_mb"] > 1


def test_exit_code_and_log_are_kept_and_appended(start: Start, tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("before\n")
    assert start("import sys; print('out'); print('err', file=sys.stderr); sys.exit(76)").wait() == 76
    assert record(tmp_path)["code"] == 76
    assert sorted((tmp_path / "log.txt").read_text().splitlines()) == ["before", "err", "out"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR2])
def test_signals_are_passed_on_once(start: Start, tmp_path: Path, number: int) -> None:
    code = (
        "import signal, sys, time\n"
        "for n in (signal.SIGTERM, signal.SIGUSR2): signal.signal(n, lambda n, f: (print('got', n), sys.exit(75)))\n"
        "print('ready', flush=True); time.sleep(60)"
    )
    shim = start(code)
    until(lambda: (tmp_path / "log.txt").exists() and "ready" in (tmp_path / "log.txt").read_text())
    shim.send_signal(number)
    assert shim.wait(10) == 75
    assert record(tmp_path)["forwarded"] == [number]
    assert (tmp_path / "log.txt").read_text().count("got") == 1


def test_a_signal_during_imports_waits_for_the_handler(start: Start, tmp_path: Path) -> None:
    code = (
        "import signal, sys, time\n"
        "print('importing', flush=True); time.sleep(0.3)\n"
        "signal.signal(signal.SIGUSR2, lambda n, f: sys.exit(75))\n"
        "signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR2}); time.sleep(60)"
    )
    shim = start(code, env={"ORCHESTRATE_SIGNALS_BLOCKED": "1"})
    until(lambda: (tmp_path / "log.txt").exists() and "importing" in (tmp_path / "log.txt").read_text())
    shim.send_signal(signal.SIGUSR2)
    assert shim.wait(10) == 75


def test_a_command_that_ignores_term_is_killed_after_its_grace(start: Start, tmp_path: Path) -> None:
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"
    shim = start(code, grace_s=0.2)
    until(lambda: (tmp_path / "log.txt").exists() and "ready" in (tmp_path / "log.txt").read_text())
    shim.terminate()
    assert shim.wait(10) == 128 + signal.SIGKILL
    assert record(tmp_path)["signal"] == signal.SIGKILL


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="PR_SET_PDEATHSIG is Linux's")
def test_the_command_dies_with_its_shim(start: Start, tmp_path: Path) -> None:
    shim = start("import os, time; print(os.getpid(), flush=True); time.sleep(60)")
    pid = int(until(lambda: (tmp_path / "log.txt").exists() and (tmp_path / "log.txt").read_text()))
    shim.kill()
    shim.wait()
    until(lambda: not Path(f"/proc/{pid}").exists() or " Z " in Path(f"/proc/{pid}/stat").read_text())
    assert not (tmp_path / "exit.json").exists()


def test_children_that_the_command_leaves_behind_are_ended(start: Start, tmp_path: Path) -> None:
    code = "import subprocess; print(subprocess.Popen(['sleep', '60']).pid, flush=True)"
    assert start(code).wait() == 0
    pid = int((tmp_path / "log.txt").read_text().split()[0])
    until(lambda: not Path(f"/proc/{pid}").exists() or " Z " in Path(f"/proc/{pid}/stat").read_text())


def test_a_job_that_is_started_twice_leaves_its_first_copy_alone(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "9")
    (tmp_path / "claimed.json").write_text(json.dumps({"job": "orc-p1-a1/9/0"}))  # our own token
    assert start("open('ran', 'w')").wait() == 0
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "exit.json").exists(), "it would be taken for the end of the first copy"


def test_a_job_that_did_not_win_the_claim_leaves_no_record(start: Start, tmp_path: Path) -> None:
    code = "import json; json.dump({'job': 'orc-p1-a1/another/0'}, open('claimed.json', 'x'))"
    assert start(code).wait() == 0
    assert not (tmp_path / "exit.json").exists()


def test_a_command_that_cannot_start_is_recorded(start: Start, tmp_path: Path) -> None:
    assert start("", argv=["/no/such/program"]).wait() == 127
    assert record(tmp_path)["code"] == 127
    assert "cannot start /no/such/program" in (tmp_path / "log.txt").read_text()


def test_an_absent_index_fails_loudly(start: Start, tmp_path: Path, python: list[str]) -> None:
    start("pass").wait()
    for arguments in (["7"], ["0", "orc-p1-a9"], []):
        argv = [*python, "-m", "cluster.launch_shim", str(tmp_path / "batch.json"), *arguments]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert "launch shim:" in done.stderr
    with pytest.raises(PermanentError, match="no such batch file"):
        read_entry(tmp_path / "none.json", 0)


def test_the_first_record_stands(tmp_path: Path) -> None:
    leave_record(tmp_path / "exit.json", {"code": 0})
    leave_record(tmp_path / "exit.json", {"code": 1})
    assert record(tmp_path) == {"code": 0}
    assert os.listdir(tmp_path) == ["exit.json"]


def test_the_token_names_the_schedulers_job_and_its_restarts() -> None:
    slurm = {"SLURM_JOB_ID": "17", "SLURM_ARRAY_JOB_ID": "15", "SLURM_ARRAY_TASK_ID": "2", "SLURM_RESTART_COUNT": "1"}
    assert job_token("orc-p-a1", slurm) == "orc-p-a1/15_2/1"
    assert job_token("orc-p-a1", {"SLURM_JOB_ID": "17"}) == "orc-p-a1/17/0"
    assert job_token("orc-p-a1", {}).startswith(f"orc-p-a1/{os.getpid()}-")


def test_resources_reach_the_entry() -> None:
    request = LaunchRequest("n", ("true",), "/", "/l", "/r", resources=Resources(cpus=4, gpus=1))
    entry = batch_payload("b", [request])["entries"]["0"]
    assert (entry["cpus"], entry["gpus"], entry["claim"]) == (4, 1, "")
