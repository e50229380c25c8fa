"""What is said of jobs while Slurm lags, lies, forgets or is away. Time is pretended; nothing runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from cluster.backend import JobHandle, JobReport, JobState, LaunchRequest
from cluster.batch_file import batch_payload
from cluster.slurm.batches import Batches
from cluster.slurm.commands import Answer, Commands
from cluster.slurm.watch import Watcher

DOWN = Answer(1, "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)")
NO_DBD = Answer(1, "", "sacct: error: failed to open persistent connection to host:x: Connection refused")
NO_ACCOUNTS = Answer(1, "", "Slurm accounting storage is disabled")


class Desk:
    """A watcher over scripted answers."""

    def __init__(self, folder: Path, looks: float = 6000) -> None:
        self.now = 0.0
        self.queue: Answer = Answer(0, "", "")
        self.accounts: Answer = Answer(0, "", "")
        self.argv: list[Sequence[str]] = []
        self.directory = folder / "submissions" / "b1"
        self.directory.mkdir(parents=True)
        names = [f"orc-p{number}-a1" for number in range(4)]
        requests = [LaunchRequest(name, ("true",), "/", "log", str(folder / f"{name}.json")) for name in names]
        (self.directory / "batch.json").write_text(json.dumps(batch_payload("b1", requests)))
        self.folder = folder
        self.handles = [JobHandle("slurm", f"7_{task}", name) for task, name in enumerate(names)]
        self.watcher = Watcher(
            Commands(looks_per_minute=looks, clock=lambda: self.now, run=self._run),
            Batches(folder / "submissions"),
            user="u",
            clock=lambda: self.now,
        )

    def _run(self, argv: Sequence[str], limit: float) -> Answer:
        self.argv.append(argv)
        return self.queue if argv[0] == "squeue" else self.accounts

    def row(self, task: int | str, word: str, reason: str = "None", node: str = "node001", name: str = "orc-b1") -> str:
        return f"7_{task}|{word}|{reason}|{node}|{name}|orchestrate:{self.directory}\n"

    def account(self, task: int, word: str, name: str = "orc-b1") -> str:
        start = "2026-11-30T04:41:42"
        return f"7_{task}|{word}|0:0|0:0|node001|{start}|{start}|3|{name}|orchestrate:{self.directory}\n"

    def shows(self, *rows: str) -> None:
        self.queue = Answer(0, "".join(rows), "")

    def look(self, handle: int = 0, after: float = 0.0) -> JobReport:
        self.now += after
        return self.watcher.look(self.handles)[self.handles[handle]]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_one_squeue_and_at_most_one_sacct_a_look(desk: Desk) -> None:
    desk.shows(desk.row("[1-3]", "PENDING", "Priority", ""), desk.row(0, "RUNNING"))
    reports = desk.watcher.look(desk.handles)
    assert [reports[handle].state for handle in desk.handles] == [JobState.RUNNING] + [JobState.QUEUED] * 3
    assert [argv[0] for argv in desk.argv] == ["squeue"]
    desk.shows()
    desk.look(after=60)
    assert [argv[0] for argv in desk.argv[1:]] == ["squeue", "sacct"]


def test_at_most_four_calls_a_minute(tmp_path: Path) -> None:
    desk = Desk(tmp_path, looks=4)
    desk.shows()
    for _ in range(600):
        desk.look(after=1)
    assert 30 <= len(desk.argv) <= 42


def test_2_05_an_empty_queue_is_not_death(desk: Desk) -> None:
    desk.shows(desk.row(0, "RUNNING"))
    desk.look()
    desk.shows()
    desk.accounts = Answer(0, desk.account(0, "RUNNING"), "")
    for _ in range(10):
        report = desk.look(after=60)
        assert report.state is JobState.UNKNOWN
    assert "RUNNING, last seen 10 min ago" in report.reason
    desk.shows(desk.row(0, "RUNNING"))
    assert desk.look(after=60).state is JobState.RUNNING


def test_both_must_know_nothing_and_for_a_while(desk: Desk) -> None:
    desk.shows()
    assert desk.look().state is JobState.UNKNOWN
    assert desk.look(after=30).state is JobState.UNKNOWN
    assert desk.look(after=31).state is JobState.GONE


def test_2_03_dead_accounting_decides_nothing(desk: Desk) -> None:
    desk.shows()
    desk.accounts = NO_DBD
    for _ in range(20):
        assert desk.look(after=60).state is JobState.UNKNOWN
    asked = sum(argv[0] == "sacct" for argv in desk.argv)
    assert asked < 12, "it backs off"
    desk.accounts = Answer(0, desk.account(0, "TIMEOUT"), "")
    report = desk.look(after=400)
    assert (report.state, report.cause) == (JobState.ENDED, "timeout")


def test_2_10_a_dead_controller_decides_nothing(desk: Desk) -> None:
    desk.shows(desk.row(0, "RUNNING"))
    desk.look()
    desk.queue = DOWN
    for _ in range(25):
        report = desk.look(after=60)
        assert report.state is JobState.UNKNOWN
        assert report.details["last_seen_s"] > 0
    assert len(desk.argv) < 15, "it backs off"
    desk.shows(desk.row(0, "RUNNING"))
    assert desk.look(after=400).state is JobState.RUNNING


def test_2_01_without_accounts_the_end_marker_is_the_second_source(desk: Desk) -> None:
    desk.shows()
    desk.accounts = NO_ACCOUNTS
    token = f"{desk.handles[0].name}/7_0/0"
    (desk.folder / "orc-p0-a1.json").write_text(json.dumps({"job": token, "code": 3, "signal": None}))
    report = desk.look()
    assert (report.state, report.exit_code) == (JobState.ENDED, 3)
    assert desk.look(1).state is JobState.UNKNOWN
    assert desk.look(1, after=61).state is JobState.GONE
    assert len(desk.watcher.notices) == 1
    assert sum(argv[0] == "sacct" for argv in desk.argv) == 1, "asked once, said once"


def test_the_end_marker_of_another_job_says_nothing(desk: Desk) -> None:
    desk.shows()
    (desk.folder / "orc-p0-a1.json").write_text(json.dumps({"job": "orc-p0-a1/6_0/0", "code": 3, "signal": None}))
    assert desk.look().state is JobState.UNKNOWN


def test_2_08_left_the_queue_and_accounting_knows_how(desk: Desk) -> None:
    desk.shows()
    desk.accounts = Answer(0, desk.account(0, "NODE_FAIL"), "")
    report = desk.look()
    assert (report.state, report.cause, report.word) == (JobState.ENDED, "node_failure", "NODE_FAIL")
    calls = len(desk.argv)
    desk.watcher.look(desk.handles[:1])
    assert len(desk.argv) == calls, "a final state is not asked for again"


def test_2_09_completing_then_gone(desk: Desk) -> None:
    for _ in range(30):
        desk.shows(desk.row(0, "COMPLETING"))
        assert desk.look(after=60).state is JobState.RUNNING
    desk.shows()
    desk.look(after=60)
    assert desk.look(after=61).state is JobState.GONE


def test_2_07_an_unknown_word_keeps_the_run_alive_and_is_shown(desk: Desk) -> None:
    desk.shows(desk.row(0, "SIGNALING"))
    assert desk.look().state is JobState.RUNNING
    desk.shows(desk.row(0, "FROBNICATING"))
    report = desk.look(after=60)
    assert report.state is JobState.UNKNOWN
    assert "FROBNICATING" in report.reason


def test_an_id_that_was_given_to_another_job_is_not_ours(desk: Desk) -> None:
    desk.shows(desk.row(0, "RUNNING", name="orc-b2"), desk.row(0, "FAILED", name="anything"))
    desk.accounts = Answer(0, desk.account(0, "COMPLETED", name="orc-b2"), "")
    assert desk.look().state is JobState.UNKNOWN
    assert desk.look(after=61).state is JobState.GONE


def test_the_same_pack_of_another_workspace_is_not_ours(desk: Desk, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere" / "b1"
    other.mkdir(parents=True)
    (other / "batch.json").write_text((desk.directory / "batch.json").read_text())
    desk.queue = Answer(0, f"7_0|RUNNING|None|node001|orc-b1|orchestrate:{other}\n", "")
    assert desk.look().state is JobState.UNKNOWN


def test_a_live_row_goes_before_an_ended_one_of_the_same_id(desk: Desk) -> None:
    desk.shows(desk.row(0, "NODE_FAIL"), desk.row(0, "PENDING", "BeginTime", ""))
    report = desk.look()
    assert (report.state, report.word) == (JobState.QUEUED, "PENDING")


def test_sacct_is_asked_with_a_start_of_ours(desk: Desk) -> None:
    desk.shows()
    desk.look()
    sacct = next(argv for argv in desk.argv if argv[0] == "sacct")
    assert "-S" in sacct
    assert "7_0,7_1,7_2,7_3" in sacct


def test_a_runaway_accounting_row_does_not_hold_a_run_for_ever(desk: Desk) -> None:
    desk.shows()
    desk.accounts = Answer(0, desk.account(0, "RUNNING"), "")
    desk.look()
    assert desk.look(after=600).state is JobState.UNKNOWN
    assert desk.look(after=400).state is JobState.GONE


def test_jobs_that_wait_in_vain_are_found(desk: Desk) -> None:
    desk.shows(
        desk.row(0, "PENDING", "launch failed requeued held", ""),
        desk.row(1, "PENDING", "DependencyNeverSatisfied", ""),
        desk.row(2, "PENDING", "JobHeldUser", ""),
    )
    desk.look()
    assert set(desk.watcher.stuck) == set(desk.handles[:2])


@pytest.mark.parametrize("every_s", [1, 5, 20])
def test_squeue_and_sacct_both_have_their_turn_however_fast_passes_come(tmp_path: Path, every_s: int) -> None:
    desk = Desk(tmp_path, looks=4)
    desk.shows(desk.row("[2-3]", "PENDING", "Priority", ""))
    desk.accounts = Answer(0, desk.account(0, "RUNNING") + desk.account(1, "RUNNING"), "")
    most = 0
    for _ in range(1200 // every_s):  # twenty minutes; two jobs that only accounting may know how they ended
        before = len(desk.argv)
        desk.look(after=every_s)
        most = max(most, len(desk.argv) - before)
    asked = [argv[0] for argv in desk.argv]
    assert most == 2, "one squeue and one sacct a pass"
    assert len(asked) <= 82, "four calls a minute"
    assert asked.count("squeue") >= 38
    assert asked.count("sacct") >= 20, "none of them goes short"


def test_where_accounting_is_not_needed_the_queue_has_all_the_calls(tmp_path: Path) -> None:
    desk = Desk(tmp_path, looks=4)
    desk.shows(desk.row("[0-3]", "PENDING", "Priority", ""))
    for _ in range(240):
        desk.look(after=5)
    assert {argv[0] for argv in desk.argv} == {"squeue"}
    assert 79 <= len(desk.argv) <= 83


def test_accounting_that_does_not_answer_takes_no_turn_from_the_queue(tmp_path: Path) -> None:
    desk = Desk(tmp_path, looks=4)
    desk.shows()
    desk.accounts = NO_DBD
    for _ in range(240):
        desk.look(after=5)
    asked = [argv[0] for argv in desk.argv]
    assert asked.count("sacct") < 12
    assert asked.count("squeue") > 60
