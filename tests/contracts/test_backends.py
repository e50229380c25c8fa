"""What every backend must keep, whatever it reaches: one suite for all of them.

A backend joins by an entry in ``BACKENDS``: name -> (folder -> a new front end of the same machines). Two front ends
are two orchestrator processes. Commands really run.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster.backend import Backend, JobHandle, JobReport, JobState, LaunchRequest
from cluster.backends import BACKENDS as KNOWN
from cluster.batch_file import batch_payload
from cluster.fake_backend import FakeBackend
from cluster.local_backend import LocalBackend

BACKENDS: dict[str, Callable[[Path], Backend]] = {
    "local": lambda folder: LocalBackend(),
    "fake": lambda folder: FakeBackend(folder / "cluster.json", run="really"),
}
OVER = (JobState.ENDED, JobState.GONE)
DEADLINE_S = 20.0


class Site:
    """A backend and a folder to run commands in."""

    def __init__(self, folder: Path, make: Callable[[Path], Backend]) -> None:
        self.folder = folder
        self.make = lambda: make(folder)
        self.backend = self.make()
        self.started: list[JobHandle] = []

    def request(self, name: str, code: str) -> LaunchRequest:
        place = self.folder / name
        place.mkdir(exist_ok=True)
        argv = (sys.executable, "-P", "-c", code)
        return LaunchRequest(name, argv, str(place), str(place / "log.txt"), str(place / "exit.json"))

    def submit(self, *requests: LaunchRequest, batch: str = "b1") -> list[JobHandle]:
        folder = self.folder / batch
        folder.mkdir(exist_ok=True)
        (folder / "batch.json").write_text(json.dumps(batch_payload(batch, requests)))
        handles = self.backend.submit(str(folder), requests)
        self.started += handles
        return handles

    def until(self, handle: JobHandle, *states: JobState, backend: Backend | None = None) -> JobReport:
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            report = (backend or self.backend).poll([handle])[handle]
            if report.state in states:
                return report
            time.sleep(0.02)
        raise AssertionError(f"still {report}")  # type: ignore[possibly-undefined]

    def record(self, name: str) -> dict[str, Any]:
        return json.loads((self.folder / name / "exit.json").read_text())

    def log(self, name: str) -> str:
        path = self.folder / name / "log.txt"
        return path.read_text() if path.exists() else ""

    def until_log(self, name: str, text: str) -> None:
        end = time.monotonic() + DEADLINE_S
        while text not in self.log(name):
            assert time.monotonic() < end, f"{name} never said {text!r}"
            self.backend.poll(self.started)
            time.sleep(0.02)


@pytest.fixture(params=sorted(BACKENDS))
def site(request: pytest.FixtureRequest, tmp_path: Path):
    site = Site(tmp_path, BACKENDS[request.param])
    yield site
    site.backend.cancel(site.started, grace_s=0)
    for handle in site.started:
        site.until(handle, *OVER)


SLEEP = "import time; print('up', flush=True); time.sleep(60)"


def test_every_backend_that_needs_no_cluster_is_here() -> None:
    assert set(BACKENDS) >= set(KNOWN) - {"slurm"}


def test_it_keeps_the_protocol(site: Site) -> None:
    assert isinstance(site.backend, Backend)
    assert site.backend.name in KNOWN


def test_commands_run_and_how_they_ended_is_told(site: Site) -> None:
    good, bad = site.submit(site.request("orc-a-a1", "print('hello')"), site.request("orc-b-a1", "raise SystemExit(3)"))
    assert (good.name, bad.name) == ("orc-a-a1", "orc-b-a1")
    assert site.until(good, *OVER).exit_code == 0
    assert site.until(bad, *OVER).exit_code == 3
    assert "hello" in site.log("orc-a-a1")
    assert [site.record(name)["code"] for name in ("orc-a-a1", "orc-b-a1")] == [0, 3]


def test_a_living_job_is_never_called_over(site: Site) -> None:
    (handle,) = site.submit(site.request("orc-a-a1", SLEEP))
    site.until_log("orc-a-a1", "up")
    for _ in range(3):
        assert site.backend.poll([handle])[handle].state in (JobState.RUNNING, JobState.QUEUED)


def test_jobs_outlive_the_front_end_and_are_adopted_by_name(site: Site) -> None:
    (handle,) = site.submit(site.request("orc-a-a1", SLEEP))
    site.until_log("orc-a-a1", "up")
    other = site.make()
    assert other.find(["orc-a-a1", "orc-zz-a1"]) == {"orc-a-a1": handle}
    assert other.poll([handle])[handle].state is JobState.RUNNING
    other.cancel([handle], grace_s=0)
    site.until(handle, *OVER, backend=other)


def test_the_same_name_is_not_started_twice(site: Site) -> None:
    request = site.request("orc-a-a1", SLEEP)
    (first,) = site.submit(request)
    assert site.submit(request) == [first]
    site.backend = site.make()
    assert site.submit(request) == [first]
    site.until_log("orc-a-a1", "up")
    assert site.log("orc-a-a1").count("up") == 1


def test_what_has_ended_is_not_started_again(site: Site) -> None:
    request = site.request("orc-a-a1", "print('once')")
    (handle,) = site.submit(request)
    site.until(handle, *OVER)
    site.backend = site.make()
    (again,) = site.submit(request)
    site.until(again, *OVER)
    assert site.log("orc-a-a1").count("once") == 1


def test_cancel_asks_first(site: Site) -> None:
    code = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda n, f: (print('saving', flush=True), sys.exit(75)))\n"
        "print('up', flush=True); time.sleep(60)"
    )
    (handle,) = site.submit(site.request("orc-a-a1", code))
    site.until_log("orc-a-a1", "up")
    site.backend.cancel([handle], grace_s=30)
    site.until(handle, *OVER)
    assert "saving" in site.log("orc-a-a1")
    assert site.record("orc-a-a1")["code"] == 75


def test_cancel_then_makes_it(site: Site) -> None:
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    (handle,) = site.submit(site.request("orc-a-a1", code))
    site.until_log("orc-a-a1", "up")
    site.backend.cancel([handle], grace_s=0.1)
    site.until(handle, *OVER)


def test_cancelling_what_is_over_is_nothing(site: Site) -> None:
    (handle,) = site.submit(site.request("orc-a-a1", "pass"))
    site.until(handle, *OVER)
    site.backend.cancel([handle])
    assert site.backend.poll([handle])[handle].state in OVER


def test_a_stranger_is_unknown_to_find_and_never_running(site: Site) -> None:
    assert site.backend.find(["orc-nobody-a1"]) == {}
    assert site.backend.find([]) == {}
    assert site.backend.poll([]) == {}


def test_an_id_of_another_kind_of_cluster_is_not_judged(site: Site) -> None:
    for foreign in ("no-such-cluster/7", "x", ""):
        handle = JobHandle(site.backend.name, foreign, "orc-nobody-a1")
        assert site.backend.poll([handle])[handle].state is JobState.UNKNOWN
        site.backend.cancel([handle])


def test_a_limit_means_the_same_everywhere(site: Site) -> None:
    assert site.backend.free_slots(0, 3) == 3
    assert site.backend.free_slots(2, 3) == 1
    assert site.backend.free_slots(7, 3) == 0
    assert site.backend.free_slots(0, None) > 0
