"""Checkpoints: what is whole is found, what is broken is passed over, what is old goes."""

from __future__ import annotations

import errno
import os
import shutil
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs import checkpoint as checkpoints
from jobs.checkpoint import (
    MANIFEST,
    Checkpoint,
    DiskFull,
    clear_asides,
    inspect,
    list_checkpoints,
    newest_checkpoint,
    prune,
    write_checkpoint,
)


def save(where: Path, step: int, attempt: int = 1, **meta: Any) -> Checkpoint:
    def write(directory: Path) -> None:
        (directory / "state.json").write_text(f'{{"step": {step}}}')
        (directory / "tensors").mkdir()
        (directory / "tensors" / "weights.bin").write_bytes(bytes([step % 256]) * 100)

    return write_checkpoint(where / "checkpoints", step=step, attempt=attempt, write=write, meta=meta)


def newest(where: Path, **kwargs: Any) -> int | None:
    found, _ = newest_checkpoint(where / "checkpoints", done=kwargs.pop("done", ()), **kwargs)
    return None if found is None else found.step


def test_what_was_written_is_found_with_its_meta(tmp_path: Path) -> None:
    saved = save(tmp_path, 20, share_s=1.5)
    assert saved.complete
    assert saved.bytes == 112
    assert inspect(saved.path) == saved
    assert (saved.path / "tensors" / "weights.bin").read_bytes() == bytes([20]) * 100
    assert newest(tmp_path) == 20
    assert [entry.name for entry in (tmp_path / "checkpoints").iterdir()] == ["step-00000020-a1"]


def test_nothing_there_is_no_checkpoint(tmp_path: Path) -> None:
    assert newest(tmp_path) is None
    assert list_checkpoints(tmp_path) == []
    assert clear_asides(tmp_path / "checkpoints", 9) == 0


def test_a_later_attempt_is_newer_whatever_its_steps(tmp_path: Path) -> None:
    """Attempt 2 had to begin at 20 again: its rows have replaced those of attempt 1 from there on."""
    for step, attempt in ((20, 1), (40, 1), (30, 2)):
        save(tmp_path, step, attempt)
    assert [(c.attempt, c.step) for c in list_checkpoints(tmp_path)] == [(2, 30), (1, 40), (1, 20)]
    assert newest(tmp_path) == 30


def test_everything_is_fsynced_and_the_manifest_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    fsync, rename = os.fsync, os.rename

    def note_fsync(fd: int) -> None:
        calls.append(Path(os.readlink(f"/proc/self/fd/{fd}")).name)
        fsync(fd)

    def note_rename(source: Path, target: Path) -> None:
        calls.append(f"rename to {target.name}")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "rename", note_rename)
    save(tmp_path, 7)
    aside = calls[3]
    assert aside.startswith(".step-00000007-a1.")
    assert calls == [
        "state.json", "weights.bin", MANIFEST, aside, "tensors", "rename to step-00000007-a1", "checkpoints",
    ]  # fmt: skip


DAMAGES = {
    "truncated": lambda path: os.truncate(path, path.stat().st_size // 2),
    "empty": lambda path: os.truncate(path, 0),
    "gone": lambda path: path.unlink(),
    "flipped": lambda path: path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:]),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
}


@pytest.mark.parametrize("name", ["state.json", "tensors/weights.bin", MANIFEST])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_seen(tmp_path: Path, name: str, damage: str) -> None:
    save(tmp_path, 10)
    broken = save(tmp_path, 20)
    DAMAGES[damage](broken.path / name)
    assert not inspect(broken.path).complete
    found, passed = newest_checkpoint(tmp_path / "checkpoints", done=())
    assert found is not None
    assert found.step == 10
    assert [c.step for c in passed] == [20]


@settings(max_examples=40)
@given(data=st.data())
def test_no_single_flipped_bit_goes_unseen(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    saved = save(tmp_path_factory.mktemp("pack"), 3, finished=[])
    path = saved.path / data.draw(st.sampled_from(["state.json", "tensors/weights.bin", MANIFEST]))
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, 9999)) % len(content)] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    assert not inspect(saved.path).complete


def test_4_02_newest_two_broken(tmp_path: Path) -> None:
    """After a power cut the newest two are cut short; there is no pointer file to be wrong or lost."""
    for step in (10, 20, 30):
        save(tmp_path, step)
    for step in (20, 30):
        os.truncate(tmp_path / "checkpoints" / f"step-{step:08d}-a1" / "state.json", 0)
    assert newest(tmp_path) == 10
    assert [(c.step, c.verdict) for c in list_checkpoints(tmp_path)] == [
        (30, "state.json has 0 bytes, not 12"),
        (20, "state.json has 0 bytes, not 12"),
        (10, "complete"),
    ]


def test_all_broken_is_a_fresh_start(tmp_path: Path) -> None:
    (save(tmp_path, 10).path / MANIFEST).unlink()
    found, passed = newest_checkpoint(tmp_path / "checkpoints", done=())
    assert found is None
    assert [c.verdict for c in passed] == ["no manifest"]


def test_a_directory_under_another_checkpoints_name(tmp_path: Path) -> None:
    saved = save(tmp_path, 10)
    saved.path.rename(saved.path.with_name("step-00000099-a1"))
    assert newest(tmp_path) is None


def test_an_unknown_format_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, 10)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "FORMAT", 99)
        save(tmp_path, 20)
    assert list_checkpoints(tmp_path)[0].verdict == "format 99 is not known here"
    assert newest(tmp_path) == 10


def test_a_fresh_restart_ignores_what_came_before(tmp_path: Path) -> None:
    save(tmp_path, 10, attempt=1)
    save(tmp_path, 40, attempt=2)
    assert newest(tmp_path, after_attempt=2) is None
    save(tmp_path, 5, attempt=3)
    assert newest(tmp_path, after_attempt=2) == 5


def test_a_checkpoint_that_knows_of_an_end_nobody_believes_is_passed_over(tmp_path: Path) -> None:
    """A given-up attempt finished run r2 after it had been closed, and saved. Resuming there would skip r2's end."""
    save(tmp_path, 10, finished=["r1"])
    save(tmp_path, 20, finished=["r1", "r2"])
    assert newest(tmp_path, done={"r1"}) == 10
    assert newest(tmp_path, done={"r1", "r2"}) == 20
    _, passed = newest_checkpoint(tmp_path / "checkpoints", done={"r1"})
    assert "r2" in passed[0].verdict


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    save(tmp_path, 10)

    def write(directory: Path) -> None:
        (directory / "half.bin").write_bytes(b"half")
        raise OSError(errno.ENOSPC, "full")

    with pytest.raises(OSError, match="full"):
        write_checkpoint(tmp_path / "checkpoints", step=20, attempt=1, write=write, meta={})
    assert [entry.name for entry in (tmp_path / "checkpoints").iterdir()] == ["step-00000010-a1"]


def test_no_room_is_said_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 0, 20 << 20))

    def write(directory: Path) -> None:
        raise AssertionError("must not be asked to write")

    with pytest.raises(DiskFull) as caught:
        write_checkpoint(tmp_path, step=1, attempt=1, write=write, meta={}, expected_bytes=15 << 20)
    assert caught.value.errno == errno.ENOSPC
    assert list(tmp_path.iterdir()) == []


def test_asides_of_dead_attempts_are_cleared(tmp_path: Path) -> None:
    where = tmp_path / "checkpoints"
    for name in (".step-00000010-a1.aa", ".step-00000010-a2.bb", ".step-00000010-a3.cc"):
        (where / name).mkdir(parents=True)
        (where / name / "half.bin").write_bytes(b"x")
    assert clear_asides(where, 2) == 2
    assert [entry.name for entry in where.iterdir()] == [".step-00000010-a3.cc"]


def test_prune_keeps_the_newest_and_what_belongs_to_later_attempts(tmp_path: Path) -> None:
    for step, attempt in ((10, 1), (20, 1), (30, 1), (25, 2), (99, 4)):
        save(tmp_path, step, attempt)
    prune(tmp_path / "checkpoints", attempt=2, keep=2)
    assert [(c.attempt, c.step) for c in list_checkpoints(tmp_path)] == [(4, 99), (2, 25), (1, 30)]
    prune(tmp_path / "checkpoints", attempt=2, keep=0)
    assert [(c.attempt, c.step) for c in list_checkpoints(tmp_path)] == [(4, 99)]
    prune(tmp_path / "checkpoints", attempt=4, keep=0)
    assert not (tmp_path / "checkpoints").exists()


def test_what_is_half_removed_is_never_taken_for_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, 10)
    save(tmp_path, 20)
    monkeypatch.setattr(shutil, "rmtree", lambda path, ignore_errors: None)
    prune(tmp_path / "checkpoints", attempt=1, keep=1)
    assert [(c.step, c.verdict) for c in list_checkpoints(tmp_path)] == [(20, "complete"), (10, "no manifest")]
