"""Files that stay whole."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs import durable
from jobs.durable import AppendLog, decide_file, read_json, read_log, replace_file


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


def test_the_first_decision_stands(tmp_path: Path) -> None:
    path = tmp_path / "claimed.json"
    assert decide_file(path, {"job": "a"})
    assert not decide_file(path, {"job": "b"})
    assert not decide_file(path, {"job": "a"}), "equal content is not the same decision"
    assert read_json(path) == {"job": "a"}
    assert names(tmp_path) == ["claimed.json"]


def test_of_many_deciders_exactly_one_wins(tmp_path: Path) -> None:
    for round_ in range(20):
        path = tmp_path / f"{round_}.json"
        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(partial(decide_file, path), range(8)))
        assert won.count(True) == 1
        assert read_json(path) == won.index(True)


@pytest.mark.parametrize("error", [FileExistsError(errno.EEXIST, "exists"), OSError(errno.EIO, "lost reply")])
def test_a_link_that_claims_to_have_failed_is_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    """NFS repeats a request whose answer was lost; the repetition finds the name taken by ourselves."""
    link = os.link

    def lying_link(source: Path, target: Path) -> None:
        link(source, target)
        raise error

    monkeypatch.setattr(os, "link", lying_link)
    assert decide_file(tmp_path / "closed.json", 1)
    monkeypatch.setattr(os, "link", link)
    assert not decide_file(tmp_path / "closed.json", 2)


def test_a_link_that_really_failed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_link(source: Path, target: Path) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", no_link)
    with pytest.raises(OSError, match="no links here"):
        decide_file(tmp_path / "closed.json", 1)
    assert names(tmp_path) == []


def test_a_failed_write_leaves_the_old_content_and_no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "plan.jsonl"
    replace_file(path, b"old")

    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="full"):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["plan.jsonl"]


def test_a_long_name_fits_beside_itself(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 250)
    replace_file(path, b"1")
    assert path.read_bytes() == b"1"
    assert len(durable.aside_name(path).name) <= 100


def test_sync_costs_nothing_where_nothing_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    log = AppendLog(tmp_path / "facts.jsonl")
    log.flush(sync=True)
    assert synced == []
    log.append({"a": 1})
    log.append({"a": 2})
    log.flush()
    assert synced == []
    log.flush(sync=True)
    log.flush(sync=True)
    log.close()
    assert len(synced) == 1


def test_a_log_goes_on_behind_a_torn_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk was full in the middle of a record; room was made; what is written then must be readable."""
    path = tmp_path / "facts.jsonl"
    log = AppendLog(path)
    log.append({"n": 1})
    log.flush()
    real = log._file

    class HalfFile:
        def write(self, data: memoryview) -> int:
            real.write(data[:4])
            raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(log, "_file", HalfFile())
    log.append({"n": 2})
    with pytest.raises(OSError, match="full"):
        log.flush()
    monkeypatch.setattr(log, "_file", real)
    log.append({"n": 3})
    log.close()
    assert read_log(path)[0] == [{"n": 1}, {"n": 3}]


records = st.lists(
    st.dictionaries(st.text(max_size=5), st.integers(-(2**53), 2**53) | st.text(max_size=8), max_size=3), max_size=6
)


@given(records, st.data())
def test_a_log_cut_anywhere_yields_a_prefix(tmp_path_factory: pytest.TempPathFactory, rows: list, data) -> None:
    path = tmp_path_factory.mktemp("log") / "facts.jsonl"
    rows = [{**row, "n": 1} for row in rows]
    lines = b"".join(orjson.dumps(row) + b"\n" for row in rows)
    cut = data.draw(st.integers(0, len(lines)))
    path.write_bytes(lines[:cut])
    found, offset = read_log(path)
    assert found == rows[: lines[:cut].count(b"\n")]
    path.write_bytes(lines)
    rest, end = read_log(path, offset)
    assert found + rest == rows
    assert end == len(lines)
    assert read_log(path, 0, cut)[0] == found


def test_an_absent_log_is_empty(tmp_path: Path) -> None:
    assert read_log(tmp_path / "facts.jsonl", 7) == ([], 7)
    assert read_json(tmp_path / "closed.json") is None
