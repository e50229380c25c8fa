"""4.08: a full disk pauses runs; it fails none, costs no tries, and what waited goes on as soon as there is room."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from cluster.local_backend import LocalBackend
from jobs.checkpoint import SPARE_BYTES
from jobs.facts import FailureClass, read_closed
from jobs.state import RunState, read_pack
from jobs.workspace import Workspace
from orchestrator.cli.main import cli
from orchestrator.closing import close_by_evidence
from orchestrator.decide import Close
from orchestrator.history import AttemptView
from orchestrator.loop import Loop, TickReport
from orchestrator.planning import commit, prepare
from orchestrator.policy import LOCAL
from orchestrator.room import Room, is_full, shortage

MB = 1 << 20


class Disk:
    """Pretended free space, and what was asked of it."""

    def __init__(self, free: int) -> None:
        self.free = free
        self.asked: list[tuple[int, bool]] = []

    def __call__(self, folder: Path, needed: int, trial: bool) -> str:
        self.asked.append((needed, trial))
        return "" if needed <= self.free else f"no space left on {folder}"


def fill(folder: Path, leave: int) -> Path:
    """Take all space but ``leave`` bytes."""
    path = folder / "somebody-elses"
    stat = os.statvfs(folder)
    with open(path, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, stat.f_bavail * stat.f_frsize - leave)
    return path


# The room


def test_nothing_is_asked_of_the_disk_while_nobody_waits() -> None:
    disk = Disk(0)
    room = Room(Path("/d"), 30.0, disk)
    room.look([], 0.0)
    assert (disk.asked, room.reason, room.short, room.full_at) == ([], "", {}, None)


def test_what_waits_gets_room_in_the_plans_order_and_is_released_once() -> None:
    disk = Disk(5)
    room = Room(Path("/d"), 30.0, disk)
    waiting = [("p1", 1, 10), ("p2", 3, 10), ("p3", 1, 2)]
    room.look(waiting, 0.0)
    assert room.reason == "no space left on /d"
    assert list(room.short) == ["p1", "p2", "p3"], "the small one waits behind the large ones"
    assert room.released == {}
    assert room.full_at == 0.0
    disk.free = 15
    room.look(waiting, 29.0)
    assert len(disk.asked) == 1, "not looked at again before its time"
    room.look(waiting, 30.0)
    assert (room.reason, list(room.short), room.released) == ("", ["p2", "p3"], {"p1": 1})
    assert disk.asked[1:] == [(10, True), (20, False)], "one trial, then arithmetic"
    disk.free = 100
    room.look(waiting[1:], 31.0)  # p1 runs: that is news, so it looks at once
    assert (room.short, room.released) == ({}, {"p2": 3, "p3": 1})
    room.look([("p2", 4, 10)], 32.0)  # p2 met a full disk once more: the old release says nothing about that
    assert room.released == {}


def test_where_there_seems_to_be_room_nothing_is_released_before_its_time() -> None:
    """A quota that only the node knows: the pause before the next try is what paces it."""
    room = Room(Path("/d"), 30.0, Disk(100))
    room.look([("p1", 1, 10)], 0.0)
    room.look([("p1", 1, 10)], 60.0)
    assert (room.reason, room.short, room.released) == ("", {}, {})


def test_a_shortage_says_where_how_much_is_needed_and_how_much_is_free(tmpfs: Callable[[int], Path]) -> None:
    folder = tmpfs(20)
    assert shortage(folder, 8 * MB) == ""
    assert list(folder.iterdir()) == [], "the trial leaves nothing"
    taken = fill(folder, 3 * MB)
    assert shortage(folder, 8 * MB) == f"no space left on {folder}: 8.4 MB needed, 3.1 MB free"
    taken.unlink()
    assert shortage(folder, 8 * MB) == ""


def test_a_quota_that_the_file_system_does_not_tell_is_found_by_trying(tmp_path: Path) -> None:
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, old[1]))
    try:
        assert shortage(tmp_path, 100_000) == ""
        assert shortage(tmp_path, 400_000, trial=False) == "", "its free space is all that a look without writing sees"
        assert "0.4 MB needed" in (said := shortage(tmp_path, 400_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert said.startswith(f"no space left on {tmp_path}: ")
    assert said.endswith("but a trial file cannot grow to that")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS])
def test_what_counts_as_full(number: int) -> None:
    assert is_full(OSError(number, "x"))
    assert not is_full(OSError(errno.ESTALE, "x"))
    assert not is_full(ValueError("x"))


# The loop


def planned(root: Path, folder: Path, **config: Any) -> Workspace:
    space = Workspace(root)
    content = {
        "name": "big",
        "runner": "toy",
        "seeds": 2,
        "config": {"steps": 9, **config},
        "execution": {"checkpoint_steps": 3},
    }
    path = folder / "big.yaml"
    path.write_text(yaml.safe_dump(content))
    commit(space, prepare(space, str(path)))
    return space


def outcomes(space: Workspace) -> list[list[str]]:
    """Pack -> how its attempts ended."""
    packs = sorted(space.packs.glob("*/*"))
    return [[str(r.closed.failure or r.closed.outcome) for r in read_pack(p) if r.closed] for p in packs]


def watched(space: Workspace, on_tick: Callable[[TickReport], None]) -> TickReport:
    loop = Loop(space, LocalBackend(), LOCAL, code="", index=True)
    try:
        return loop.watch(on_tick)
    finally:
        loop.close()


def test_4_08_runs_wait_for_room_and_go_on_where_they_were(tmpfs: Callable[[int], Path], tmp_path: Path) -> None:
    """20 MB: one checkpoint of 9 MB fits and a second one does not."""
    root = tmpfs(20)
    space = planned(root, tmp_path, checkpoint_bytes=9 << 20)
    seen: list[dict[str, int]] = []
    status: list[str] = []

    def make_room(report: TickReport) -> None:
        if any(why.startswith("no space left") for why in report.waiting["big"]):
            seen.append(dict(report.waiting["big"]))
            assert report.in_flight == 0, "nothing is launched onto a full disk"
            assert not report.done
            if len(seen) == 3:
                status.append(CliRunner().invoke(cli, ["--root", str(root), "status"]).stdout)
                tmpfs(80)

    report = watched(space, make_room)
    assert report.counts["big"] == {RunState.COMPLETED: 2, RunState.PENDING: 0} | {
        state: 0 for state in report.counts["big"] if state not in (RunState.COMPLETED, RunState.PENDING)
    }
    assert seen[-1].keys() == {why for why in seen[-1] if why.startswith(f"no space left on {root}: 17.8 MB needed, ")}
    assert sum(seen[-1].values()) == 2, "also the run that was never tried waits for room"
    assert sum(len(attempts) - 1 for attempts in outcomes(space)) == 1, (
        "one attempt was spent, and none while it waited"
    )
    first = next(attempts for attempts in outcomes(space) if len(attempts) > 1)
    assert first == ["disk", "completed"]
    (screen,) = status
    assert screen.splitlines()[1] == "no room", "first of all"
    assert f"no space left on {root}" in screen
    assert f"du -xh --max-depth=2 {root}" in screen
    assert "it goes on by itself" in screen
    assert "broken" not in screen


def test_4_08_the_loop_itself_waits_when_it_cannot_write(tmpfs: Callable[[int], Path], tmp_path: Path) -> None:
    """Not a byte is free: not even the intent to launch can be written."""
    root = tmpfs(20)
    space = planned(root, tmp_path)
    taken = fill(root, 0)
    said: list[str] = []

    def make_room(report: TickReport) -> None:
        if report.trouble:
            said.extend(report.trouble)
            assert not report.done
            if len(said) == 3 and taken.exists():
                taken.unlink()

    report = watched(space, make_room)
    assert report.done
    assert report.counts["big"][RunState.COMPLETED] == 2
    assert len(said) >= 3
    assert all(text.startswith("no space left on ") and text.endswith("waiting for room") for text in said)
    assert outcomes(space) == [["completed"]] * 2


def test_4_08_an_index_without_room_is_kept_in_memory_and_said_so(
    tmpfs: Callable[[int], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lies on a disk of its own, which may be full while the workspace's is not."""
    cache = tmpfs(1)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    fill(cache, 0)
    space = planned(tmp_path / "ws", tmp_path)
    said: list[str] = []
    report = watched(space, lambda report: said.extend(report.trouble))
    assert report.counts["big"][RunState.COMPLETED] == 2
    assert said
    assert all("cannot be written, so `status` reads files instead" in text for text in said)
    screen = CliRunner().invoke(cli, ["--root", str(space.root), "status"]).stdout
    assert "2 of 2 runs ended  2 completed" in screen


def test_4_08_a_limit_on_files_is_waited_for_too(tmp_path: Path) -> None:
    """A quota of 200 kB a file stands where the loop and its workers are; then it is lifted."""
    space = planned(tmp_path / "ws", tmp_path, checkpoint_bytes=400_000)
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    seen: list[str] = []

    def lift(report: TickReport) -> None:
        seen.extend(why for why in report.waiting["big"] if why.startswith("no space left"))
        if len(seen) == 2:
            resource.setrlimit(resource.RLIMIT_FSIZE, old)

    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, old[1]))
    try:
        report = watched(space, lift)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert report.counts["big"][RunState.COMPLETED] == 2
    assert seen[0].endswith("but a trial file cannot grow to that")
    assert any(attempts == ["disk", "completed"] for attempts in outcomes(space))


def test_the_room_that_is_asked_for_is_that_of_the_next_checkpoint(tmp_path: Path) -> None:
    space = planned(tmp_path / "ws", tmp_path, checkpoint_bytes=5000)
    plan = space.plan("big").read_bytes()
    assert b'"checkpoint_bytes":5200' in plan
    assert SPARE_BYTES == 8 * MB


@pytest.mark.parametrize(("full", "failure"), [(True, FailureClass.DISK), (False, FailureClass.LOST)])
def test_a_disk_that_was_full_explains_an_end_without_a_word(
    workspace: Workspace, full: bool, failure: FailureClass
) -> None:
    """It was kept from saying why, and from saving; another class's tries are not spent for that."""
    place = workspace.attempt("p0123", 1)
    place.path.mkdir(parents=True)
    view = AttemptView(1, "orc-p0123-a1", ("r1",), claim="job")
    assert close_by_evidence(Close("p0123", 1, "the scheduler says GONE"), view, place, 0.0, full=full)
    record = read_closed(place.closed)
    assert record is not None
    assert record.failure is failure
    assert record.message.startswith("the disk was full meanwhile; ") == full
