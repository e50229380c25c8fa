"""States from records: what every reader must agree on, whatever it has seen so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.facts import (
    Checkpointed,
    Claimed,
    Closed,
    Event,
    Fact,
    FailureClass,
    Finished,
    Started,
    close_attempt,
    fact_record,
)
from jobs.state import AttemptRecord, RunState, finished_facts, read_attempt, read_pack, run_states

RUNS = ("r1", "r2", "r3")
CLAIM = Claimed(time=1, job="j", host="h", pid=1)


def started(step: int = 0) -> Started:
    return Started(time=1, step=step, host="h", pid=1, members=3, threads=1)


def finished(run: str, status: Any = "completed", step: int = 9) -> Finished:
    failure = FailureClass.DIVERGED if status == "failed" else None
    return Finished(time=1, run=run, status=status, step=step, failure=failure, message="nan" if failure else "")


def closed(outcome: Any, failure: FailureClass | None = None, message: str = "why") -> Closed:
    return Closed(time=1, by="loop", outcome=outcome, failure=failure, message=message)


def record(number: int = 1, *facts: Fact, done: tuple[str, ...] = (), end: Closed | None = None) -> AttemptRecord:
    return AttemptRecord(number, RUNS, frozenset(done), CLAIM, facts, end)


def states(*attempts: AttemptRecord) -> list[str]:
    found = run_states(RUNS, attempts)
    return [found[run].state.value for run in RUNS]


def test_nothing_is_launched() -> None:
    assert states() == ["pending"] * 3


def test_launched_then_claimed() -> None:
    assert states(replace(record(), claimed=None)) == ["queued"] * 3
    assert states(record(1, started())) == ["running"] * 3


def test_members_end_one_by_one() -> None:
    assert states(record(1, started(), finished("r1"), finished("r2", "failed"))) == ["completed", "failed", "running"]


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [("failed", "failed"), ("cancelled", "cancelled"), ("lost", "pending"), ("preempted", "pending")],
)
def test_how_an_attempt_ends_is_how_its_unfinished_members_stand(outcome: str, expected: str) -> None:
    one = record(1, started(), finished("r1"), end=closed(outcome))
    assert states(one) == ["completed", expected, expected]
    status = run_states(RUNS, [one])["r2"]
    assert status.reason == "why"
    assert status.attempt == 1


def test_a_probe_leaves_its_runs_pending() -> None:
    assert states(record(1, started(), end=closed("completed"))) == ["pending"] * 3


def test_the_class_is_that_of_the_closing_or_follows_from_it() -> None:
    assert record(end=closed("failed", FailureClass.HANG)).failure is FailureClass.HANG
    assert record(end=closed("failed")).failure is FailureClass.UNKNOWN
    assert record(end=closed("lost")).failure is FailureClass.LOST
    assert record(end=closed("preempted")).failure is FailureClass.PREEMPTED
    assert record(end=closed("completed")).failure is None
    assert record().failure is None


def test_a_later_attempt_takes_over_what_had_failed() -> None:
    first = record(1, started(), finished("r1"), finished("r2", "failed"), end=closed("failed", FailureClass.HANG))
    assert states(first) == ["completed", "failed", "failed"]
    second = record(2, started(5), done=("r1",))
    assert states(first, second) == ["completed", "running", "running"]
    masked = record(2, started(5), done=("r1", "r2"))
    assert states(first, masked) == ["completed", "failed", "running"]
    ended = record(2, started(5), finished("r2"), finished("r3"), done=("r1",), end=closed("completed"))
    assert states(first, ended) == ["completed"] * 3


def test_the_first_completion_stands() -> None:
    first = record(1, finished("r1", "failed", 3), finished("r2", step=4))
    second = record(2, finished("r1", step=7), finished("r2", "failed", 8))
    standing = finished_facts([first, second])
    assert (standing["r1"].step, standing["r2"].step) == (7, 4)


def test_the_step_is_the_last_one_on_disk() -> None:
    facts = (started(4), Checkpointed(time=1, step=8, bytes=1, seconds=0.1))
    assert run_states(RUNS, [record(1, *facts)])["r1"].step == 8
    assert run_states(RUNS, [record(1, *facts), record(2)])["r1"].step == 8


facts = st.lists(
    st.builds(finished, st.sampled_from(RUNS), st.sampled_from(["completed", "failed"]), st.integers(0, 9))
    | st.builds(started, st.integers(0, 9))
    | st.just(Event(time=1, name="x")),
    max_size=5,
)
ends = st.none() | st.builds(
    closed, st.sampled_from(["completed", "failed", "preempted", "lost", "cancelled"]), st.sampled_from(FailureClass)
)
histories = st.lists(st.tuples(facts, ends, st.sets(st.sampled_from(RUNS)), st.booleans()), max_size=4).map(
    lambda rows: [
        AttemptRecord(n + 1, RUNS, frozenset(done), CLAIM if claim else None, tuple(facts), end)
        for n, (facts, end, done, claim) in enumerate(rows)
    ]
)


@given(histories, histories)
def test_a_completed_run_never_becomes_anything_else(before: list[AttemptRecord], after: list[AttemptRecord]) -> None:
    early = run_states(RUNS, before)
    later = [replace(attempt, number=attempt.number + len(before)) for attempt in after]
    late = run_states(RUNS, [*before, *later])
    for run in RUNS:
        if early[run].state is RunState.COMPLETED:
            assert late[run] == early[run]


@given(histories)
def test_every_run_has_a_state_and_an_end_has_its_fact(attempts: list[AttemptRecord]) -> None:
    for status in run_states(RUNS, attempts).values():
        assert (status.state is RunState.COMPLETED) == (
            status.finished is not None and status.finished.status == "completed"
        )
        if status.state in (RunState.QUEUED, RunState.RUNNING):
            assert attempts[status.attempt - 1].closed is None
        if status.state is RunState.FAILED:
            assert status.failure is not None or status.finished is not None


@given(facts, st.data())
def test_a_torn_or_trimmed_log_never_shows_what_was_not_written(
    tmp_path_factory: pytest.TempPathFactory, written: list[Fact], data: st.DataObject
) -> None:
    """Whatever the byte at which the log is torn, or the attempt closed: the facts that count are the first ones."""
    from jobs.workspace import AttemptDir

    attempt = AttemptDir(tmp_path_factory.mktemp("pack") / "a1")
    attempt.path.mkdir()
    launch = {
        "pack": "p", "attempt": 1, "name": "n", "runner": "toy", "members": [], "configs": [], "root": "/",
    }  # fmt: skip
    attempt.launch.write_bytes(orjson.dumps(launch))
    lines = b"".join(orjson.dumps(fact_record(fact)) + b"\n" for fact in written)
    cut = data.draw(st.integers(0, 10**6)) % (len(lines) + 1)
    whole = tuple(written[: lines[:cut].count(b"\n")])
    attempt.facts.write_bytes(lines[:cut])
    assert read_attempt(attempt).facts == whole
    assert close_attempt(attempt, by="loop", outcome="lost")
    attempt.facts.write_bytes(lines)
    assert read_attempt(attempt).facts == whole, "facts after the closing are ignored"


def test_facts_of_a_newer_version_are_passed_over(make_pack: Callable[..., Any]) -> None:
    pack = make_pack({"steps": 2})
    attempt = pack.launch()
    assert pack.run_here(attempt) == 0
    attempt.closed.unlink()
    with open(attempt.facts, "ab") as file:
        file.write(b'{"fact":"levitated","time":1}\n{"fact":"event","time":1,"name":"x","colour":"red"}\n')
    [one] = read_pack(pack.path)
    assert [fact.fact for fact in one.facts] == ["started", "finished", "event"]


def test_a_pack_directory_is_read_in_order_of_its_attempts(make_pack: Callable[..., Any]) -> None:
    pack = make_pack({"steps": 2})
    for _ in range(11):
        close_attempt(pack.launch(), by="loop", outcome="lost")
    (pack.path / "a99").mkdir()  # made, not launched yet
    assert [one.number for one in read_pack(pack.path)] == list(range(1, 12))
