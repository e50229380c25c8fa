"""That the fake lies exactly as it is told to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cluster.backend import JobState, LaunchRequest, PermanentError, TemporaryError
from cluster.batch_file import batch_payload
from cluster.fake_backend import FakeBackend


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def requests(tmp_path: Path) -> list[LaunchRequest]:
    made = [
        LaunchRequest(f"orc-p{n}-a1", ("true",), str(tmp_path), str(tmp_path / "l"), str(tmp_path / f"exit{n}.json"))
        for n in range(3)
    ]
    (tmp_path / "batch.json").write_text(json.dumps(batch_payload("b", made)))
    return made


def states(fake: FakeBackend, handles: list) -> list[JobState]:
    return [fake.poll(handles)[handle].state for handle in handles]


def test_jobs_wait_run_and_end_by_the_clock(tmp_path: Path, clock: Clock, requests: list[LaunchRequest]) -> None:
    fake = FakeBackend(tmp_path / "c.json", clock=clock, start_s=5, run_s=10, slots=2)
    handles = fake.submit(str(tmp_path), requests)
    assert states(fake, handles) == [JobState.QUEUED] * 3
    clock.now += 5
    assert states(fake, handles) == [JobState.RUNNING, JobState.RUNNING, JobState.QUEUED]
    clock.now += 10
    fake.poll(handles)
    assert states(fake, handles) == [JobState.ENDED, JobState.ENDED, JobState.RUNNING]
    assert json.loads((tmp_path / "exit0.json").read_text())["code"] == 0


def test_all_its_state_is_in_the_file(tmp_path: Path, clock: Clock, requests: list[LaunchRequest]) -> None:
    handles = FakeBackend(tmp_path / "c.json", clock=clock).submit(str(tmp_path), requests)
    other = FakeBackend(tmp_path / "c.json", clock=clock)
    assert other.submit(str(tmp_path), requests) == handles
    assert len(other.jobs()) == 3
    assert other.calls() == {"submit": 2}


def test_accepted_and_then_silent(tmp_path: Path, clock: Clock, requests: list[LaunchRequest]) -> None:
    fake = FakeBackend(tmp_path / "c.json", clock=clock, retry_s=7)
    fake.fail("submit", "accept_then_timeout")
    with pytest.raises(TemporaryError) as error:
        fake.submit(str(tmp_path), requests)
    assert error.value.delay == 7
    assert set(fake.find([request.name for request in requests])) == {request.name for request in requests}


def test_refused_n_times_and_forbidden(tmp_path: Path, clock: Clock, requests: list[LaunchRequest]) -> None:
    fake = FakeBackend(tmp_path / "c.json", clock=clock)
    fake.fail("submit", "refuse", times=2)
    fake.fail("submit", "forbid")
    for _ in range(2):
        with pytest.raises(TemporaryError):
            fake.submit(str(tmp_path), requests)
    with pytest.raises(PermanentError):
        fake.submit(str(tmp_path), requests)
    assert fake.jobs() == []
    fake.fail("poll", "timeout")
    with pytest.raises(TemporaryError):
        fake.poll([])


def test_a_limit_takes_what_fits(tmp_path: Path, clock: Clock, requests: list[LaunchRequest]) -> None:
    fake = FakeBackend(tmp_path / "c.json", clock=clock, limit=2)
    with pytest.raises(TemporaryError, match="limit"):
        fake.submit(str(tmp_path), requests)
    assert len(fake.jobs()) == 2


def test_lag_hides_and_vanishing_forgets(tmp_path: Path, clock: Clock, requests: list[LaunchRequest]) -> None:
    fake = FakeBackend(tmp_path / "c.json", clock=clock, lag_s=3, run_s=100)
    handles = fake.submit(str(tmp_path), requests)
    assert states(fake, handles) == [JobState.GONE] * 3
    clock.now += 3
    fake.vanish("orc-p1-a1")
    assert states(fake, handles) == [JobState.RUNNING, JobState.GONE, JobState.RUNNING]


def test_words_and_ends_that_it_was_told(tmp_path: Path, clock: Clock, requests: list[LaunchRequest]) -> None:
    fake = FakeBackend(tmp_path / "c.json", clock=clock, run_s=100)
    handles = fake.submit(str(tmp_path), requests)
    fake.say("orc-p0-a1", "SIGNALING")
    fake.end("orc-p1-a1", cause="node_failure", word="NODE_FAIL")
    reports = fake.poll(handles)
    assert (reports[handles[0]].state, reports[handles[0]].word) == (JobState.UNKNOWN, "SIGNALING")
    assert (reports[handles[1]].state, reports[handles[1]].cause) == (JobState.ENDED, "node_failure")
    with pytest.raises(PermanentError):
        fake.say("orc-none-a1", "X")


def test_cancel_ends_a_pretended_job(tmp_path: Path, clock: Clock, requests: list[LaunchRequest]) -> None:
    fake = FakeBackend(tmp_path / "c.json", clock=clock, run_s=100)
    handles = fake.submit(str(tmp_path), requests)
    fake.cancel(handles[:1])
    assert states(fake, handles) == [JobState.ENDED, JobState.RUNNING, JobState.RUNNING]
    assert fake.poll(handles)[handles[0]].cause == "cancelled"
