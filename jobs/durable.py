"""How files are written so that a crash at any moment leaves them whole: one writer per file, three kinds of file."""

from __future__ import annotations

import os
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


def aside_name(path: Path) -> Path:
    """Where the future content of ``path`` is written: beside it (one file system), hidden, never the same twice."""
    return path.with_name(f".{path.name[:60]}.{os.urandom(16).hex()}")


def _write_aside(path: Path, data: bytes, *, sync: bool) -> Path:
    aside = aside_name(path)
    try:
        with open(aside, "xb") as file:
            file.write(data)
            if sync:
                file.flush()
                os.fsync(file.fileno())
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    return aside


def replace_file(path: Path, data: bytes, *, sync: bool = True, sync_name: bool | None = None) -> None:
    """A file that is replaced (heartbeat, table, plan): the old content or the new one, never a mixture.

    ``sync`` is of the content; ``sync_name`` (the same unless given) of the directory, which a caller that writes
    many files may rather do once with ``fsync_dir``."""
    aside = _write_aside(path, data, sync=sync)
    os.replace(aside, path)
    if sync if sync_name is None else sync_name:
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
        try:
            os.link(aside, path)
        except OSError:
            if not path.exists():
                raise
        ours = os.path.samefile(aside, path)
    finally:
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
    """An append-only log of JSON lines with one writer. ``flush(sync=True)`` is a commit point."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115
        self._buffer: list[bytes] = []
        self._unsynced = False
        self._torn = False

    def append(self, record: Any) -> None:
        """Keep one record for the next flush."""
        self._buffer.append(orjson.dumps(record) + b"\n")

    def flush(self, *, sync: bool = False) -> None:
        """Hand all records to the kernel and, with ``sync``, to the disk (which costs nothing where nothing is new).

        Raises:
            OSError: the records of this flush are not committed. Later ones begin on a line of their own.
        """
        if self._buffer:
            data, self._buffer = b"".join(self._buffer), []
            view = memoryview(b"\n" + data if self._torn else data)
            self._torn = self._unsynced = True
            while view:
                view = view[self._file.write(view) :]
            self._torn = False
        if sync and self._unsynced:
            os.fsync(self._file.fileno())
            self._unsynced = False

    def close(self) -> None:
        try:
            self.flush(sync=True)
        finally:
            self._file.close()


def read_lines(path: Path, offset: int = 0, limit: int | None = None) -> tuple[list[bytes], int]:
    """Whole lines from byte ``offset`` on (up to byte ``limit`` of the file), and the offset behind the last one. A
    torn last line is dropped."""
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            data = file.read(-1 if limit is None else max(0, limit - offset))
    except FileNotFoundError:
        return [], offset
    end = data.rfind(b"\n") + 1
    return data[:end].splitlines(), offset + end


def read_log(path: Path, offset: int = 0, limit: int | None = None) -> tuple[list[Any], int]:
    """As ``read_lines``, each line parsed; one that is not JSON (torn in the middle) is dropped."""
    lines, end = read_lines(path, offset, limit)
    records = []
    for line in lines:
        try:
            records.append(orjson.loads(line))
        except orjson.JSONDecodeError:
            continue
    return records, end
