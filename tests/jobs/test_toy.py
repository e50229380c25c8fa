"""The bench's trainer: deterministic, and every switch breaks what it says."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from pydantic import ValidationError

from jobs.durable import read_log
from jobs.facts import close_attempt, read_heartbeat
from jobs.runners import describe, normalise, validate_config
from jobs.toy_config import Faults, ToyConfig


def test_the_same_run_is_the_same_in_any_pack(make_pack: Callable[..., Any]) -> None:
    one = make_pack({"steps": 7}, name="one")
    many = make_pack({"steps": 7}, {"steps": 3}, {"steps": 7}, name="many")
    for pack in (one, many):
        assert pack.run_here(pack.launch()) == 0
    digests = many.digests()
    assert digests[one.runs[0]] == one.digests()[one.runs[0]]
    assert len(set(digests.values())) == 3, "seeds differ"


def test_accuracy_rises_to_its_level(make_pack: Callable[..., Any]) -> None:
    pack = make_pack({"steps": 50, "level": 0.6, "noise": 0.02, "metric_every": 10})
    attempt = pack.launch()
    assert pack.run_here(attempt) == 0
    rows = read_log(attempt.metrics)[0]
    assert [row["step"] for row in rows] == [10, 20, 30, 40, 50]
    accuracies = [row["test/accuracy"] for row in rows]
    assert accuracies[0] < accuracies[-1] == pytest.approx(0.6, abs=0.02)


def test_no_steps_are_over_at_once(make_pack: Callable[..., Any]) -> None:
    pack = make_pack({"steps": 0}, {"steps": 0})
    attempt = pack.launch()
    assert pack.run_here(attempt) == 0
    assert [fact.step for fact in pack.finished().values()] == [0, 0]
    assert not attempt.metrics.exists()


def test_faults_fire_only_where_they_are_meant_to(make_pack: Callable[..., Any]) -> None:
    pack = make_pack({"steps": 9, "faults": {"exit_at": 5, "exit_code": 3, "attempts": [2]}})
    first = pack.launch(max_steps=2)
    assert pack.run(first) == 0
    second = pack.launch()
    assert pack.run(second) == 3
    close_attempt(second, by="loop", outcome="lost")
    assert pack.run(pack.launch()) == 0


def test_a_run_that_is_held_waits_hears_signals_and_goes_on_exactly(
    make_pack: Callable[..., Any], until: Callable[..., None], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    free = make_pack({"steps": 6}, name="free")
    assert free.run_here(free.launch()) == 0
    pack = make_pack({"steps": 6}, name="held")
    held = pack.launch(settings={"toy": {"hold": str(gate), "hold_at": 3}})
    process = pack.start(held)
    until(lambda: (beat := read_heartbeat(held.heartbeat)) is not None and beat.step == 3)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 75
    gate.unlink()
    assert pack.run_here(pack.launch(settings={"toy": {"hold": str(gate), "hold_at": 3}})) == 0
    assert list(pack.digests().values()) == list(free.digests().values())


def test_slow_saves_are_slow(make_pack: Callable[..., Any]) -> None:
    pack = make_pack({"steps": 4})
    attempt = pack.launch(checkpoint_steps=2, settings={"toy": {"save_seconds": 0.05}})
    assert pack.run_here(attempt) == 0
    saves = [fact.seconds for fact in pack.facts(1) if fact.fact == "checkpointed"]
    assert len(saves) == 2
    assert min(saves) >= 0.05


def test_6_09_children_outlive_a_worker_that_ignores_them(make_pack: Callable[..., Any]) -> None:
    pack = make_pack({"steps": 2})
    attempt = pack.launch(settings={"toy": {"children": 2}})
    process = pack.start(attempt, process_group=0)
    assert process.wait(timeout=20) == 0
    left = [p for p in psutil.process_iter() if _group(p.pid) == process.pid]
    assert len(left) == 2
    os.killpg(process.pid, signal.SIGKILL)


def _group(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def test_its_shape_and_defaults() -> None:
    shape = describe("toy", {"steps": 3, "products": ["shape"], "stack": "x", "checkpoint_bytes": 800})
    assert (shape.stack_key, shape.steps, shape.products, shape.checkpoint_bytes) == ("toy-x", 3, ("shape",), 1000)
    assert normalise("toy", {"steps": 10, "faults": {}}) == {}
    assert normalise("toy", {"faults": {"nan_at": 3}}) == {"faults": {"nan_at": 3}}
    assert validate_config("toy", {}) == ToyConfig()


def test_mistakes_are_refused() -> None:
    for wrong in ({"steps": -1}, {"noise": -0.1}, {"metric_every": 0}, {"colour": "red"}, {"faults": {"nan": 3}}):
        with pytest.raises(ValidationError):
            ToyConfig.model_validate(wrong)
    assert Faults().attempts is None
