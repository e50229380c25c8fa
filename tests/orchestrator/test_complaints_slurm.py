"""What users of neighbouring tools complain about, tried on the command with a fake Slurm: one test an entry, named
after its number. See also tests/cluster/test_slurm_complaints.py."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from cluster.batch_file import BATCH_FILE, read_entry
from cluster.fake_slurm.control import FakeSlurm
from cluster.fake_slurm.jobs import name_of
from cluster.slurm.batches import split_array_name
from jobs.durable import AppendLog
from jobs.facts import Checkpointed, Finished, Started, close_attempt, fact_record
from jobs.state import RunState
from jobs.workspace import AttemptDir, Workspace
from orchestrator.cli import running
from orchestrator.cli.running import make_loop
from orchestrator.loop import Loop
from orchestrator.planning import commit, prepare
from orchestrator.policy import RETRIES, Policy
from orchestrator.status import summary
from sweeps.tables import read_curves

Command = Callable[..., tuple[int, str, str]]
FAST = Policy(
    requeues="slurm",
    quiet_s=6.0,
    lost_after_s=8.0,
    settle_s=1.0,
    verdict_wait_s=8.0,
    poll_s=(0.3, 1.0),
    probe=False,
    cancel_grace_s=10.0,
    retries={failure: replace(retry, base_s=min(retry.base_s, 0.3)) for failure, retry in RETRIES.items()},
)
"""The default's verdicts, with patience for a cluster that is on this very machine."""


class Site:
    """A login node of a fake cluster: a folder of sweep files, a workspace, and the command."""

    def __init__(self, folder: Path, workspace: Workspace, slurm: FakeSlurm, orchestrate: Command) -> None:
        self.folder, self.workspace, self.slurm, self.orchestrate = folder, workspace, slurm, orchestrate

    def file(self, name: str = "s", **content: Any) -> str:
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump({"name": name, "runner": "toy", **content}))
        return str(path)

    def loop(self, file: str, max_in_flight: int | None = None) -> Loop:
        """Plan a file; what watches it."""
        prepared = prepare(self.workspace, file)
        commit(self.workspace, prepared)
        return make_loop(self.workspace, "slurm", [prepared.name], max_in_flight)

    def work(self, lab: ModuleType) -> None:
        """Do to the files what the workers of all running jobs would, and end the jobs."""
        state = self.slurm.state
        for job in [job for job in state["jobs"] if job["state"] == "RUNNING"]:
            batch, first = split_array_name(state["specs"][job["spec"]]["options"]["job-name"]) or ("", 0)
            entry = read_entry(self.workspace.submission(batch) / BATCH_FILE, first + job["task"])
            list(lab.pretend(Path(entry["cwd"]), f"{entry['name']}/{name_of(job)}/0"))
            self.slurm.finish(name_of(job))

    def until(self, loop: Loop, what: Callable[[Any], object], seconds: float = 60.0) -> Any:
        end = time.monotonic() + seconds
        while not what(report := loop.tick()):
            assert time.monotonic() < end, report
            time.sleep(0.2)
        return report


@pytest.fixture
def site(tmp_path: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch, orchestrate: Command) -> Iterator[Site]:
    slurm = FakeSlurm(tmp_path / "slurm", KillWait=3, RequeueWait=2)
    (tmp_path / "site.yaml").write_text("looks_per_minute: 6000.0\nlead_s: 40\nmemory_mb: 500\n")
    for name, value in {
        "PATH": slurm.env()["PATH"],
        "ORCHESTRATE_SITE": str(tmp_path / "site.yaml"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "COLUMNS": "200",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(running, "default_policy", lambda _, limit: replace(FAST, max_in_flight=limit))
    yield Site(tmp_path, workspace, slurm, orchestrate)
    slurm.close()


# 1. Submitting


def test_1_06_throttled_is_said_with_the_limits_name_and_goes_on_by_itself(
    site: Site, monkeypatch: pytest.MonkeyPatch, lab: ModuleType
) -> None:
    """A limit was neither transient nor fatal: what was queued ran to its end, then the workflow just stopped."""
    site.slurm.switch(execute=False, reject_with="AssocMaxSubmitJobLimit", reject_count=-1, reject_above=20)
    monkeypatch.setattr(running, "default_policy", lambda _, limit: replace(FAST, batch_size=10))
    loop = site.loop(site.file(config={"steps": 2}, seeds=30))
    report = site.until(loop, lambda report: len(site.slurm.jobs()) == 20 and report.trouble)
    assert any("throttled by the scheduler (AssocMaxSubmitJobLimit)" in trouble for trouble in report.trouble)
    _, out, _ = site.orchestrate("status", "s")
    assert "AssocMaxSubmitJobLimit" in out
    site.work(lab)  # the limit stays; what was queued comes to its end
    loop._actor.not_before = 0.0  # the pause that it keeps to is not waited for
    site.until(loop, lambda report: len(site.slurm.jobs()) == 30)
    assert len(site.slurm.live()) == 10
    loop.close()


# 2. Knowing the state


def test_2_01_without_accounts_the_states_are_right_and_it_is_said_once(site: Site) -> None:
    """Every poll printed a warning, and states could be wrong."""
    site.slurm.switch(accounting_off=True)
    commit(site.workspace, prepare(site.workspace, site.file(seeds=3)))
    code, _, err = site.orchestrate("watch", "s", "--backend", "slurm")
    assert code == 0, err
    assert summary(site.workspace, "s").counts[RunState.COMPLETED] == 3
    assert err.count("this site keeps no accounts") == 1


def test_2_02_cancel_without_accounts_ends_the_jobs_and_the_runs(site: Site) -> None:
    """With accounting off cancelling failed, and the status query crashed."""
    site.slurm.switch(accounting_off=True)
    loop = site.loop(site.file(config={"steps": 500, "step_seconds": 0.1}, seeds=3))
    site.until(loop, lambda report: report.total(RunState.RUNNING) == 3)
    code, out, _ = site.orchestrate("cancel", "--sweep", "s", "--yes")
    assert code == 0, out
    site.until(loop, lambda report: report.done)
    assert summary(site.workspace, "s").counts[RunState.CANCELLED] == 3
    loop.close()
    code, out, _ = site.orchestrate("status", "s")
    assert code == 0
    assert "cancelled" in out
    assert site.slurm.live() == []


# 3. Time limits


def test_3_08_every_attempt_is_shown_with_its_times_and_its_log(site: Site, json_of: Callable[[str], Any]) -> None:
    """Reset before a restart wiped output and times; users of short queues lost their history."""
    loop = site.loop(site.file(config={"steps": 30, "step_seconds": 0.1}, seeds=1, execution={"checkpoint_steps": 2}))
    (pack,), (run,) = loop.board.desired.packs, loop.board.desired.runs
    for number in (1, 2):
        saved = site.workspace.attempt(pack, number).facts
        site.until(loop, lambda _, saved=saved: saved.exists() and b"checkpointed" in saved.read_bytes())
        site.slurm.end(site.slurm.live()[0], "NODE_FAIL")
    site.until(loop, lambda report: report.done)
    loop.close()
    code, out, _ = site.orchestrate("show", run, "--json")
    assert code == 0
    attempts = json_of(out)["attempts"]
    ends = [(one["attempt"], one["failure"]) for one in attempts]
    assert ends == [(1, "node_failure"), (2, "node_failure"), (3, None)]
    assert all(before["last"] < after["started"] for before, after in pairwise(attempts))
    assert [Path(one["log"]).stat().st_size > 0 for one in attempts] == [True] * 3
    _, out, _ = site.orchestrate("show", run)
    assert [f"attempt {n}" in out for n in (1, 2, 3, 4)] == [True, True, True, False]
    site.orchestrate("gather", "s", "--no-mlflow")
    curve = read_curves(site.workspace.root, "s", [("train", "loss")])
    assert sorted(curve.values("step")) == list(range(1, 31)), "one stitched curve, no step twice and none missing"


def test_3_09_a_warning_shorter_than_the_saves_is_told_in_the_plan(
    site: Site, lab: ModuleType, json_of: Callable[[str], Any]
) -> None:
    """Saving took an hour and the lead was fixed. Here it took 90 s, and the lead is 60 s."""
    config = {"steps": 4000, "step_seconds": 0.0}
    first = prepare(site.workspace, site.file("first", config=config, seeds=1))
    commit(site.workspace, first)
    saved_for(site.workspace.attempt(first.design.packs[0].id, 1), first.design.runs[0].id, 90.0)
    by_hand = site.file("by-hand", config={**config, "level": 0.7}, seeds=1, resources={"extra": {"lead_s": "60"}})
    code, out, _ = site.orchestrate("plan", by_hand, "--backend", "slurm")
    assert code == 0
    assert "warned 60 s before it (resources.extra.lead_s)" in out
    assert "a warning 60 s before the limit is too short: measured saves need 330 s" in out
    measured = site.file("measured", config={**config, "level": 0.7}, seeds=1)
    _, out, _ = site.orchestrate("plan", measured, "--backend", "slurm", "--json")
    (limit,) = json_of(out)["limits"]
    assert (limit["lead_s"], limit["lead_from"], limit["notes"]) == (330, "measured saves", [])


def saved_for(place: AttemptDir, run: str, seconds: float) -> None:
    """An attempt whose checkpoint took so long to save."""
    place.path.mkdir(parents=True)
    place.launch.write_text("{}")
    log = AppendLog(place.facts)
    log.append(fact_record(Started(time=0.0, step=0, host="n", pid=1, members=1, threads=1)))
    log.append(fact_record(Checkpointed(time=200.0, step=2000, bytes=1, seconds=seconds)))
    log.append(fact_record(Finished(time=400.0, run=run, status="completed", step=4000, seconds=400.0)))
    log.close()
    close_attempt(place, by="worker", outcome="completed", step=4000)


# 8. Life of the launcher


def test_8_05_a_removed_column_cancels_nothing_and_is_named(site: Site) -> None:
    """Removing a line from a grid cancelled its runs."""
    site.slurm.switch(execute=False)
    factors = {"level": {"path": "level", "values": [0.5, 0.6]}}
    loop = site.loop(site.file(config={"steps": 5}, factors=factors, seeds=3))
    loop.tick()
    assert len(site.slurm.live()) == 6
    factors["level"]["values"] = [0.5]
    file = site.file(config={"steps": 5}, factors=factors, seeds=3)
    _, out, _ = site.orchestrate("plan", file, "--backend", "slurm")
    assert "3 runs of the plan before this one are no longer listed; nothing is cancelled" in out
    again = site.loop(file)
    for _ in range(2):
        again.tick()
        loop.tick()
    assert len(site.slurm.live()) == 6
    assert "scancel" not in site.slurm.calls
    for one in (loop, again):
        one.close()
