"""What ``status`` and ``show`` stand on: counts, reasons, costs, and a run with all its attempts."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from types import ModuleType

import pytest

from cluster.local_backend import LocalBackend
from jobs.facts import FailureClass
from jobs.spec import InputRef, RunSpec
from jobs.state import RunState
from jobs.workspace import Workspace
from orchestrator.cli import status_view
from orchestrator.cli.status_view import show_status
from orchestrator.errors import OrchestratorError
from orchestrator.loop import Loop, TickReport
from orchestrator.policy import LOCAL, RETRIES, Retry
from orchestrator.requests import write_request
from orchestrator.selection import Selection, select
from orchestrator.status import SweepStatus, run_view, summary

FAST = replace(
    LOCAL, poll_s=(0.02, 0.2), probe=False, retries={**RETRIES, **{c: Retry(r.tries) for c, r in RETRIES.items()}}
)


def watch(workspace: Workspace, on_tick=None) -> TickReport:
    loop = Loop(workspace, LocalBackend(), FAST, code="")
    try:
        return loop.watch(on_tick)
    finally:
        loop.close()


def test_a_run_of_three_attempts_is_shown_with_all_of_them(workspace: Workspace, lab: ModuleType) -> None:
    config = {"steps": 12, "faults": {"error_at": 8, "attempts": [1, 2]}, "products": ["shape"]}
    (spec,) = specs = lab.cell(config, [4])
    lab.write_plan(workspace, "s", [specs], execution={"checkpoint_steps": 5})
    watch(workspace)
    view = run_view(workspace, spec.id[:6])
    assert (view.run, view.spec, view.sweeps) == (spec.id, spec, ("s",))
    assert view.verdict.state is RunState.COMPLETED
    shown = [(a.number, a.outcome, a.failure, a.first_step, a.exact) for a in view.attempts]
    assert shown == [
        (1, "failed", "unknown", 0, None),
        (2, "failed", "unknown", 5, "exact"),
        (3, "completed", None, 5, "exact"),
    ]
    assert all(attempt.log.exists() for attempt in view.attempts)
    first = view.attempts[0].exit
    assert first is not None
    assert first["code"] == 1
    assert "told to fail" in view.attempts[0].message
    assert view.products["shape"].read_text().startswith("{")
    assert view.labels == {"seed": 4}


def test_a_run_is_named_by_a_prefix_that_is_its_own(workspace: Workspace, lab: ModuleType) -> None:
    specs = lab.cell({}, range(40))
    lab.write_plan(workspace, "s", [specs])
    with pytest.raises(OrchestratorError, match="begins 40 runs"):
        run_view(workspace, "r")
    with pytest.raises(OrchestratorError, match="no run"):
        run_view(workspace, "rzz")
    assert run_view(workspace, specs[3].id).attempts == []
    with pytest.raises(OrchestratorError, match="no sweep 'none'"):
        summary(workspace, "none")


def test_7_08_a_thousand_and_one_runs_are_counted_and_can_all_be_chosen(workspace: Workspace, lab: ModuleType) -> None:
    specs = lab.cell({}, range(1001))
    lab.write_plan(workspace, "s", [specs[at : at + 100] for at in range(0, 1001, 100)])
    status = summary(workspace, "s")
    assert (status.total, status.counts[RunState.PENDING], sum(status.waiting.values())) == (1001, 1001, 1001)
    chosen = select(workspace, Selection(sweep="s"), (RunState.PENDING,)).runs
    assert {each.run for each in chosen} == {spec.id for spec in specs}


def test_the_id_of_a_pack_that_status_shows_can_be_typed_wherever_a_run_can(
    workspace: Workspace, lab: ModuleType
) -> None:
    first, second = (lab.cell({}, seeds) for seeds in (range(3), range(3, 5)))
    pack, _ = lab.write_plan(workspace, "s", [first, second])
    assert run_view(workspace, pack).run == first[0].id
    assert run_view(workspace, pack[:12]).pack == pack
    chosen = select(workspace, Selection(runs=(pack, second[1].id)), (RunState.PENDING,)).runs
    assert {each.run for each in chosen} == {spec.id for spec in (*first, second[1])}
    with pytest.raises(OrchestratorError, match="begins 2 packs"):
        run_view(workspace, "p")
    with pytest.raises(OrchestratorError, match=r"no run or pack .* 'pzz'"):
        run_view(workspace, "pzz")


def test_what_is_broken_what_waits_and_what_it_cost(workspace: Workspace, lab: ModuleType) -> None:
    good, bad = {"steps": 6, "step_seconds": 0.01}, {"steps": 6, "step_seconds": 0.01, "faults": {"gpu_oom_at": 4}}
    producer = RunSpec("toy", bad, 0)
    consumer = RunSpec("toy", {"consumes": ["i"]}, 0, {"i": InputRef(producer.id, "shape")})
    lab.write_plan(workspace, "s", [[producer], lab.cell(good, [1]), [consumer]])
    report = watch(workspace)
    status = summary(workspace, "s")
    assert report.done
    assert {state: n for state, n in status.counts.items() if n} == {
        RunState.COMPLETED: 1,
        RunState.FAILED: 1,
        RunState.PENDING: 1,
    }
    assert (status.total, status.ended, list(status.live)) == (3, 2, [])
    (broken,) = status.broken
    assert (broken["failure"], broken["runs"], broken["example"]) == ("gpu_out_of_memory", 1, producer.id)
    (why,) = status.waiting
    assert why.startswith("blocked: needs a run which has failed (gpu_out_of_memory")
    assert status.cost["useful"] >= 0.05
    assert 0.0 < status.cost["gpu_out_of_memory"] < 5.0
    view = run_view(workspace, consumer.id)
    assert view.inputs == {"i": (producer.id, "shape", "failed")}


def test_a_live_pack_says_how_far_it_is(workspace: Workspace, lab: ModuleType) -> None:
    (spec,) = specs = lab.cell({"steps": 100, "step_seconds": 0.02}, [0])
    (pack,) = lab.write_plan(workspace, "s", [specs], execution={"settings": {"heartbeat_s": 0.05}})
    seen: list[SweepStatus] = []

    def look(report: TickReport) -> None:
        status = summary(workspace, "s")
        if status.live and status.live[0].step > 3:
            seen.append(status)
            if not workspace.requests.exists():
                write_request(workspace, "cancel", {spec.id: 1})

    watch(workspace, look)
    (live,) = seen[0].live
    assert (live.pack, live.attempt, live.state, live.runs, live.steps) == (pack, 1, RunState.RUNNING, 1, 100)
    assert live.eta_s is not None
    assert 0.5 < live.eta_s < 20
    assert summary(workspace, "s").counts[RunState.CANCELLED] == 1


def test_what_died_while_no_loop_looked_is_not_called_running(
    workspace: Workspace, lab: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    specs = lab.cell({"steps": 100, "faults": {"signal_at": 4}}, [0])
    (pack,) = lab.write_plan(workspace, "s", [specs])
    loop = Loop(workspace, LocalBackend(), FAST, code="")
    loop.tick()
    loop.close()
    attempt = workspace.attempt(pack, 1)
    end = time.monotonic() + 30
    while not attempt.exit.exists():
        assert time.monotonic() < end
        time.sleep(0.02)
    (live,) = summary(workspace, "s").live
    assert live.over == "signal 9"
    os.utime(attempt.heartbeat, (0, time.time() - 600))
    (live,) = summary(workspace, "s").live
    assert live.silent_s is not None
    assert live.silent_s >= 599, "a beat that no loop has watched is as old as its file"
    show_status(workspace, [summary(workspace, "s")], 8)
    assert "not judged yet" in (shown := capsys.readouterr().out)
    assert "go on with" not in shown, "a loop has looked just now"
    monkeypatch.setattr(status_view, "STALE_S", -1.0)
    show_status(workspace, [summary(workspace, "s")], 8)
    assert "not all of these run any more; go on with: orchestrate" in capsys.readouterr().out


def test_a_run_may_fail_while_its_pack_trains_on(workspace: Workspace, lab: ModuleType) -> None:
    bad = RunSpec("toy", {"steps": 30, "step_seconds": 0.02, "faults": {"nan_at": 2}}, 0)
    good = RunSpec("toy", {"steps": 30, "step_seconds": 0.02}, 1)
    lab.write_plan(workspace, "s", [[bad, good]])
    watch(workspace)
    assert run_view(workspace, bad.id).verdict.failure is FailureClass.DIVERGED
    assert run_view(workspace, good.id).verdict.state is RunState.COMPLETED
    assert [a.outcome for a in run_view(workspace, bad.id).attempts] == ["completed"]
