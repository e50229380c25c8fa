"""Folding: every byte once, only what counts, and what others launched is found."""

from __future__ import annotations

import signal
from collections.abc import Generator, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import orjson
import pytest

from cluster.backend import JobHandle
from cluster.batch_file import BATCH_FILE, read_entry
from cluster.fake_backend import FakeBackend
from cluster.slurm import requeue
from jobs.admission import claim
from jobs.durable import decide_file, read_json
from jobs.facts import Finished, Heartbeat, Started, close_attempt, fact_record
from jobs.state import RunState
from jobs.workspace import AttemptDir, Workspace
from orchestrator.history import AttemptView, job_name, read_view, split_name
from orchestrator.loop import Loop
from orchestrator.policy import Policy, default_policy
from orchestrator.requests import write_request
from orchestrator.waiting import RETURN, waiting

POLICY = Policy(probe=False, quiet_s=5.0)


@pytest.fixture
def place(tmp_path: Path) -> AttemptDir:
    made = AttemptDir(tmp_path / "p1" / "a1")
    made.path.mkdir(parents=True)
    launch = {"name": job_name("p1", 1), "members": [{"run": "r1"}, {"run": "r2"}, {"run": "r3", "done": True}]}
    decide_file(made.launch, launch)
    return made


def say(place: AttemptDir, *facts: Started | Finished, torn: bytes = b"") -> None:
    with open(place.facts, "ab") as file:
        file.write(b"".join(orjson.dumps(fact_record(fact)) + b"\n" for fact in facts) + torn)


def started(step: int = 0) -> Started:
    return Started(time=10.0, step=step, host="h", pid=1, members=2, threads=1)


def finished(run: str) -> Finished:
    return Finished(time=20.0, run=run, status="completed", step=5)


def test_facts_are_folded_from_where_it_stopped(place: AttemptDir, monkeypatch: pytest.MonkeyPatch) -> None:
    view = read_view(place, 0.0)
    assert view is not None
    assert view.carried == ("r1", "r2")
    say(place, started(), torn=b'{"fact": "fin')
    assert view.fold(place, 1.0)
    offset = view.offset
    assert not view.fold(place, 2.0), "a torn line is no news"
    place.facts.write_bytes(place.facts.read_bytes()[:offset])
    say(place, finished("r1"))
    assert view.fold(place, 3.0)
    assert list(view.finished) == ["r1"]
    place.facts.write_bytes(b"x" * offset + place.facts.read_bytes()[offset:])
    say(place, finished("r2"))
    assert view.fold(place, 4.0), "the beginning is not looked at again"
    assert sorted(view.finished) == ["r1", "r2"]


def test_what_was_written_after_the_close_is_ignored_even_if_it_was_read_before(place: AttemptDir) -> None:
    say(place, started())
    view = read_view(place, 0.0)
    assert view is not None
    close_attempt(place, by="loop", outcome="lost")
    say(place, finished("r1"))
    early = AttemptView(1, "n", ("r1", "r2"))
    closed = place.closed.read_bytes()
    place.closed.unlink()
    early.fold(place, 0.0)
    assert list(early.finished) == ["r1"], "nobody had closed it yet, as far as this reader could see"
    place.closed.write_bytes(closed)
    for folded in (view, early):
        folded.fold(place, 1.0)
        assert folded.finished == {}
        assert folded.closed is not None
        assert folded.started == 10.0


def test_a_heartbeat_is_judged_by_its_changing_on_our_clock(place: AttemptDir) -> None:
    view = AttemptView(1, "n")

    def beat(number: int, step: int) -> None:
        record = Heartbeat(beat=number, step=step, steps=9, time=-1e9)
        place.heartbeat.write_bytes(orjson.dumps(record.model_dump()))

    beat(1, 0)
    view.fold(place, 100.0)
    view.fold(place, 200.0)
    assert (view.pulse.changed, view.pulse.moved) == (100.0, 100.0)
    beat(2, 0)
    view.fold(place, 300.0)
    assert (view.pulse.changed, view.pulse.moved) == (300.0, 100.0)
    beat(3, 1)
    view.fold(place, 400.0)
    assert (view.pulse.changed, view.pulse.moved) == (400.0, 400.0)


def test_a_record_of_another_job_says_nothing(place: AttemptDir) -> None:
    decide_file(place.claimed, {"time": 0, "job": "orc-p1-a1/7/0", "host": "h", "pid": 1})
    decide_file(place.exit, {"job": "orc-p1-a1/8/0", "code": 0})
    view = read_view(place, 0.0)
    assert view is not None
    assert view.ended is None
    assert view.executor("slurm") == JobHandle("slurm", "7", "orc-p1-a1")


def test_views_survive_the_index(place: AttemptDir) -> None:
    say(place, started(), finished("r1"))
    close_attempt(place, by="loop", outcome="lost", message="gone")
    view = read_view(place, 7.0)
    assert view is not None
    view.handle = JobHandle("fake", "1", "n")
    assert AttemptView.from_json(orjson.loads(orjson.dumps(view.to_json()))) == view


def test_names_split_as_they_were_joined() -> None:
    assert split_name(job_name("p0a-1", 12)) == ("p0a-1", 12)
    for name in ("interactive", "orc-", "orc-p1", "orc-p1-ax", "other-p1-a1"):
        assert split_name(name) is None


class Two:
    """Two loops on one fake cluster."""

    def __init__(self, workspace: Workspace, lab: ModuleType, folder: Path) -> None:
        self.clock = lab.Clock()
        self.fake = FakeBackend(
            folder / "c.json", clock=self.clock, execute=lambda entry, job: lab.pretend(Path(entry["cwd"]), job)
        )
        self.workspace = workspace

    def loop(self) -> Loop:
        return Loop(self.workspace, self.fake, POLICY, code="", index=False, clock=self.clock)


@pytest.fixture
def two(workspace: Workspace, lab: ModuleType, tmp_path: Path) -> Two:
    return Two(workspace, lab, tmp_path)


def test_what_another_loop_launched_is_seen_and_counted(two: Two, lab: ModuleType) -> None:
    lab.write_plan(two.workspace, "s", [lab.cell({}, [n]) for n in range(3)])
    mine, other = two.loop(), two.loop()
    mine.tick()
    other.tick()
    report = mine.tick()
    assert report.in_flight == 3
    assert report.counts["s"][RunState.QUEUED] == 3
    assert two.fake.calls()["submit"] == 1


def test_a_requeued_jobs_own_next_attempt_is_found(two: Two, lab: ModuleType) -> None:
    """As a shim does that its scheduler restarted: close, launch the next attempt, claim it, with no loop alive."""
    (pack,) = lab.write_plan(two.workspace, "s", [lab.cell({}, [0])])
    loop = two.loop()
    loop.tick()
    first, second = (two.workspace.attempt(pack, n) for n in (1, 2))
    launch = read_json(first.launch)
    close_attempt(first, by="shim", outcome="preempted")
    second.path.mkdir()
    decide_file(second.launch, {**(launch or {}), "attempt": 2, "name": job_name(pack, 2)})
    decide_file(second.claimed, {"time": 0, "job": f"{job_name(pack, 1)}/1/1", "host": "h", "pid": 1})
    report = loop.tick()
    assert (report.in_flight, report.acted.launched) == (1, 0)
    assert [view.number for view in loop.board.histories[pack]] == [1, 2]
    assert report.counts["s"][RunState.RUNNING] == 1
    close_attempt(second, by="worker", outcome="failed")
    cold = two.loop()
    cold.tick()
    assert [view.number for view in cold.board.histories[pack]] == [1, 2]


def test_jobs_of_another_backend_are_left_alone(two: Two, lab: ModuleType) -> None:
    lab.write_plan(two.workspace, "s", [lab.cell({}, [0])])
    two.loop().tick()
    (folder,) = two.workspace.submissions.iterdir()
    answer = read_json(folder / "answer.json")
    (folder / "answer.json").write_bytes(orjson.dumps({**(answer or {}), "backend": "slurm"}))
    batch = read_json(folder / "batch.json")
    (folder / "batch.json").write_bytes(orjson.dumps({**(batch or {}), "backend": "slurm"}))
    loop = two.loop()
    polls = two.fake.calls().get("poll", 0)
    for _ in range(3):
        two.clock.pass_(1000.0)
        assert loop.tick().in_flight == 1
    assert two.fake.calls().get("poll", 0) == polls


def killed(entry: Mapping[str, Any], job: str) -> Generator[None, None, int]:
    """A worker that is killed in the middle, of which its shim leaves a record."""
    attempt = AttemptDir(Path(entry["claim"]).parent)
    assert claim(attempt, job)
    yield
    return 128 + signal.SIGKILL


@pytest.mark.parametrize(("spoken", "failure"), [(True, "out_of_memory"), (False, "lost")])
def test_a_kill_is_judged_by_what_the_scheduler_says_of_it_later(
    workspace: Workspace, lab: ModuleType, tmp_path: Path, spoken: bool, failure: str
) -> None:
    (pack,) = lab.write_plan(workspace, "s", [lab.cell({}, [0])])
    clock = lab.Clock()
    fake = FakeBackend(tmp_path / "cluster.json", clock=clock, execute=killed)
    loop = Loop(workspace, fake, POLICY, code="", index=False, clock=clock)
    loop.tick()
    fake.step()
    fake.step()
    place = workspace.attempt(pack, 1)
    assert place.exit.exists()
    loop.tick()
    clock.pass_(POLICY.verdict_wait_s - 1)
    loop.tick()
    assert not place.closed.exists()
    if spoken:
        fake.end(job_name(pack, 1), cause="out_of_memory", word="OUT_OF_MEMORY")
    else:
        clock.pass_(1)
    loop.tick()
    assert (read_json(place.closed) or {})["failure"] == failure


def leaving(entry: Mapping[str, Any], job: str) -> Generator[None, None, int]:
    """A worker that leaves when asked to, in a job that its batch shell asks the scheduler to queue again."""
    attempt = AttemptDir(Path(entry["claim"]).parent)
    assert claim(attempt, job)
    close_attempt(attempt, by="worker", outcome="preempted", step=3)
    while True:
        yield


@pytest.mark.parametrize("restarts", [True, False])
def test_a_job_that_may_be_queued_again_launches_the_next_attempt_itself(
    workspace: Workspace, lab: ModuleType, tmp_path: Path, restarts: bool
) -> None:
    (pack,) = lab.write_plan(workspace, "s", [lab.cell({}, [0])])
    clock = lab.Clock()
    fake = FakeBackend(tmp_path / "cluster.json", clock=clock, execute=leaving)
    loop = Loop(workspace, fake, replace(POLICY, requeues="fake"), code="", clock=clock)
    loop.tick()
    fake.step()
    for word in ("RUNNING", "SIGNALING", "PENDING"):  # what is left of it, a word nobody knows, queued again
        fake.say(job_name(pack, 1), word)
        clock.pass_(60)
        assert not loop.tick().done
        assert [place.number for place in workspace.attempts(pack)] == [1], word
        assert waiting(loop.board, clock()) == {"s": {RETURN: 1}}
    loop.close()
    loop = Loop(workspace, fake, replace(POLICY, requeues="fake"), code="", clock=clock)  # from the index
    clock.pass_(60)
    loop.tick()
    assert [place.number for place in workspace.attempts(pack)] == [1]
    (job,) = fake.jobs()
    if restarts:
        entry = read_entry(Path(job["batch"]) / BATCH_FILE, job["index"])
        requeue.take_over(entry, f"{job['name']}/{job['id']}/1")
        clock.pass_(60)
        assert loop.tick().in_flight == 1, "the attempt that its shim launched"
    else:
        fake.end(job_name(pack, 1), word="CANCELLED", cause="cancelled")
        clock.pass_(60)
        loop.tick()
    assert [place.number for place in workspace.attempts(pack)] == [1, 2]
    assert fake.calls()["submit"] == (1 if restarts else 2)
    loop.close()


def test_a_job_of_a_backend_that_queues_nothing_again_is_not_waited_for(
    workspace: Workspace, lab: ModuleType, tmp_path: Path
) -> None:
    (pack,) = lab.write_plan(workspace, "s", [lab.cell({}, [0])])
    clock = lab.Clock()
    fake = FakeBackend(tmp_path / "cluster.json", clock=clock, execute=leaving)
    loop = Loop(workspace, fake, replace(POLICY, requeues="slurm"), code="", index=False, clock=clock)
    loop.tick()
    fake.step()
    loop.tick()
    clock.pass_(60)
    loop.tick()
    assert [place.number for place in workspace.attempts(pack)] == [1, 2]
    assert (default_policy("local").requeues, default_policy("slurm").requeues) == ("", "slurm")


def test_a_cancelled_run_whose_job_was_queued_again_does_not_come_back(
    workspace: Workspace, lab: ModuleType, tmp_path: Path
) -> None:
    specs = lab.cell({}, [0])
    (pack,) = lab.write_plan(workspace, "s", [specs])
    clock = lab.Clock()
    fake = FakeBackend(tmp_path / "cluster.json", clock=clock, execute=leaving)
    loop = Loop(workspace, fake, replace(POLICY, requeues="fake"), code="", index=False, clock=clock)
    loop.tick()
    fake.step()
    loop.tick()
    write_request(workspace, "cancel", {specs[0].id: 1})
    report = loop.tick()
    assert (report.acted.released, report.done) == (1, False)
    assert [job["word"] for job in fake.jobs()] == ["CANCELLED"]
    report = loop.tick()
    assert (report.acted.released, report.done) == (0, True)
    assert [place.number for place in workspace.attempts(pack)] == [1]
