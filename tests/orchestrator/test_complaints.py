"""What users of neighbouring tools complain about, tried on the loop: one test an entry, named after its number.

The numbers are those of the project's collection of complaints; docstrings say what went wrong elsewhere.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cluster.fake_backend import FakeBackend
from cluster.local_backend import LocalBackend
from jobs.admission import claim
from jobs.durable import AppendLog
from jobs.facts import Finished, Heartbeat, Product, Started, close_attempt, fact_record, read_claimed
from jobs.launch import read_launch
from jobs.spec import InputRef, RunSpec
from jobs.state import RunState, read_pack
from jobs.workspace import Workspace
from orchestrator.index import Index, discard
from orchestrator.loop import Loop, TickReport
from orchestrator.policy import LOCAL, Policy
from orchestrator.requests import write_request
from orchestrator.status import summary

POLICY = Policy(probe=False, quiet_s=5.0, lost_after_s=120.0)
FAST = replace(LOCAL, poll_s=(0.02, 0.2), probe=False)


class Site:
    """A workspace on a fake cluster with a clock of its own."""

    def __init__(self, workspace: Workspace, lab: ModuleType, folder: Path) -> None:
        self.workspace, self.lab, self.clock = workspace, lab, lab.Clock()
        self.executions: list[tuple[str, int]] = []
        self.fake = FakeBackend(folder / "c.json", clock=self.clock, execute=self._execute, retry_s=30.0)

    def _execute(self, entry: Any, job: str) -> Generator[None, None, int]:
        return self.lab.pretend(Path(entry["cwd"]), job, self.executions)

    def plan(self, packs: int) -> list[str]:
        return self.lab.write_plan(self.workspace, "s", [self.lab.cell({}, [n]) for n in range(packs)])

    def loop(self, policy: Policy = POLICY, **options: Any) -> Loop:
        return Loop(self.workspace, self.fake, policy, code="", clock=self.clock, **{"index": False, **options})

    def finish(self, loop: Loop, seconds: float = 1.0, passes: int = 200) -> TickReport:
        for _ in range(passes):
            report = loop.tick()
            if report.done:
                return report
            self.fake.step()
            self.clock.pass_(seconds)
        raise AssertionError(f"not done: {self.fake.jobs()}")


@pytest.fixture
def site(workspace: Workspace, lab: ModuleType, tmp_path: Path) -> Site:
    return Site(workspace, lab, tmp_path)


def watch(workspace: Workspace, on_tick: Any = None, policy: Policy = FAST) -> TickReport:
    loop = Loop(workspace, LocalBackend(), policy, code="")
    try:
        return loop.watch(on_tick)
    finally:
        loop.close()


def test_1_01_accepted_and_then_a_timeout(site: Site) -> None:
    """The manager submitted again, several times."""
    site.plan(3)
    site.fake.fail("submit", "accept_then_timeout")
    site.finish(site.loop())
    assert len(site.fake.jobs()) == 3
    assert len(site.executions) == 3


def test_1_02_1_03_five_refusals_count_as_no_attempt(site: Site) -> None:
    """An overloaded scheduler ended the workflow, or cost retries."""
    packs = site.plan(40)
    site.fake.fail("submit", "refuse", times=5)
    assert site.finish(site.loop(), 31.0).counts["s"][RunState.COMPLETED] == 40
    assert all(len(site.workspace.attempts(pack)) == 1 for pack in packs)
    assert site.fake.calls()["submit"] == 6


def test_1_05_1_06_more_than_the_submit_limit(site: Site, tmp_path: Path) -> None:
    """A limit was neither transient nor fatal: the workflow just stopped."""
    site.plan(120)
    site.fake = FakeBackend(
        tmp_path / "limited.json", clock=site.clock, execute=site._execute, slots=10, retry_s=1.0, limit=50
    )
    loop = site.loop(replace(POLICY, max_in_flight=200))
    most = 0
    for _ in range(400):
        if loop.tick().done:
            break
        site.fake.step()
        most = max(most, sum(job["state"] != "ended" for job in site.fake.jobs()))
        site.clock.pass_(1.0)
    assert most == 50
    assert loop.tick().counts["s"][RunState.COMPLETED] == 120
    assert Counter(site.executions).most_common(1)[0][1] == 1


def test_1_07_jobs_of_a_killed_launcher_count(site: Site) -> None:
    """The job cap was exceeded after a restart."""
    site.plan(30)
    policy = replace(POLICY, max_in_flight=10)
    assert site.loop(policy).tick().acted.launched == 10
    again = site.loop(policy)
    for _ in range(3):
        assert again.tick().acted.launched == 0
    assert len(site.fake.jobs()) == 10


def test_1_09_three_at_once_means_three(workspace: Workspace, lab: ModuleType) -> None:
    """The local variant of a launcher started the whole sweep at once. Processes are counted, not our own books."""
    packs = [lab.cell({"steps": 3, "step_seconds": 0.03}, [2 * n, 2 * n + 1]) for n in range(25)]
    lab.write_plan(workspace, "s", packs)  # 50 runs
    workers: list[int] = []

    def count(report: TickReport) -> None:
        alive = 0
        for claimed in workspace.packs.glob("*/*/a1/claimed.json"):
            record = read_claimed(claimed)
            closed = claimed.with_name("closed.json").exists()
            alive += record is not None and not closed and Path(f"/proc/{record.pid}").exists()
        workers.append(alive)

    report = watch(workspace, count, replace(FAST, max_in_flight=3))
    assert report.counts["s"][RunState.COMPLETED] == 50
    assert 2 <= max(workers) <= 3


def test_2_03_a_silent_scheduler_for_ten_minutes(site: Site) -> None:
    """A monitor's outage was taken for the jobs' failure."""
    packs = site.plan(4)
    loop = site.loop()
    loop.tick()
    site.fake.fail("poll", "timeout", times=20)
    for _ in range(20):
        assert loop.tick().acted.closed == 0
        site.clock.pass_(31.0)
    assert site.finish(loop).counts["s"][RunState.COMPLETED] == 4
    assert all(len(site.workspace.attempts(pack)) == 1 for pack in packs)


def test_2_05_an_empty_queue_while_the_heart_beats(site: Site) -> None:
    """Absence was taken as death."""
    (pack,) = site.plan(1)
    loop = site.loop()
    loop.tick()
    site.fake.step()
    site.fake.step()
    site.fake.vanish(f"orc-{pack}-a1")
    place = site.workspace.attempt(pack, 1)
    for beat in range(60):
        record = Heartbeat(beat=beat, step=beat, steps=100, time=-300.0)  # 2.13: its clock is five minutes behind
        place.heartbeat.write_bytes(record.model_dump_json().encode())
        assert loop.tick().acted.closed == 0
        site.clock.pass_(10.0)
    assert site.finish(loop).counts["s"][RunState.COMPLETED] == 1
    assert site.executions == [(pack, 1)]


def test_2_06_a_node_that_is_lost_leaves_no_exit_file(site: Site) -> None:
    """No retry rule could match, because the code was null."""
    (pack,) = site.plan(1)
    loop = site.loop()
    loop.tick()
    site.fake.step()
    site.fake.step()
    site.fake.end(f"orc-{pack}-a1", cause="node_failure", word="NODE_FAIL")
    assert site.finish(loop, 10.0).counts["s"][RunState.COMPLETED] == 1
    first = read_pack(site.workspace.pack(pack))[0].closed
    assert first is not None
    assert (first.failure, first.outcome) == ("node_failure", "lost")
    assert first.evidence["word"] == "NODE_FAIL"


def test_2_07_a_word_nobody_knows_keeps_the_run_alive_and_is_shown(site: Site) -> None:
    """Asking for the status flipped experiments to killed."""
    (pack,) = site.plan(1)
    loop = site.loop()
    loop.tick()
    site.fake.step()
    site.fake.say(f"orc-{pack}-a1", "FROBNICATING")
    for _ in range(50):
        site.clock.pass_(600.0)
        assert loop.tick().acted.closed == 0
    (view,) = loop.board.histories[pack]
    assert view.report is not None
    assert view.report.word == "FROBNICATING"
    before = sorted(p for p in site.workspace.root.rglob("*"))
    summary(site.workspace, "s")
    assert sorted(p for p in site.workspace.root.rglob("*")) == before


def test_2_10_twenty_five_status_timeouts_over_a_day_cancel_nothing(site: Site) -> None:
    """A healthy job that could not be reached for a moment was relaunched, 24 times."""
    (pack,) = site.plan(1)
    loop = site.loop()
    loop.tick()
    for _ in range(25):
        site.fake.fail("poll", "timeout")
        loop.tick()
        site.clock.pass_(3456.0)
        loop.tick()
    assert "cancel" not in site.fake.calls()
    assert len(site.workspace.attempts(pack)) == len(site.fake.jobs()) == 1


def test_2_11_exit_zero_without_results_is_no_success(site: Site) -> None:
    """A worker was killed for memory, its parent ended with 0, the job was filed as success."""
    (pack,) = site.plan(1)

    def nothing(entry: Any, job: str) -> Generator[None, None, int]:
        yield
        return 0

    site.fake._execute = nothing
    loop = site.loop(replace(POLICY, retries={}))
    report = site.finish(loop)
    assert report.counts["s"] == {RunState.PENDING: 0, RunState.QUEUED: 0, RunState.FAILED: 1}
    assert loop.board.verdicts[pack].runs[loop.board.desired.packs[pack].runs[0]].failure == "launch_failed"


def test_2_14_state_belongs_to_an_attempt(site: Site) -> None:
    """A re-run was reported failed at once while the new job was still pending."""
    (pack,) = site.plan(1)
    loop = site.loop(replace(POLICY, retries={}))
    loop.tick()
    site.fake.end(f"orc-{pack}-a1", cause="exit", word="FAILED", code=1)
    site.clock.pass_(10.0)
    loop.tick()
    site.clock.pass_(10.0)
    assert loop.tick().counts["s"][RunState.FAILED] == 1
    write_request(site.workspace, "retry", {loop.board.desired.packs[pack].runs[0]: 1})
    assert loop.tick().counts["s"][RunState.QUEUED] == 1
    assert [view.live for view in loop.board.histories[pack]] == [False, True]


def test_7_07_many_writers_of_one_index(workspace: Workspace, lab: ModuleType) -> None:
    """Database is locked, disk image is malformed, jobs missing from the record."""
    code = (
        "import sys; from pathlib import Path; from orchestrator.index import Index\n"
        "index = Index(Path(sys.argv[1]), write=True, identity='w')\n"
        "for n in range(20): index.store([(f'p{sys.argv[2]}-{n}', True, {'verdicts': {}})])\n"
        "index.close()"
    )
    writers = [subprocess.Popen([sys.executable, "-P", "-c", code, str(workspace.index), str(n)]) for n in range(8)]
    assert [writer.wait(60) for writer in writers] == [0] * 8
    index = Index(workspace.index, write=False, identity="w")
    assert len(list(index.settled())) == 160
    index.close()
    check = sqlite3.connect(workspace.index)
    assert check.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    check.close()


def test_7_09_without_its_index_the_answer_is_the_same(site: Site) -> None:
    """Concurrent writers on shared storage corrupted the store, and there was no rebuilding it."""
    site.plan(5)
    loop = site.loop(index=True)
    site.finish(loop)
    loop.close()
    before = summary(site.workspace, "s")
    discard(site.workspace.index)
    assert summary(site.workspace, "s").counts == before.counts
    again = site.loop(index=True)
    site.finish(again)
    again.close()
    after = summary(site.workspace, "s")
    assert (after.counts, after.cost, after.broken) == (before.counts, before.cost, before.broken)
    assert len(site.fake.jobs()) == 5


def test_7_10_a_killed_worker_does_not_run_for_ever(workspace: Workspace, lab: ModuleType) -> None:
    """Killed workers left trials running for ever in the record."""
    (pack,) = lab.write_plan(workspace, "s", [lab.cell({"steps": 20, "step_seconds": 0.02}, [0])])
    killed: list[int] = []

    def kill(report: TickReport) -> None:
        claimed = read_claimed(workspace.attempt(pack, 1).claimed)
        if claimed is not None and not killed:
            killed.append(claimed.pid)
            os.kill(claimed.pid, signal.SIGKILL)

    assert watch(workspace, kill, replace(FAST, retries={})).counts["s"][RunState.FAILED] == 1
    assert killed


def test_7_11_stopped_for_long_and_then_going_on(workspace: Workspace, lab: ModuleType) -> None:
    """Live trials were failed by a tight heartbeat, then the finishing worker crashed."""
    config = {"steps": 20, "step_seconds": 0.02}
    (pack,) = lab.write_plan(
        workspace, "s", [lab.cell(config, [0])], execution={"settings": {"heartbeat_s": 0.05}, "hang_floor_s": 0.2}
    )
    stopped: list[float] = []

    def stop(report: TickReport) -> None:
        place = workspace.attempt(pack, 1)
        claimed = read_claimed(place.claimed)
        if claimed is None or place.closed.exists():
            return
        if not stopped and place.facts.exists() and place.facts.stat().st_size:
            os.kill(claimed.pid, signal.SIGSTOP)
            stopped.append(time.monotonic())
        elif stopped and time.monotonic() - stopped[0] > 1.0:
            os.kill(claimed.pid, signal.SIGCONT)

    report = watch(workspace, stop)
    assert stopped
    assert report.counts["s"][RunState.COMPLETED] == 1
    assert len(workspace.attempts(pack)) == 1


def test_7_13_a_pass_over_ten_thousand_runs_costs_what_happened(site: Site) -> None:
    """The controller's snapshot took minutes with thousands of trials. Rows are counted, not seconds."""
    specs = site.lab.cell({}, range(10_000))
    site.lab.write_plan(site.workspace, "s", [specs[n : n + 50] for n in range(0, 10_000, 50)])
    loop = site.loop(replace(POLICY, max_in_flight=4), index=True)
    assert loop._index is not None
    rows: list[int] = []
    store = loop._index.store

    def count(packs: Any = (), *rest: Any, **more: Any) -> None:
        packs = list(packs)
        rows.append(len(packs))
        store(packs, *rest, **more)

    loop._index.store = count  # type: ignore[method-assign]
    for _ in range(8):
        loop.tick()
        site.fake.step()
    loop.close()
    assert sum(rows) > 0
    assert max(rows) <= 8, "four that ended and four that were launched"


def test_8_01_a_child_never_runs_after_its_parent_failed(site: Site, lab: ModuleType) -> None:
    """A dependency on a job that is already gone was dropped."""
    parent = RunSpec("toy", {"products": ["x"]}, 0)
    child = RunSpec("toy", {"consumes": ["i"]}, 0, {"i": InputRef(parent.id, "x")})
    first, second = lab.write_plan(site.workspace, "s", [[parent], [child]])
    loop = site.loop(replace(POLICY, retries={}))
    loop.tick()
    site.fake.end(f"orc-{first}-a1", cause="exit", word="FAILED", code=1)
    report = site.finish(loop)
    assert report.counts["s"][RunState.FAILED] == report.counts["s"][RunState.PENDING] == 1
    assert site.workspace.attempts(second) == []
    (why,) = report.waiting["s"]
    assert why.startswith("blocked: needs a run which has failed")


def test_8_02_one_parent_of_three_failed_and_the_others_are_gone_on_with(site: Site, lab: ModuleType) -> None:
    """Only one kind of dependency was offered. Ours is an edge from run to run: a child needs its own parent's product,
    and what becomes of another seed of that stage is nothing to it."""
    parents = [RunSpec("toy", {"products": ["x"]}, seed) for seed in range(3)]
    children = [RunSpec("toy", {"consumes": ["i"]}, n, {"i": InputRef(p.id, "x")}) for n, p in enumerate(parents)]
    packs = lab.write_plan(site.workspace, "s", [[spec] for spec in (*parents, *children)])

    def work(entry: Any, job: str) -> Generator[None, None, int]:
        (attempt,) = [site.workspace.attempt(pack, 1) for pack in packs if pack in entry["cwd"]]
        claim(attempt, job)
        yield
        log = AppendLog(attempt.facts)
        log.append(fact_record(Started(time=0.0, step=0, host="lab", pid=1, members=1, threads=1)))
        run = read_launch(attempt.launch).members[0].run
        product = {"x": Product(path="products/x.json", sha256="0", bytes=1)}
        log.append(fact_record(Finished(time=1.0, run=run, status="completed", step=1, seconds=1.0, products=product)))
        log.close()
        close_attempt(attempt, by="worker", outcome="completed", step=1)
        return 0

    site.fake._execute = work
    loop = site.loop(replace(POLICY, retries={}))
    loop.tick()
    site.fake.end(f"orc-{packs[1]}-a1", cause="exit", word="FAILED", code=1)
    report = site.finish(loop)
    states = [loop.board.states.get(spec.id, RunState.PENDING) for spec in (*parents, *children)]
    done, failed, waits = RunState.COMPLETED, RunState.FAILED, RunState.PENDING
    assert states == [done, failed, done, done, waits, done]
    assert [why.startswith("blocked: ") for why in report.waiting["s"]] == [True]


def test_8_03_four_states_and_two_verbs(site: Site) -> None:
    """Resume did not run errored trials again, and fail-fast made everything final."""
    packs = site.plan(4)
    loop = site.loop(replace(POLICY, retries={}))
    loop.tick()
    runs = [loop.board.desired.packs[pack].runs[0] for pack in packs]
    site.fake.end(f"orc-{packs[1]}-a1", cause="exit", word="FAILED", code=1)
    write_request(site.workspace, "cancel", {runs[2]: 1})
    report = site.finish(loop)
    assert {state: n for state, n in report.counts["s"].items() if n} == {
        RunState.COMPLETED: 2,
        RunState.FAILED: 1,
        RunState.CANCELLED: 1,
    }
    write_request(site.workspace, "retry", dict.fromkeys(runs, 1))
    assert site.finish(loop).counts["s"][RunState.COMPLETED] == 4
    attempts = [len(site.workspace.attempts(pack)) for pack in packs]
    assert attempts == [1, 2, 2, 1], "what was completed is not run again, whoever asks"


def test_8_04_the_loop_may_be_a_cron_line(site: Site) -> None:
    """The launching process had to stay alive on the login node."""
    site.plan(3)
    site.fake.fail("submit", "accept_then_timeout")
    reports = []
    for _ in range(8):
        once = site.loop(index=True)
        reports.append(once.tick())
        once.close()
        site.fake.step()
        site.clock.pass_(300.0)
    assert reports[-1].counts["s"][RunState.COMPLETED] == 3
    assert len(site.fake.jobs()) == 3
