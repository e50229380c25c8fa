"""Logs as programs really write them."""

from __future__ import annotations

from pathlib import Path

from orchestrator.log_tail import BLOCK, Follower, last_lines


def test_last_lines_of_a_small_file(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_bytes(b"one\ntwo\nthree\n")
    assert last_lines(log, 2) == (["two", "three"], 14)
    assert last_lines(log, 10)[0] == ["one", "two", "three"]


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_bytes(b"caf\xe9\nok\n")
    assert last_lines(log, 2)[0] == ["caf�", "ok"]


def test_7_15_progress_bars_and_200_megabytes(tmp_path: Path) -> None:
    """A 200 MB log (sparse) that ends in two million carriage-return updates is one line, read from the end."""
    log = tmp_path / "log.txt"
    with open(log, "wb") as file:
        file.truncate(200 << 20)
        file.seek(0, 2)
        file.write(b"\nbefore\n" + b"".join(b"\rstep %d" % step for step in range(100_000)) + b"\nafter\n")
    lines, offset = last_lines(log, 3)
    assert lines == ["before", "step 99999", "after"]
    assert offset == log.stat().st_size


def test_follower_sees_whole_lines_only_and_survives_truncation(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    follower = Follower(log)
    assert list(follower.lines()) == []
    log.write_bytes(b"a\nb")
    assert list(follower.lines()) == ["a"]
    with open(log, "ab") as file:
        file.write(b"c\n")
    assert list(follower.lines()) == ["bc"]
    log.write_bytes(b"x\n")
    assert list(follower.lines()) == ["x"]


def test_follower_skips_overwritten_updates(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    follower = Follower(log)
    log.write_bytes(b"".join(b"\rstep %d" % step for step in range(BLOCK)) + b"\nend\n")
    assert list(follower.lines()) == [f"step {BLOCK - 1}", "end"]
