"""A restarted job goes on by itself: the shim's view of attempts, with files alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cluster.slurm.requeue import MOST_IDLE, Attempt, Stop, take_over
from jobs.facts import Checkpointed, Finished, Started, close_attempt, fact_record, read_closed
from jobs.launch import read_launch
from jobs.workspace import AttemptDir, Workspace

NAME = "orc-p1-a1"
JOB = f"{NAME}/7_0"


class Pack:
    """A pack of two runs whose first attempt was handed over to job 7_0."""

    def __init__(self, folder: Path) -> None:
        self.space = Workspace(folder)
        place = self.at(1)
        place.path.mkdir(parents=True)
        launch = {
            "pack": "p1", "attempt": 1, "name": NAME, "runner": "toy", "configs": [{}], "root": str(folder),
            "members": [{"run": "r1", "config": 0, "seed": 1}, {"run": "r2", "config": 0, "seed": 2}],
        }  # fmt: skip
        place.launch.write_text(json.dumps(launch))
        self.entry: dict[str, Any] = {
            "name": NAME, "argv": ["python", "-m", "jobs.worker", str(place.path)], "env": {}, "cwd": str(place.path),
            "log": str(place.log), "record": str(place.exit), "claim": str(place.claimed), "cpus": 1, "gpus": 0,
        }  # fmt: skip

    def at(self, number: int) -> AttemptDir:
        return self.space.attempt("p1", number)

    def claim(self, number: int, job: str) -> None:
        self.at(number).claimed.write_text(json.dumps({"time": 0.0, "job": job, "host": "h", "pid": 1}))

    def facts(self, number: int, *facts: Any) -> None:
        self.at(number).facts.write_text("".join(json.dumps(fact_record(fact)) + "\n" for fact in facts))

    def go_on(self, restart: int) -> dict[str, Any]:
        return take_over(self.entry, f"{JOB}/{restart}")


def started(step: int = 0) -> Started:
    return Started(time=1.0, step=step, host="h", pid=1, members=2, threads=1)


def saved(step: int) -> Checkpointed:
    return Checkpointed(time=2.0, step=step, bytes=1, seconds=0.1)


def finished(run: str) -> Finished:
    return Finished(time=3.0, run=run, status="completed", step=9)


@pytest.fixture
def pack(tmp_path: Path) -> Pack:
    return Pack(tmp_path)


def test_the_predecessor_is_closed_and_the_next_attempt_launched(pack: Pack) -> None:
    pack.claim(1, f"{JOB}/0")
    pack.facts(1, started(), saved(5), finished("r1"))
    entry = pack.go_on(1)
    closed = read_closed(pack.at(1).closed)
    assert closed is not None
    assert (closed.by, closed.outcome, closed.step) == ("shim", "lost", 5)
    assert closed.facts_bytes == pack.at(1).facts.stat().st_size
    launch = read_launch(pack.at(2).launch)
    assert (launch.attempt, launch.name, launch.resume) == (2, "orc-p1-a2", True)
    assert [member.done for member in launch.members] == [True, False]
    assert entry["argv"][-1] == entry["cwd"] == str(pack.at(2).path)
    assert (entry["log"], entry["record"]) == (str(pack.at(2).log), str(pack.at(2).exit))
    assert entry["claim"] == str(pack.at(2).claimed)


def test_a_worker_that_left_when_asked_was_preempted(pack: Pack) -> None:
    pack.claim(1, f"{JOB}/0")
    pack.facts(1, started(), saved(5))
    pack.at(1).exit.write_text(json.dumps({"code": None, "signal": 9, "forwarded": [15], "job": f"{JOB}/0"}))
    pack.go_on(1)
    closed = read_closed(pack.at(1).closed)
    assert closed is not None
    assert (closed.outcome, str(closed.failure)) == ("preempted", "preempted")


def test_what_the_worker_closed_itself_stands(pack: Pack) -> None:
    pack.claim(1, f"{JOB}/0")
    pack.facts(1, started(), saved(5))
    close_attempt(pack.at(1), by="worker", outcome="preempted", step=5)
    pack.go_on(1)
    closed = read_closed(pack.at(1).closed)
    assert closed is not None
    assert closed.by == "worker"


def test_restarts_make_a_chain(pack: Pack) -> None:
    for restart in range(1, 4):
        pack.claim(restart, f"{JOB}/{restart - 1}")
        pack.facts(restart, started(restart), saved(restart + 1))
        assert pack.go_on(restart)["cwd"] == str(pack.at(restart + 1).path)
    assert read_launch(pack.at(4).launch).attempt == 4


def test_an_attempt_that_never_began_is_run_as_it_is(pack: Pack) -> None:
    assert pack.go_on(1)["cwd"] == str(pack.at(1).path)
    assert not pack.at(1).closed.exists()


@pytest.mark.parametrize("outcome", ["completed", "cancelled", "failed"])
def test_what_is_over_is_left_alone(pack: Pack, outcome: Any) -> None:
    pack.claim(1, f"{JOB}/0")
    close_attempt(pack.at(1), by="loop", outcome=outcome)
    with pytest.raises(Stop, match=outcome):
        pack.go_on(1)
    assert not pack.at(2).path.exists()


def test_another_job_that_goes_on_with_it_is_left_alone(pack: Pack) -> None:
    pack.claim(1, f"{JOB}/0")
    close_attempt(pack.at(1), by="loop", outcome="lost")
    place = pack.at(2)
    place.path.mkdir()
    place.launch.write_text(pack.at(1).launch.read_text())
    pack.claim(2, "orc-p1-a2/8_0/0")
    with pytest.raises(Stop, match="another job"):
        pack.go_on(1)


def test_when_all_runs_have_finished_it_only_closes(pack: Pack) -> None:
    pack.claim(1, f"{JOB}/0")
    pack.facts(1, started(), saved(5), finished("r1"), finished("r2"))
    with pytest.raises(Stop, match="completed"):
        pack.go_on(1)
    closed = read_closed(pack.at(1).closed)
    assert closed is not None
    assert (closed.outcome, closed.step) == ("completed", 9), "where it finished, not where it last saved"


def test_facts_after_the_end_do_not_count(pack: Pack) -> None:
    pack.claim(1, f"{JOB}/0")
    pack.facts(1, started(), saved(5))
    close_attempt(pack.at(1), by="loop", outcome="lost")
    with pack.at(1).facts.open("a") as file:
        file.write(json.dumps(fact_record(finished("r1"))) + "\n")
    pack.go_on(1)
    assert [member.done for member in read_launch(pack.at(2).launch).members] == [False, False]


def test_endless_requeues_that_get_no_further_are_ended(pack: Pack) -> None:
    for restart in range(1, MOST_IDLE):
        pack.claim(restart, f"{JOB}/{restart - 1}")
        pack.go_on(restart)
    pack.claim(MOST_IDLE, f"{JOB}/{MOST_IDLE - 1}")
    with pytest.raises(Stop, match="got no further"):
        pack.go_on(MOST_IDLE)
    pack.at(MOST_IDLE).closed.unlink()
    pack.facts(MOST_IDLE, started(), saved(3))  # one that did get further is counted from
    pack.go_on(MOST_IDLE)


def test_a_fresh_start_is_gone_on_with_from_its_own_checkpoints(pack: Pack) -> None:
    launch = json.loads(pack.at(1).launch.read_text())
    pack.at(1).launch.write_text(json.dumps({**launch, "resume": False}))
    pack.claim(1, f"{JOB}/0")
    pack.go_on(1)
    again = read_launch(pack.at(2).launch)
    assert (again.resume, again.fresh_after) == (True, 0)


def test_what_was_cancelled_is_not_gone_on_with(pack: Pack) -> None:
    pack.claim(1, f"{JOB}/0")
    pack.facts(1, started(), saved(5))
    pack.at(1).stop.write_text("{}")
    with pytest.raises(Stop, match="was cancelled; not going on") as caught:
        pack.go_on(1)
    assert caught.value.code == 0
    assert pack.at(1).closed.exists()
    assert not pack.at(2).path.exists()


def test_what_was_cancelled_before_it_began_does_not_begin(pack: Pack) -> None:
    pack.at(1).stop.write_text("{}")
    with pytest.raises(Stop, match="cancelled before it began"):
        pack.go_on(1)


def test_two_restarts_that_race_agree(pack: Pack) -> None:
    pack.claim(1, f"{JOB}/0")
    first = pack.go_on(1)
    second = pack.go_on(1)  # the launch is there, unclaimed: the claim will decide between them
    assert first == second


def test_a_command_without_attempts_simply_runs_again(tmp_path: Path) -> None:
    entry = {"claim": "", "name": "x"}
    assert take_over(entry, "x/1_0/1") == entry


def test_a_torn_last_line_is_dropped(pack: Pack) -> None:
    pack.facts(1, started(), finished("r1"))
    with pack.at(1).facts.open("a") as file:
        file.write('{"fact": "finished", "ru')
    assert Attempt.load(pack.at(1).path).finished == {"r1"}
