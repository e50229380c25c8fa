"""What the next attempt is expected to need, by hand-made measurements; and those, by hand-made facts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cluster.backend import Needs
from jobs.durable import AppendLog
from jobs.facts import (
    Checkpointed,
    Claimed,
    Closed,
    Fact,
    FailureClass,
    Finished,
    Heartbeat,
    Started,
    fact_record,
)
from jobs.workspace import Workspace
from orchestrator.calibration import Measured, joined, measure_pack
from orchestrator.history import AttemptView
from orchestrator.needs import Work, lead_of, memory_of, needs_of

SLOW = Measured(rate_s=0.5, step_s=2.0, start_s=56.0, save_s=20.0, models=4)


def test_a_lead_is_three_saves_a_step_and_a_minute() -> None:
    assert lead_of(SLOW, 4) == 150  # 3 * 20 + 2 + 60 = 122, rounded up to half minutes
    assert lead_of(SLOW, 2) == 150, "a smaller pack is taken to save no faster"
    assert lead_of(SLOW, 8) == 210  # 2 * (3 * 20 + 2) + 60 = 184
    assert lead_of(Measured(rate_s=0.5), 1) is None
    assert lead_of(Measured(save_s=0.0), 1) == 60


def test_a_limit_is_what_is_left_and_a_third_and_time_to_leave() -> None:
    # 4/3 * (60 + 3000 * 0.5 * 4) s + 150 + 60 s = 8290 s = 138.2 min
    assert needs_of(SLOW, Work(3000, 4), {}) == Needs(180, 15, 150)
    # the half that is left after a resume: 4/3 * (60 + 3000) + 210 = 4290 s = 71.5 min
    assert needs_of(SLOW, Work(1500, 4), {}) == Needs(90, 15, 150)
    found = needs_of(SLOW, Work(10**6, 4), {})
    assert found is not None
    assert found.minutes % 1440 == 0, "whole days"


@pytest.mark.parametrize(
    ("execution", "least"),
    [
        ({}, 15),
        ({"checkpoint_seconds": 1800.0}, 45),  # 4/3 * (60 + 1800) + 210 = 2690 s
        ({"checkpoint_seconds": 1800.0, "checkpoint_steps": 600}, 32),  # 600 steps of 2 s come first: 1890 s
    ],
)
def test_the_least_that_is_worth_a_start_is_a_checkpoint_interval(execution: dict[str, Any], least: int) -> None:
    found = needs_of(SLOW, Work(3000, 4), execution)
    assert found is not None
    assert found.least_minutes == least


def test_nothing_is_proposed_without_a_pace_or_a_length() -> None:
    assert needs_of(None, Work(10, 1), {}) is None
    assert needs_of(Measured(save_s=3.0), Work(10, 1), {}) is None
    assert needs_of(SLOW, Work(0, 1), {}) is None


# What was measured


class Pack:
    """A pack of two runs, of 2 and 1 models, whose attempts are written by hand."""

    MODELS = {"r1": 2, "r2": 1}  # noqa: RUF012

    def __init__(self, folder: Path) -> None:
        self.space = Workspace(folder)

    def attempt(self, number: int, facts: list[Fact], step_s: float | None = None, claimed: float = 0.0) -> None:
        place = self.space.attempt("p1", number)
        place.path.mkdir(parents=True)
        place.launch.write_text("{}")
        place.claimed.write_text(Claimed(time=claimed, job="j", host="h", pid=1).model_dump_json())
        beat = Heartbeat(beat=1, step=1, steps=9, median_step_s=step_s, time=0.0)
        place.heartbeat.write_text(beat.model_dump_json())
        log = AppendLog(place.facts)
        for fact in facts:
            log.append(fact_record(fact))
        log.close()

    def measured(self) -> Measured | None:
        return measure_pack(self.space, "p1", self.MODELS)


def started(time: float, step: int = 0, members: int = 2) -> Started:
    return Started(time=time, step=step, host="h", pid=1, members=members, threads=1)


def saved(time: float, step: int, seconds: float) -> Checkpointed:
    return Checkpointed(time=time, step=step, bytes=1, seconds=seconds)


def finished(run: str, step: int, seconds: float) -> Finished:
    return Finished(time=99.0, run=run, status="completed", step=step, seconds=seconds)


@pytest.fixture
def pack(tmp_path: Path) -> Pack:
    return Pack(tmp_path)


def test_members_that_came_to_their_end_tell_the_rate(pack: Pack) -> None:
    facts = [started(130.0), saved(150.0, 10, 1.5), saved(170.0, 20, 0.5), finished("r1", 30, 40.0)]
    pack.attempt(1, [*facts, finished("r2", 30, 20.0)], step_s=1.9, claimed=100.0)
    assert pack.measured() == Measured(60.0 / 90, 1.9, 30.0, 1.5, 3)


def test_an_attempt_that_was_cut_tells_its_rate_up_to_its_last_checkpoint(pack: Pack) -> None:
    pack.attempt(1, [started(10.0, 100), saved(70.0, 120, 2.0), saved(190.0, 160, 4.0)], step_s=2.5)
    found = pack.measured()
    assert found is not None
    assert found.rate_s == pytest.approx(180 / (60 * 3))
    assert found.save_s == 4.0


def test_a_heartbeat_tells_a_pace_before_the_first_checkpoint(pack: Pack) -> None:
    pack.attempt(1, [started(10.0)], step_s=3.0)
    assert pack.measured() == Measured(1.0, 3.0, 10.0, None, 3)
    assert pack.space.attempts("p2") == []
    assert measure_pack(pack.space, "p2", {}) is None


def test_the_slowest_decide_and_the_rate_is_the_median() -> None:
    several = [Measured(1.0, 1.0, 5.0, None, 1), Measured(3.0, 4.0, 2.0, 7.0, 2), Measured(2.0, 2.0, 9.0, 6.0, 8)]
    assert joined(several) == Measured(2.0, 4.0, 9.0, 7.0, 8)


# Memory


def view(number: int, failure: FailureClass | None, peak: int = 0) -> AttemptView:
    closed = Closed(time=0.0, by="loop", outcome="failed" if failure else "preempted", failure=failure)
    return AttemptView(number, f"orc-p1-a{number}", closed=closed, ended={"max_rss_mb": peak} if peak else None)


OOM = FailureClass.OUT_OF_MEMORY


def test_each_run_out_of_memory_doubles_what_is_asked_for_up_to_what_is_allowed() -> None:
    plan = {"memory_mb": 1000, "max_memory_mb": 3000}
    views = [view(1, OOM, 990)]
    first = memory_of(plan, views)
    assert first is not None
    assert (first.asked_mb, first.wanted_mb, first.allowed_mb) == (1000, 2048, 2048)
    views += [view(2, FailureClass.PREEMPTED), view(3, OOM)]
    second = memory_of(plan, views)
    assert second is not None
    assert (second.asked_mb, second.wanted_mb, second.allowed_mb) == (2048, 4096, 3000)
    assert "asks for 3000" in second.words
    assert "4096 were better" in second.words


def test_what_a_process_used_counts_where_it_is_more() -> None:
    found = memory_of({"memory_mb": 1000, "max_memory_mb": 9000}, [view(1, OOM, 4000)])
    assert found is not None
    assert found.allowed_mb == 6144  # 1.5 * 4000, in steps of 256


def test_without_permission_the_number_is_named_and_not_asked_for() -> None:
    found = memory_of({"memory_mb": 1000}, [view(1, OOM, 990)])
    assert found is not None
    assert found.allowed_mb == 1000
    assert found.words == (
        "1000 MB were asked for, one process used 990; ask for 2048 (resources.memory_mb), or allow it "
        "(resources.max_memory_mb)"
    )


def test_where_nobody_asked_the_peak_or_the_most_decides() -> None:
    seen = memory_of({}, [view(1, OOM, 400)])
    assert seen is not None
    assert (seen.wanted_mb, seen.allowed_mb) == (768, None)
    blind = memory_of({"max_memory_mb": 4000}, [view(1, OOM)])
    assert blind is not None
    assert (blind.wanted_mb, blind.allowed_mb) == (None, 4000)
    site = memory_of({"max_memory_mb": 4000}, [view(1, OOM)], site_mb=1500)
    assert site is not None
    assert (site.asked_mb, site.allowed_mb) == (1500, 3072)


def test_other_ends_say_nothing_of_memory() -> None:
    assert memory_of({"memory_mb": 1}, [view(1, FailureClass.GPU_OUT_OF_MEMORY, 9), view(2, None)]) is None
