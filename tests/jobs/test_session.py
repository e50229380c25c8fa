"""What a runner is given: what reaches the disk when, when to save, when to leave."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import orjson
import pytest

from jobs.admission import claim
from jobs.checkpoint import newest_checkpoint
from jobs.durable import read_log
from jobs.errors import JobError
from jobs.facts import Event, FailureClass, Finished, close_attempt, read_closed
from jobs.launch import read_launch
from jobs.session import Leave, Member, Session


class Clock:
    now = 50.0

    def __call__(self) -> float:
        return self.now


class Bench:
    """A session over a pack of ``runs`` that nobody carries out but the test."""

    open: ClassVar[list[Bench]] = []

    def __init__(self, pack: Any, *, asked: str | None = None, done: tuple[str, ...] = (), **launch: Any) -> None:
        self.pack = pack
        self.attempt = pack.launch(**launch)
        self.launch = read_launch(self.attempt.launch)
        self.clock = Clock()
        self.asked = asked
        assert claim(self.attempt, "job-1")
        known = [member.run for member in self.launch.members if member.done]
        found, _ = newest_checkpoint(self.attempt.checkpoints, done=known)
        self.session = Session(
            self.attempt,
            self.launch,
            [Member(m.run, m.seed, None, {}, m.done or m.run in done) for m in self.launch.members],
            job="job-1",
            checkpoint=found,
            requested=lambda: self.asked,
            clock=self.clock,
        )
        Bench.open.append(self)

    @property
    def finished(self) -> list[Finished]:
        return [fact for fact in self.pack.facts(self.attempt.number) if isinstance(fact, Finished)]

    def rows(self) -> list[dict[str, Any]]:
        return read_log(self.attempt.metrics)[0]


@pytest.fixture(autouse=True)
def close_all() -> Iterator[None]:
    yield
    while Bench.open:
        Bench.open.pop().session.recorder.close()


@pytest.fixture
def bench(make_pack: Callable[..., Any]) -> Callable[..., Bench]:
    def make(size: int = 2, **options: Any) -> Bench:
        return Bench(make_pack(*[{"steps": 9}] * size), **options)

    return make


def write_state(directory: Path) -> None:
    (directory / "state.json").write_text("{}")


def test_finished_waits_for_the_next_step_and_then_is_on_disk(bench: Callable[..., Bench]) -> None:
    b = bench()
    first, second = b.pack.runs
    b.session.started(0, None, {"device": "cpu"})
    b.session.metrics(first, 1, {"test/accuracy": 0.5})
    b.session.finish(first, 1, "completed", {"test/accuracy": 0.5})
    assert b.finished == []
    assert not b.session.advance(1, 9)
    assert [f.run for f in b.finished] == [first]
    assert b.rows() == [{"run": first, "step": 1, "test/accuracy": 0.5}]
    assert b.session.unfinished == {second}


def test_the_last_step_counts_though_no_advance_follows_it(bench: Callable[..., Bench]) -> None:
    b = bench()
    b.session.started(0, None, {})
    b.session.advance(8, 9)
    b.session.finish(b.pack.runs[0], 5, "failed", {}, FailureClass.DIVERGED)
    assert b.session.progress.step == 8
    b.session.finish(b.pack.runs[1], 9, "completed", {})
    assert (b.session.progress.step, b.session.progress.steps) == (9, 9)


def test_metrics_reach_the_disk_before_the_fact_that_needs_them(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    b = bench()
    order: list[str] = []
    fsync = os.fsync

    def note(fd: int) -> None:
        order.append(Path(os.readlink(f"/proc/self/fd/{fd}")).name)
        if order[-1] == "metrics.jsonl":
            assert b.finished == [], "the fact is in the file before its metrics are safe"
        fsync(fd)

    monkeypatch.setattr(os, "fsync", note)
    for run in b.pack.runs:
        b.session.metrics(run, 1, {"test/accuracy": 0.5})
        b.session.product(run, "shape", {"of": run})
        b.session.finish(run, 1, "completed", {})
    b.session.commit()
    products = [name for name in order if name.startswith(".")]
    assert len(products) == 2
    assert order == [*products, "products", "metrics.jsonl", "a1", "facts.jsonl"]


def test_a_pack_of_48_no_op_runs_costs_a_handful_of_fsyncs_and_files(
    make_pack: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pack = make_pack(*[{"steps": 0}] * 48)
    attempt = pack.launch()
    fsync, count = os.fsync, []

    def counting(fd: int) -> None:
        count.append(fd)
        fsync(fd)

    monkeypatch.setattr(os, "fsync", counting)
    assert pack.run_here(attempt) == 0
    assert len(pack.finished()) == 48
    assert len(count) <= 8
    assert sum(len(files) for _, _, files in os.walk(pack.path)) <= 6


def test_7_04_no_bare_nan_in_any_file(make_pack: Callable[..., Any]) -> None:
    pack = make_pack({"steps": 5}, {"steps": 5, "faults": {"nan_at": 3}})
    attempt = pack.launch()
    assert pack.run_here(attempt) == 0
    for path in attempt.path.iterdir():
        for line in path.read_bytes().splitlines():
            assert b"null" not in line.lower() or path.name in ("closed.json", "heartbeat.json", "launch.json")
            orjson.loads(line)  # refuses NaN
    rows = read_log(attempt.metrics)[0]
    assert {"run": pack.runs[1], "step": 3, "train/loss": "nan"} in rows
    failed = pack.finished()[pack.runs[1]]
    assert (failed.status, failed.failure, failed.step) == ("failed", FailureClass.DIVERGED, 3)
    assert failed.message == "loss is nan at step 3"


def test_what_is_not_finite_becomes_a_word(bench: Callable[..., Bench]) -> None:
    b = bench()
    run = b.pack.runs[0]
    b.session.metrics(run, 1, {"a": math.nan, "b": math.inf, "c": -math.inf})
    b.session.finish(run, 1, "failed", {"a": math.nan, "n": 3, "word": "x", "none": None}, FailureClass.DIVERGED)
    b.session.commit()
    assert b.rows() == [{"run": run, "step": 1, "a": "nan", "b": "inf", "c": "-inf"}]
    assert b.finished[0].summary == {"a": "nan", "n": 3, "word": "x", "none": None}


def test_only_unfinished_members_report(bench: Callable[..., Bench]) -> None:
    b = bench()
    run, other = b.pack.runs
    b.session.finish(run, 1, "completed", {})
    for call in (
        lambda: b.session.finish(run, 1, "completed", {}),
        lambda: b.session.metrics(run, 2, {}),
        lambda: b.session.product("r-unknown", "shape", {}),
    ):
        with pytest.raises(JobError, match="not an unfinished member"):
            call()
    masked = bench(3, done=(other,))
    with pytest.raises(JobError):
        masked.session.metrics(other, 1, {})


def test_products_are_named_by_the_fact(bench: Callable[..., Bench]) -> None:
    b = bench()
    run = b.pack.runs[0]
    b.session.product(run, "shape", {"theta": [0.1, 0.2]})
    b.session.finish(run, 1, "completed", {})
    b.session.commit()
    product = b.finished[0].products["shape"]
    data = (b.attempt.path / product.path).read_bytes()
    assert product.path == f"products/{run}-shape.json"
    assert orjson.loads(data) == {"theta": [0.1, 0.2]}
    assert product.bytes == len(data)


def test_seconds_are_shared_by_those_that_train(bench: Callable[..., Bench]) -> None:
    b = bench(3)
    b.session.started(0, None, {})
    b.clock.now += 9
    b.session.finish(b.pack.runs[0], 1, "completed", {})
    b.session.advance(1, 9)
    b.clock.now += 4
    b.session.finish(b.pack.runs[1], 2, "completed", {})
    b.session.finish(b.pack.runs[2], 2, "completed", {})
    b.session.commit()
    assert [f.seconds for f in b.finished] == pytest.approx([3, 5, 5])
    assert sum(f.seconds for f in b.finished) == pytest.approx(13)


def test_seconds_go_on_after_a_resume(make_pack: Callable[..., Any]) -> None:
    pack = make_pack({"steps": 9}, {"steps": 9})
    first = Bench(pack)
    first.session.started(0, None, {})
    first.clock.now += 10
    first.session.advance(1, 9)
    first.session.save(1, write_state)
    close_attempt(first.attempt, by="loop", outcome="lost")
    second = Bench(pack)
    assert second.session.resume_step == 1
    second.session.started(1, "exact", {})
    second.clock.now += 4
    second.session.finish(pack.runs[0], 2, "completed", {})
    second.session.commit()
    assert second.finished[0].seconds == pytest.approx(7)


def test_a_resume_that_is_not_exact_is_remembered_to_the_end(make_pack: Callable[..., Any]) -> None:
    pack = make_pack({"steps": 9})
    first = Bench(pack)
    first.session.started(0, None, {})
    first.session.save(2, write_state)
    close_attempt(first.attempt, by="loop", outcome="lost")
    second = Bench(pack)
    second.session.started(2, "not exact: other threads", {})
    second.session.save(4, write_state)
    close_attempt(second.attempt, by="loop", outcome="lost")
    third = Bench(pack)
    third.session.started(4, "exact", {})
    third.session.finish(pack.runs[0], 9, "completed", {})
    third.session.commit()
    assert third.finished[0].exact == ("resumed at step 2: not exact: other threads",)


def due(b: Bench, steps: range) -> list[int]:
    found = []
    for step in steps:
        b.clock.now += 1
        b.session.advance(step, 100)
        if b.session.checkpoint_due(step):
            b.session.save(step, write_state)
            found.append(step)
    return found


def test_checkpoints_by_steps_fall_on_multiples(bench: Callable[..., Bench]) -> None:
    assert due(bench(checkpoint_steps=4), range(1, 14)) == [4, 8, 12]


def test_checkpoints_by_seconds(bench: Callable[..., Bench]) -> None:
    assert due(bench(checkpoint_seconds=5.0), range(1, 14)) == [5, 10]


def test_checkpoints_by_whichever_comes_first(bench: Callable[..., Bench]) -> None:
    assert due(bench(checkpoint_seconds=3.0, checkpoint_steps=4), range(1, 10)) == [3, 4, 7, 8]


def test_none_of_either(bench: Callable[..., Bench]) -> None:
    assert due(bench(checkpoint_seconds=None, checkpoint_steps=None), range(1, 10)) == []


def test_asked_to_leave_means_save_and_go(bench: Callable[..., Bench]) -> None:
    b = bench()
    assert not b.session.advance(3, 9)
    assert not b.session.checkpoint_due(3)
    b.asked = "SIGTERM"
    assert b.session.advance(4, 9)
    assert b.session.checkpoint_due(4)
    b.session.save(4, write_state)
    assert not b.session.checkpoint_due(4), "saved already"


def test_nothing_to_save_when_all_are_finished(bench: Callable[..., Bench]) -> None:
    b = bench(1, asked="SIGTERM")
    b.session.finish(b.pack.runs[0], 9, "completed", {})
    b.session.advance(9, 9)
    assert not b.session.checkpoint_due(9)


def test_a_probe_leaves_after_its_steps_and_saves_nothing(bench: Callable[..., Bench]) -> None:
    b = bench(max_steps=3, checkpoint_steps=1)
    assert [b.session.advance(step, 9) for step in (1, 2, 3)] == [False, False, True]
    assert not b.session.checkpoint_due(3)


def test_a_save_commits_what_came_before_it(bench: Callable[..., Bench]) -> None:
    b = bench()
    run = b.pack.runs[0]
    b.session.metrics(run, 3, {"test/accuracy": 0.1})
    b.session.finish(run, 3, "completed", {})

    def write(directory: Path) -> None:
        assert [f.run for f in b.finished] == [run]
        assert len(b.rows()) == 1
        write_state(directory)

    b.session.save(3, write)
    found, _ = newest_checkpoint(b.attempt.checkpoints, done={run})
    assert found is not None
    assert found.meta["finished"] == [run]


def test_closed_by_somebody_else_means_write_nothing(bench: Callable[..., Bench]) -> None:
    b = bench()
    run = b.pack.runs[0]
    b.session.finish(run, 1, "completed", {})
    close_attempt(b.attempt, by="loop", outcome="lost")
    with pytest.raises(Leave):
        b.session.save(1, write_state)
    with pytest.raises(Leave):
        b.session.commit()
    assert b.finished == []
    assert not b.attempt.checkpoints.exists()


def test_what_is_abandoned_is_never_written(bench: Callable[..., Bench]) -> None:
    b = bench()
    b.session.finish(b.pack.runs[0], 1, "completed", {})
    b.session.recorder.abandon()
    b.session.recorder.commit()
    assert b.finished == []


def test_the_heartbeat_thread_can_end_it_at_the_next_step(bench: Callable[..., Bench]) -> None:
    b = bench()
    b.session.closed_elsewhere()
    with pytest.raises(Leave):
        b.session.advance(1, 9)


def test_closed_during_a_save_means_leave_after_it(bench: Callable[..., Bench]) -> None:
    b = bench()

    def write(directory: Path) -> None:
        write_state(directory)
        close_attempt(b.attempt, by="loop", outcome="lost")

    with pytest.raises(Leave):
        b.session.save(1, write)


def test_a_writer_whose_claim_does_not_stand_never_writes(bench: Callable[..., Bench]) -> None:
    b = bench()
    b.attempt.claimed.unlink()
    assert claim(b.attempt, "job-2")
    with pytest.raises(Leave):
        b.session.save(1, write_state)
    assert not b.attempt.checkpoints.exists()


def test_facts_behind_the_closing_do_not_count(make_pack: Callable[..., Any]) -> None:
    pack = make_pack({"steps": 9}, {"steps": 9})
    b = Bench(pack)
    b.session.finish(pack.runs[0], 1, "completed", {})
    b.session.commit()
    close_attempt(b.attempt, by="loop", outcome="lost")
    b.session.finish(pack.runs[1], 1, "completed", {})
    b.session.recorder.commit()
    assert len(b.finished) == 2
    assert set(pack.finished()) == {pack.runs[0]}


def test_the_first_closing_stands(bench: Callable[..., Bench]) -> None:
    b = bench()
    assert close_attempt(b.attempt, by="loop", outcome="lost", failure=FailureClass.LOST, message="silent")
    assert not close_attempt(b.attempt, by="worker", outcome="completed")
    closed = read_closed(b.attempt.closed)
    assert closed is not None
    assert (closed.by, closed.failure) == ("loop", FailureClass.LOST)


def test_events_keep_their_data(bench: Callable[..., Bench]) -> None:
    b = bench()
    b.session.event("warned", "something odd", node="n1")
    b.session.commit()
    assert [(f.name, f.data) for f in b.pack.facts(1) if isinstance(f, Event)] == [("warned", {"node": "n1"})]


def test_4_09_retention(make_pack: Callable[..., Any]) -> None:
    """Many packs with checkpoints of 100 kB: each holds two while it trains, none when it is done."""
    held = []
    for n in range(3):
        pack = make_pack({"steps": 6, "checkpoint_bytes": 100_000}, name=f"w{n}")
        attempt = pack.launch(checkpoint_steps=1, settings={"toy": {"exit_at": 6, "attempts": [1]}})
        assert pack.run(attempt) == 1
        held.append(len(list(attempt.checkpoints.iterdir())))
        close_attempt(attempt, by="loop", outcome="lost")
        assert pack.run_here(pack.launch(checkpoint_steps=1)) == 0
        assert not attempt.checkpoints.exists()
    assert held == [2, 2, 2]
