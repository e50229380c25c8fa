"""How files are written so that a crash at any moment leaves them whole: one writer per file, three kinds of file."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

import orjson


def fsync_dir(path: Path) -> None:
    """Make the names in a directory durable."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _write_aside(path: Path, data: bytes, *, sync: bool) -> Path:
    aside = path.with_name(f".{path.name[:60]}.{uuid.uuid4().hex}")
    with open(aside, "xb") as file:
        file.write(data)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    return aside


def replace_file(path: Path, data: bytes, *, sync: bool = True) -> None:
    """A file that is replaced (heartbeat, table, plan): the old content or the new one, never a mixture."""
    aside = _write_aside(path, data, sync=sync)
    os.replace(aside, path)
    if sync:
        fsync_dir(path.parent)


def decide_file(path: Path, value: Any) -> bool:
    """A file that *decides* (launch, claimed, closed): the first one stands.

    Returns:
        True if this call's content is the one that stands. ``os.link`` may report failure although it succeeded (NFS),
        so the answer is read back from the file, not from the call.
    """
    data = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    aside = _write_aside(path, data, sync=True)
    try:
        os.link(aside, path)
    except FileExistsError:
        pass
    ours = os.stat(aside).st_ino == os.stat(path).st_ino
    os.unlink(aside)
    fsync_dir(path.parent)
    return ours


def read_json(path: Path) -> Any | None:
    """The JSON of a file, or None if there is no such file."""
    try:
        return orjson.loads(path.read_bytes())
    except FileNotFoundError:
        return None


class AppendLog:
    """An append-only log of JSON lines with one writer. ``sync`` marks a commit point."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115
        self._buffer: list[bytes] = []

    def append(self, record: Any) -> None:
        self._buffer.append(orjson.dumps(record) + b"\n")

    def flush(self, *, sync: bool = False) -> None:
        if self._buffer:
            data, self._buffer = b"".join(self._buffer), []
            view = memoryview(data)
            while view:
                view = view[self._file.write(view) :]
        if sync:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        self.flush(sync=True)
        self._file.close()


def read_log(path: Path, offset: int = 0) -> tuple[list[Any], int]:
    """Records from byte ``offset`` on, and the offset behind the last whole line. A torn last line is dropped, and so
    is a line that is not JSON (a torn line that a later writer of the same file has continued)."""
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            data = file.read()
    except FileNotFoundError:
        return [], offset
    end = data.rfind(b"\n") + 1
    records = []
    for line in data[:end].splitlines():
        try:
            records.append(orjson.loads(line))
        except orjson.JSONDecodeError:
            continue
    return records, offset + end
