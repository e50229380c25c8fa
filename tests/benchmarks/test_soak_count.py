"""The soak's own arithmetic, on files made by hand: each fault it looks for is found, a clean story has none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import orjson
import pytest

from jobs.durable import decide_file, replace_file
from jobs.facts import Checkpointed, Fact, Finished, Started, close_attempt, fact_record
from jobs.workspace import Workspace

PACK = "p0123456789abcde"
RUNS = {"r1": 40, "r2": 60}


@pytest.fixture(scope="module")
def counting(helpers: Callable[[str], ModuleType]) -> ModuleType:
    return helpers("benchmarks/soak_count.py")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A plan of one pack: r1 ends at step 40, r2 at 60, a checkpoint every 10."""
    workspace = Workspace(tmp_path / "w")
    lines: list[dict[str, Any]] = [{"plan": 1, "sweep": "s"}]
    for cell, (run, steps) in enumerate(RUNS.items()):
        lines += [{"cell": cell, "config": {"steps": steps}}, {"run": run, "cell": cell, "seed": 1}]
    lines.append({"pack": PACK, "runs": list(RUNS), "execution": {"checkpoint_steps": 10}})
    workspace.plan("s").parent.mkdir(parents=True)
    replace_file(workspace.plan("s"), b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return workspace


def began(step: int) -> Started:
    return Started(time=1, step=step, host="h", pid=1, members=2, threads=1)


def saved(step: int) -> Checkpointed:
    return Checkpointed(time=1, step=step, bytes=1, seconds=0.1)


def ended(run: str, loss: float = 0.5) -> Finished:
    return Finished(time=1, run=run, status="completed", step=RUNS[run], seconds=loss, summary={"test/loss": loss})


def attempt(
    workspace: Workspace,
    number: int,
    facts: Sequence[Fact],
    *,
    done: Sequence[str] = (),
    beat: int | None = None,
    outcome: Any = "completed",
    evidence: Mapping[str, Any] | None = None,
    late: Sequence[Fact] = (),
    rows: Sequence[Mapping[str, Any]] = (),
) -> None:
    """One attempt of the pack; ``late`` facts are written after it was closed."""
    place = workspace.attempt(PACK, number)
    place.path.mkdir(parents=True)
    launch = {
        "pack": PACK, "attempt": number, "name": f"orc-{PACK}-a{number}", "runner": "train", "root": "/w",
        "members": [{"run": run, "config": 0, "seed": 1, "done": run in done} for run in RUNS], "configs": [{}],
    }  # fmt: skip
    decide_file(place.launch, launch)
    decide_file(place.claimed, {"time": 1.0, "job": f"orc-{PACK}-a{number}/7_{number}/0", "host": "h", "pid": 1})
    place.facts.write_bytes(b"".join(orjson.dumps(fact_record(fact)) + b"\n" for fact in facts))
    place.metrics.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    if beat is not None:
        replace_file(place.heartbeat, orjson.dumps({"beat": 3, "step": beat, "steps": 60, "time": 1.0}))
    close_attempt(place, by="loop", outcome=outcome, evidence=evidence)
    with open(place.facts, "ab") as log:
        log.writelines(orjson.dumps(fact_record(fact)) + b"\n" for fact in late)


def counted(counting: ModuleType, workspace: Workspace) -> Any:
    return counting.count(workspace, counting.Plan.read(workspace, "s"))


def test_a_clean_story_has_no_fault(counting: ModuleType, workspace: Workspace) -> None:
    attempt(workspace, 1, [began(0), *map(saved, (10, 20, 30)), ended("r1"), *map(saved, (40, 50)), ended("r2")])
    tally = counted(counting, workspace)
    assert (tally.runs, tally.useful, tally.interruptions, tally.checkpoints_before_end) == (2, 100, 0, 3)
    assert (tally.lost, tally.twice, tally.too_far_back) == ([], [], [])
    assert (tally.again_least, tally.again_most, tally.worst_run) == (0, 0, 0)


def test_repeated_steps_lie_between_the_heartbeat_and_the_next_checkpoint(
    counting: ModuleType, workspace: Workspace
) -> None:
    attempt(workspace, 1, [began(0), saved(10), saved(20)], beat=24, outcome="lost")
    attempt(workspace, 2, [began(20), saved(30), ended("r1"), saved(40), saved(50), ended("r2")])
    tally = counted(counting, workspace)
    assert (tally.again_least, tally.again_most) == (2 * 4, 2 * 10)
    assert (tally.worst_run, tally.interruptions, tally.too_far_back) == (10, 1, [])


def test_a_worker_that_left_when_asked_repeats_nothing(counting: ModuleType, workspace: Workspace) -> None:
    attempt(workspace, 1, [began(0), saved(10), saved(17)], outcome="preempted", evidence={"reached": 17})
    attempt(workspace, 2, [began(17), saved(20), ended("r1"), ended("r2")])
    tally = counted(counting, workspace)
    assert (tally.again_least, tally.again_most) == (0, 0)


def test_a_finished_member_repeats_nothing(counting: ModuleType, workspace: Workspace) -> None:
    attempt(workspace, 1, [began(0), saved(10), saved(30), ended("r1")], beat=42, outcome="lost")
    attempt(workspace, 2, [began(30), saved(40), ended("r2")], done=["r1"])
    tally = counted(counting, workspace)
    assert (tally.again_least, tally.again_most) == (12, 12)
    assert (tally.lost, tally.twice) == ([], [])


def test_what_is_lost_is_named(counting: ModuleType, workspace: Workspace) -> None:
    attempt(workspace, 1, [began(0), ended("r1")], outcome="lost")
    assert counted(counting, workspace).lost == [f"{PACK}: r2"]


def test_what_a_second_copy_says_does_not_count(counting: ModuleType, workspace: Workspace) -> None:
    attempt(workspace, 1, [began(0), saved(10)], outcome="lost", late=[ended("r1"), ended("r2")])
    tally = counted(counting, workspace)
    assert len(tally.lost) == 2
    assert tally.ignored == 2


def test_what_is_done_twice_is_named(counting: ModuleType, workspace: Workspace) -> None:
    attempt(workspace, 1, [began(0), began(0), ended("r1")], outcome="lost")
    attempt(workspace, 2, [began(0), ended("r1"), ended("r2")])
    twice = counted(counting, workspace).twice
    words = ("begun twice", "had finished before", "finished 2 times")
    assert [any(word in line for line in twice) for word in words] == [True, True, True]
    assert len(twice) == 3


def test_going_back_behind_a_checkpoint_is_named(counting: ModuleType, workspace: Workspace) -> None:
    attempt(workspace, 1, [began(0), saved(10), saved(20)], outcome="lost")
    attempt(workspace, 2, [began(10), ended("r1"), ended("r2")])
    tally = counted(counting, workspace)
    assert len(tally.too_far_back) == 1
    assert tally.worst_run == 20


def test_results_are_compared_but_for_times(counting: ModuleType, tmp_path: Path, workspace: Workspace) -> None:
    other = Workspace(tmp_path / "v")
    other.plan("s").parent.mkdir(parents=True)
    other.plan("s").write_bytes(workspace.plan("s").read_bytes())
    row = {"run": "r1", "step": 20, "test/loss": 0.7}
    attempt(workspace, 1, [began(0), saved(10)], outcome="lost", rows=[{**row, "test/loss": 0.9}])
    attempt(workspace, 2, [began(10), ended("r1"), ended("r2", 0.25)], rows=[row])
    attempt(other, 1, [began(0), ended("r1"), ended("r2", 0.125)], rows=[row])
    plan = counting.Plan.read(workspace, "s")
    pair = counting.results(workspace, plan), counting.results(other, plan)
    assert list(counting.differing(*pair)) == ["r2"]


def test_weights_count_before_the_first_end_only(counting: ModuleType) -> None:
    here = {("p", 20): {"a"}, ("p", 40): {"b", "c"}, ("p", 60): {"d"}, ("q", 20): {"e"}}
    there = {("p", 20): {"a"}, ("p", 40): {"b"}, ("p", 60): {"x"}}
    assert counting.differing_weights(here, there, 41) == (2, ["p at step 40"])
