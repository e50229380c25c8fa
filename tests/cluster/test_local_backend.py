"""What is the local backend's own: process ids that are never confused, shims that were killed, waking on an end."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from cluster.backend import JobHandle, JobState, LaunchRequest, TemporaryError
from cluster.batch_file import batch_payload
from cluster.local_backend import LocalBackend
from cluster.process_id import Life, life, own_token, pid_of, process_token


@pytest.fixture
def backend():
    made = LocalBackend()
    yield made
    handles = [JobHandle("local", token, "") for token in list(made._live)]
    made.cancel(handles, grace_s=0)
    while any(report.state is JobState.RUNNING for report in made.poll(handles).values()):
        time.sleep(0.01)


def submit(backend: LocalBackend, folder: Path, code: str, name: str = "orc-p-a1") -> JobHandle:
    argv = (sys.executable, "-P", "-c", code)
    request = LaunchRequest(name, argv, str(folder), str(folder / "log.txt"), str(folder / "exit.json"))
    (folder / "batch.json").write_text(json.dumps(batch_payload("b", [request])))
    (handle,) = backend.submit(str(folder), [request])
    return handle


def test_a_token_is_of_one_process_only() -> None:
    token = own_token()
    assert life(token) is Life.ALIVE
    pid, start, rest = token.split("-", 2)
    assert life(f"{pid}-{int(start) - 1}-{rest}") is Life.ENDED, "a recycled pid is another process"
    assert pid_of(token) == os.getpid()
    assert process_token(2**22 - 1) is None


def test_another_host_or_container_is_not_judged_from_here(backend: LocalBackend) -> None:
    token = own_token()
    body, host = token.split("@")
    elsewhere = f"{body}@not-{host}"
    assert life(elsewhere) is Life.ELSEWHERE
    container = "-".join([*body.split("-")[:3], "1"]) + f"@{host}"
    assert life(container) is Life.ELSEWHERE
    before_reboot = "-".join([*body.split("-")[:2], "00000000", body.split("-")[3]]) + f"@{host}"
    assert life(before_reboot) is Life.ENDED
    handle = JobHandle("local", elsewhere, "orc-p-a1")
    assert backend.poll([handle])[handle].state is JobState.UNKNOWN


def test_a_killed_shim_is_gone_not_ended(backend: LocalBackend, tmp_path: Path) -> None:
    handle = submit(backend, tmp_path, "import time; time.sleep(60)")
    os.kill(pid_of(handle.id), signal.SIGKILL)
    backend.wait(5)
    assert backend.poll([handle])[handle].state is JobState.GONE
    assert not Path(f"/proc/{pid_of(handle.id)}").exists(), "it was collected"


def test_a_job_in_a_session_of_its_own(backend: LocalBackend, tmp_path: Path) -> None:
    handle = submit(backend, tmp_path, "import time; time.sleep(60)")
    assert os.getsid(pid_of(handle.id)) == pid_of(handle.id) != os.getsid(0)


def test_wait_ends_with_the_job(backend: LocalBackend, tmp_path: Path) -> None:
    handle = submit(backend, tmp_path, "import time; time.sleep(0.2)")
    begin = time.monotonic()
    backend.wait(30)
    assert time.monotonic() - begin < 15
    assert backend.poll([handle])[handle].state is JobState.ENDED
    begin = time.monotonic()
    backend.wait(0.05)
    assert time.monotonic() - begin < 5


def test_details_of_an_end(backend: LocalBackend, tmp_path: Path) -> None:
    handle = submit(backend, tmp_path, "import os; os.kill(os.getpid(), 9)")
    backend.wait(30)
    report = backend.poll([handle])[handle]
    assert (report.cause, report.signal, report.exit_code) == ("signal", 9, None)
    assert report.details["max_rss_mb"] >= 0


def test_children_of_others_are_left_to_them(backend: LocalBackend) -> None:
    pid = os.posix_spawn("/bin/true", ["true"], {})
    time.sleep(0.05)
    backend.poll([])
    assert os.waitpid(pid, 0)[0] == pid


def test_too_many_processes_is_a_temporary_matter(
    backend: LocalBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **kwargs: object) -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "posix_spawn", refuse)
    with pytest.raises(TemporaryError, match="Resource temporarily unavailable"):
        submit(backend, tmp_path, "pass")


def test_slots_default_to_the_cpus() -> None:
    assert LocalBackend().free_slots(0, None) == len(os.sched_getaffinity(0))
    assert LocalBackend(slots=3).free_slots(1, None) == 2


def test_the_same_pack_in_another_workspace_is_another_job(backend: LocalBackend, tmp_path: Path) -> None:
    """Names are made of packs and attempts; two workspaces that run one sweep have equal ones."""
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    first = submit(LocalBackend(), folders[0], "import time; time.sleep(60)")
    second = submit(backend, folders[1], "import time; time.sleep(60)")
    assert first.id != second.id
    assert backend.find([second.name]) == {second.name: second}
    backend.cancel([first], grace_s=0)
