"""Pulse and hang: driven by a clock that the test owns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.facts import close_attempt, read_heartbeat
from jobs.heartbeat import STARTUP_FACTOR, HangWatch, Progress, Pulse
from jobs.workspace import AttemptDir


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def stepped(clock: Clock, *durations: float) -> Progress:
    progress = Progress(clock=clock)
    progress.busy()
    for n, duration in enumerate(durations):
        clock.now += duration
        progress.advance(n + 1, 100)
    return progress


def seconds_to_hang(watch: HangWatch, clock: Clock, tick: float, limit: float = 1e5) -> float:
    began = clock.now
    while not watch.look(clock.now):
        clock.now += tick
        assert clock.now - began < limit, "no hang was seen"
    return clock.now - began


def test_median_of_the_last_steps(clock: Clock) -> None:
    assert Progress(clock=clock).median_step_s() is None
    assert stepped(clock, 1, 2, 30).median_step_s() == pytest.approx(2)
    progress = stepped(clock, *[5.0] * 64, *[1.0] * 64)
    assert progress.median_step_s() == pytest.approx(1)


def test_several_steps_at_once_share_their_time(clock: Clock) -> None:
    progress = stepped(clock, 1.0)
    clock.now += 8
    progress.advance(5, 100)
    assert progress.median_step_s() == pytest.approx(1.5)


def test_a_save_is_no_step_to_be_timed(clock: Clock) -> None:
    progress = stepped(clock, 1.0, 1.0)
    progress.busy()
    clock.now += 500
    progress.busy()
    clock.now += 1
    progress.advance(3, 100)
    assert progress.median_step_s() == pytest.approx(1)


@pytest.mark.parametrize(("step_s", "floor_s", "expected"), [(1, 300, 300), (60, 300, 600), (0.01, 2, 2)])
def test_hang_after_ten_medians_or_the_floor(clock: Clock, step_s: float, floor_s: float, expected: float) -> None:
    watch = HangWatch(stepped(clock, *[step_s] * 5), floor_s, interval_s=1)
    watch.look(clock.now)
    assert seconds_to_hang(watch, clock, 1) == pytest.approx(expected, abs=2)


def test_the_first_step_may_take_longer(clock: Clock) -> None:
    watch = HangWatch(stepped(clock), 100, interval_s=1)
    assert seconds_to_hang(watch, clock, 1) == pytest.approx(100 * STARTUP_FACTOR, abs=2)


def test_steps_and_saves_keep_the_watch_quiet(clock: Clock) -> None:
    progress = stepped(clock, 1, 1)
    watch = HangWatch(progress, 10, interval_s=3)
    for n in range(100):
        clock.now += 9
        progress.busy() if n % 2 else progress.advance(n + 3, 1000)
        assert not watch.look(clock.now)


def test_the_same_step_again_is_no_progress(clock: Clock) -> None:
    progress = stepped(clock, 1, 1)
    watch = HangWatch(progress, 10, interval_s=3)
    hung = False
    for _ in range(10):
        clock.now += 3
        progress.advance(2, 100)
        hung = hung or watch.look(clock.now)
    assert hung


def test_time_in_which_nobody_could_run_is_no_hang(clock: Clock) -> None:
    """SIGSTOP for an hour: the watch itself was not scheduled either."""
    progress = stepped(clock, 1, 1)
    watch = HangWatch(progress, 60, interval_s=3)
    watch.look(clock.now)
    clock.now += 3600
    assert not watch.look(clock.now)
    clock.now += 3
    progress.advance(3, 100)
    assert not watch.look(clock.now)


def test_a_hang_after_a_stop_is_still_seen(clock: Clock) -> None:
    watch = HangWatch(stepped(clock, 1, 1), 60, interval_s=3)
    watch.look(clock.now)
    clock.now += 3600
    watch.look(clock.now)
    assert seconds_to_hang(watch, clock, 3) < 62


def test_pulse_beats_and_tells_once_that_the_attempt_is_closed(
    tmp_path: Path, clock: Clock, until: Callable[..., None]
) -> None:
    attempt = AttemptDir(tmp_path / "a1")
    attempt.path.mkdir()
    progress = stepped(clock, 2.0, 2.0)
    told: list[str] = []
    pulse = Pulse(
        attempt,
        progress,
        hang_floor_s=1e9,
        on_closed=lambda: told.append("closed"),
        on_hang=lambda limit: told.append("hang"),
        interval_s=0.005,
        clock=clock,
    )
    pulse.start()
    first = read_heartbeat(attempt.heartbeat)
    assert first is not None
    assert (first.beat, first.step, first.steps, first.median_step_s) == (1, 2, 100, 2.0)
    close_attempt(attempt, by="loop", outcome="lost")
    until(lambda: told)
    beat = first.beat
    until(lambda: (read_heartbeat(attempt.heartbeat) or first).beat > beat + 2)
    pulse.stop()
    assert told == ["closed"]
    last = read_heartbeat(attempt.heartbeat)
    assert sorted(p.name for p in attempt.path.iterdir()) == ["closed.json", "heartbeat.json"]
    assert read_heartbeat(attempt.heartbeat) == last


def test_a_heartbeat_that_cannot_be_written_ends_nothing(tmp_path: Path, clock: Clock) -> None:
    attempt = AttemptDir(tmp_path / "absent" / "a1")
    told: list[str] = []
    pulse = Pulse(
        attempt,
        Progress(clock=clock),
        hang_floor_s=9,
        on_closed=lambda: None,
        on_hang=lambda limit: told.append("hang"),
    )
    pulse.beat()
    assert told == []


def test_an_empty_heartbeat_is_none(tmp_path: Path) -> None:
    (tmp_path / "heartbeat.json").write_bytes(b"")
    assert read_heartbeat(tmp_path / "heartbeat.json") is None
