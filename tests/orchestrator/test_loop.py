"""The loop on real processes: failures, retries, requests, inputs, limits, and what a run costs in files and fsyncs."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cluster.fake_backend import FakeBackend
from cluster.local_backend import LocalBackend
from cluster.process_id import pid_of
from jobs.facts import FailureClass
from jobs.launch import read_launch
from jobs.state import RunState, finished_facts, read_pack
from jobs.workspace import Workspace
from orchestrator.loop import Loop, TickReport
from orchestrator.policy import LOCAL, RETRIES, Policy, Retry
from orchestrator.requests import write_request

FAST = replace(
    LOCAL,
    quiet_s=0.5,
    poll_s=(0.02, 0.2),
    probe=False,
    retries={**RETRIES, **{c: Retry(r.tries, 0.0) for c, r in RETRIES.items()}},
)
Watch = Callable[..., TickReport]


@pytest.fixture
def watch(workspace: Workspace) -> Iterator[Watch]:
    """Watch a workspace until all is done; what is left alive is stopped."""
    loops: list[Loop] = []

    def run(policy: Policy = FAST, on_tick: Any = None, **options: Any) -> TickReport:
        loop = Loop(workspace, LocalBackend(), policy, code="", **options)
        loops.append(loop)
        return loop.watch(on_tick)

    yield run
    for loop in loops:
        handles = [h for _, view in loop.board.live_attempts() if (h := view.executor("local")) is not None]
        loop._backend.cancel(handles, grace_s=0)
        loop.close()


def ended(workspace: Workspace, pack: str) -> list[tuple[str, str | None]]:
    """Outcome and failure class of a pack's attempts."""
    closed = [record.closed for record in read_pack(workspace.pack(pack))]
    return [(c.outcome, str(c.failure) if c.failure else None) for c in closed if c is not None]


def live_pid(loop_or_workspace: Workspace, pack: str, number: int = 1) -> int:
    claim = (loop_or_workspace.attempt(pack, number).claimed).read_text()
    return pid_of(claim.split("/")[1])


@pytest.mark.parametrize(
    ("faults", "outcomes"),
    [
        ({"signal_at": 3, "attempts": [1]}, [("lost", "lost"), ("completed", None)]),
        ({"exit_at": 3, "exit_code": 3, "attempts": [1]}, [("failed", "unknown"), ("completed", None)]),
        ({"error_at": 3, "attempts": [1, 2]}, [("failed", "unknown")] * 2 + [("completed", None)]),
        ({"error_at": 3}, [("failed", "unknown")] * 3),
        ({"full_disk_at": 2, "attempts": [1]}, [("failed", "disk"), ("completed", None)]),
        ({"oom_at": 2}, [("failed", "out_of_memory")] * 2),
        ({"gpu_oom_at": 2}, [("failed", "gpu_out_of_memory")]),
        ({"die_before_finish": True, "attempts": [1]}, [("lost", "lost"), ("completed", None)]),
        ({"nan_at": 2}, [("completed", None)]),
    ],
)
def test_every_way_to_fail(
    workspace: Workspace, lab: ModuleType, watch: Watch, faults: dict[str, Any], outcomes: list[Any]
) -> None:
    (pack,) = lab.write_plan(workspace, "s", [lab.cell({"steps": 5, "faults": faults}, [0, 1])])
    report = watch()
    assert ended(workspace, pack) == outcomes
    good = outcomes[-1][0] == "completed" and "nan_at" not in faults
    assert report.counts["s"][RunState.COMPLETED if good else RunState.FAILED] == 2
    assert report.done


def test_a_worker_or_a_shim_that_is_killed_is_lost_and_run_again(
    workspace: Workspace, lab: ModuleType, watch: Watch
) -> None:
    slow = {"steps": 40, "step_seconds": 0.02}
    packs = lab.write_plan(workspace, "s", [lab.cell(slow, [n]) for n in range(2)], execution={"checkpoint_steps": 5})
    killed: set[str] = set()

    def kill(report: TickReport) -> None:
        for pack in packs:
            place = workspace.attempt(pack, 1)
            if pack not in killed and list(place.checkpoints.glob("step-*")):
                shim = live_pid(workspace, pack)
                victim = shim if pack == packs[0] else int(Path(f"/proc/{shim}/task/{shim}/children").read_text())
                os.kill(victim, signal.SIGKILL)
                killed.add(pack)

    report = watch(on_tick=kill)
    assert killed == set(packs)
    for pack in packs:
        assert ended(workspace, pack) == [("lost", "lost"), ("completed", None)]
        _, second = read_pack(workspace.pack(pack))
        started = [fact for fact in second.facts if fact.fact == "started"]
        assert started[0].step >= 5, "it went on from a checkpoint"
    assert report.counts["s"][RunState.COMPLETED] == 2


def test_a_limit_on_what_is_in_flight_holds(workspace: Workspace, lab: ModuleType, watch: Watch) -> None:
    lab.write_plan(workspace, "s", [lab.cell({"steps": 2, "step_seconds": 0.05}, [n]) for n in range(6)])
    seen: list[int] = []
    watch(replace(FAST, max_in_flight=2), on_tick=lambda report: seen.append(report.in_flight))
    assert max(seen) == 2


def test_cancel_then_retry(workspace: Workspace, lab: ModuleType, watch: Watch) -> None:
    specs = lab.cell({"steps": 400, "step_seconds": 0.02}, [0, 1])
    (pack,) = lab.write_plan(workspace, "s", [specs])
    runs = [spec.id for spec in specs]

    def cancel(report: TickReport) -> None:
        if workspace.attempt(pack, 1).facts.exists() and not workspace.requests.exists():
            write_request(workspace, "cancel", dict.fromkeys(runs, 1))

    report = watch(on_tick=cancel)
    assert report.counts["s"][RunState.CANCELLED] == 2
    assert ended(workspace, pack) == [("preempted", "preempted")], "it was asked, saved, and left"
    assert watch().counts["s"][RunState.CANCELLED] == 2, "it stays cancelled"
    write_request(workspace, "retry", {runs[0]: 1})
    write_request(workspace, "retry", {runs[1]: 1})
    write_request(workspace, "cancel", {runs[1]: 1})
    seen: list[Any] = []

    def stop(report: TickReport) -> None:
        if report.counts["s"].get(RunState.RUNNING):
            seen.append(read_launch(workspace.attempt(pack, 2).launch))
            write_request(workspace, "cancel", {runs[0]: 2})

    report = watch(on_tick=stop)
    assert [member.done for member in seen[0].members] == [False, True], "the later request of the two counted"
    assert report.counts["s"][RunState.CANCELLED] == 2


def test_retry_fresh_starts_at_step_zero(workspace: Workspace, lab: ModuleType, watch: Watch) -> None:
    faults = {"error_at": 8, "attempts": [1, 2]}
    (spec,) = specs = lab.cell({"steps": 10, "faults": faults}, [0])
    (pack,) = lab.write_plan(workspace, "s", [specs], execution={"checkpoint_steps": 5})
    never = replace(FAST, retries={**RETRIES, FailureClass.UNKNOWN: Retry(0)})
    assert watch(never).counts["s"][RunState.FAILED] == 1
    write_request(workspace, "retry", {spec.id: 1}, fresh=True)
    assert watch(never).counts["s"][RunState.FAILED] == 1
    write_request(workspace, "retry", {spec.id: 2})
    assert watch(never).counts["s"][RunState.COMPLETED] == 1
    starts = [f.step for record in read_pack(workspace.pack(pack)) for f in record.facts if f.fact == "started"]
    assert starts == [0, 0, 5]


def test_two_loops_at_once_are_harmless(workspace: Workspace, lab: ModuleType, watch: Watch) -> None:
    packs = lab.write_plan(workspace, "s", [lab.cell({"steps": 3}, [2 * n, 2 * n + 1]) for n in range(8)])
    reports: list[TickReport] = []
    policy = replace(FAST, max_in_flight=4, quiet_s=10.0)

    def run() -> None:
        loop = Loop(workspace, LocalBackend(), policy, code="")
        reports.append(loop.watch())
        loop.close()

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [report.counts["s"][RunState.COMPLETED] for report in reports] == [16, 16]
    assert all(len(workspace.attempts(pack)) == 1 for pack in packs)


def test_a_plan_that_grows_while_it_is_watched(workspace: Workspace, lab: ModuleType) -> None:
    lab.write_plan(workspace, "s", [lab.cell({"steps": 1}, [0])])
    loop = Loop(workspace, LocalBackend(), FAST, code="")
    assert loop.watch().counts["s"][RunState.COMPLETED] == 1
    lab.write_plan(workspace, "s", [lab.cell({"steps": 1}, [n]) for n in range(2)])
    lab.write_plan(workspace, "later", [lab.cell({"steps": 1}, [n]) for n in (0, 7)])
    report = loop.watch()
    assert report.counts["s"][RunState.COMPLETED] == 2
    assert report.counts["later"][RunState.COMPLETED] == 2
    assert len(list(workspace.packs.glob("*/*"))) == 3, "a run of two sweeps is one run"
    loop.close()


def test_a_scheduler_that_is_silent_decides_nothing(workspace: Workspace, lab: ModuleType, tmp_path: Path) -> None:
    clock = lab.Clock()
    packs = lab.write_plan(workspace, "s", [lab.cell({}, [n]) for n in range(3)])
    fake = FakeBackend(
        tmp_path / "c.json", clock=clock, execute=lambda entry, job: lab.pretend(Path(entry["cwd"]), job), retry_s=30.0
    )
    loop = Loop(workspace, fake, Policy(probe=False), code="", index=False, clock=clock)
    loop.tick()
    fake.fail("poll", "timeout", times=25)
    for _ in range(25):
        report = loop.tick()
        assert "does not answer" in report.trouble[0]
        assert loop.tick().trouble == [], "it is left alone until its delay is over"
        clock.pass_(31.0)
    for _ in range(4):
        fake.step()
    assert loop.tick().counts["s"][RunState.COMPLETED] == 3
    assert all(len(workspace.attempts(pack)) == 1 for pack in packs)


@pytest.mark.parametrize("packs", [1, 100])
def test_scheduler_calls_a_pass_do_not_depend_on_how_many_jobs_there_are(
    workspace: Workspace, lab: ModuleType, tmp_path: Path, packs: int
) -> None:
    clock = lab.Clock()
    lab.write_plan(workspace, "s", [lab.cell({}, [n]) for n in range(packs)])
    fake = FakeBackend(tmp_path / "c.json", clock=clock, run_s=1e9)
    loop = Loop(workspace, fake, Policy(probe=False), code="", index=False, clock=clock)
    loop.tick()
    assert fake.calls() == {"submit": 1}
    for _ in range(5):
        loop.tick()
    assert fake.calls() == {"submit": 1, "poll": 5}


@pytest.mark.parametrize("size", [16, 48])
def test_fsyncs_and_files_a_pack(
    workspace: Workspace, lab: ModuleType, watch: Watch, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the whole path from launch to close, per pack however many runs it carries."""
    log = tmp_path / "fsyncs"
    (tmp_path / "sitecustomize.py").write_text(
        "import os\n"
        "real = os.fsync\n"
        "def fsync(fd):\n"
        f"    open({str(log)!r}, 'a').write(os.path.basename(os.readlink(f'/proc/self/fd/{{fd}}')) + '\\n')\n"
        "    real(fd)\n"
        "os.fsync = fsync\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    fsyncs: Counter[str] = Counter()
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (fsyncs.update(["loop"]), real(fd))[1])
    (pack,) = lab.write_plan(workspace, "s", [lab.cell({"steps": 1}, range(size))])
    fsyncs.clear()
    report = watch(index=False)
    assert report.counts["s"][RunState.COMPLETED] == size
    fsyncs["node"] = len(log.read_text().splitlines())
    files = [p for folder in (workspace.pack(pack), workspace.submissions) for p in folder.rglob("*") if p.is_file()]
    names = Counter(p.name for p in files)
    assert len(names) == len(files) <= 10, names
    assert fsyncs["loop"] <= 6, "launch, batch and answer, each with its folder"
    assert fsyncs["node"] <= 9, log.read_text()
    assert len(finished_facts(read_pack(workspace.pack(pack)))) == size


def test_the_code_that_runs_is_the_snapshots(workspace: Workspace, lab: ModuleType, watch: Watch) -> None:
    (pack,) = lab.write_plan(workspace, "s", [lab.cell({"steps": 1}, [0])])
    loop = Loop(workspace, LocalBackend(), FAST)
    assert loop.watch().counts["s"][RunState.COMPLETED] == 1
    loop.close()
    launch = read_launch(workspace.attempt(pack, 1).launch)
    assert (workspace.code / launch.code / "jobs" / "worker.py").exists()
    (record,) = read_pack(workspace.pack(pack))
    started = next(fact for fact in record.facts if fact.fact == "started")
    assert started.code == launch.code


def test_the_first_pack_of_a_shape_is_waited_for_until_it_moves(
    workspace: Workspace, lab: ModuleType, watch: Watch
) -> None:
    slow = {"steps": 60, "step_seconds": 0.02}
    packs = lab.write_plan(workspace, "s", [lab.cell(slow, [n]) for n in range(2)])
    both: list[float] = []

    def look(report: TickReport) -> None:
        if report.in_flight == 2:
            both.append(workspace.attempt(packs[0], 1).facts.stat().st_size)
            assert not workspace.attempt(packs[0], 1).closed.exists() or both[1:]

    report = watch(replace(FAST, probe=True, probe_heartbeat_s=0.05, max_in_flight=2), on_tick=look)
    assert report.counts["s"][RunState.COMPLETED] == 2
    assert both, "the second pack began while the first was still training"
    first, second = (read_pack(workspace.pack(pack))[0] for pack in packs)
    assert first.claimed is not None
    assert second.claimed is not None
    started = next(fact for fact in first.facts if fact.fact == "started")
    assert second.claimed.time > started.time, "and not before the first had made a step"
    assert read_launch(workspace.attempt(packs[0], 1).launch).settings == {"heartbeat_s": 0.05}
    assert read_launch(workspace.attempt(packs[1], 1).launch).settings == {}


def test_a_file_system_that_fails_now_and_then_is_asked_again(
    workspace: Workspace, lab: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pack,) = lab.write_plan(workspace, "s", [lab.cell({"steps": 1}, [0])])
    loop = Loop(workspace, LocalBackend(), FAST, code="", pause=lambda seconds: None)
    real, calls = os.scandir, Counter[str]()

    def flaky(path: Any) -> Any:
        if str(path).endswith("/a1"):
            calls["a1"] += 1
            if calls["a1"] % 3 == 0:
                raise OSError(116, "Stale file handle")
        return real(path)

    monkeypatch.setattr(os, "scandir", flaky)
    assert loop.watch().counts["s"][RunState.COMPLETED] == 1
    assert calls["a1"] >= 3
    assert len(workspace.attempts(pack)) == 1

    def broken(path: Any) -> Any:
        raise OSError(5, "Input/output error")

    lab.write_plan(workspace, "s", [lab.cell({"steps": 1}, [1])])
    monkeypatch.setattr(os, "scandir", broken)
    with pytest.raises(OSError, match="Input/output error"):
        loop.watch()
    loop.close()
