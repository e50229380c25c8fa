"""Reading logs that programs write: huge, with carriage returns, torn lines and bytes that are not UTF-8."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jobs.workspace import AttemptDir

BLOCK = 1 << 18
LINE_LIMIT = 4000
"""Characters shown of one line; a progress bar without a newline must not fill the screen."""


def clean(line: bytes) -> str:
    """One line as a person wants it: what the last carriage return left standing, undecodable bytes as U+FFFD."""
    text = line.rstrip(b"\r\n").rpartition(b"\r")[2].decode("utf-8", errors="replace")
    return text if len(text) <= LINE_LIMIT else f"{text[:LINE_LIMIT]} [... {len(text) - LINE_LIMIT} more characters]"


def last_lines(path: Path, count: int) -> tuple[list[str], int]:
    """The last ``count`` lines and the offset behind the last whole one; reads from the end, so size does not matter.

    Lines are split at LF only: carriage-return updates of a progress bar are one line.
    """
    if count <= 0:
        return [], path.stat().st_size
    with open(path, "rb") as file:
        end = file.seek(0, os.SEEK_END)
        start, data = end, b""
        # A line longer than a block of many megabytes (a progress bar) is not worth reading whole.
        while start > 0 and data.count(b"\n") <= count and len(data) < 64 * BLOCK:
            start = max(0, start - BLOCK)
            file.seek(start)
            data = file.read(min(BLOCK, end - start - len(data))) + data
    whole = data.rfind(b"\n") + 1
    lines = data[:whole].split(b"\n")[:-1]
    if start > 0 and len(lines) > count:
        lines = lines[1:]  # the first one is cut
    rest = data[whole:]
    shown = [clean(line) for line in lines[-count:]]
    if rest and not shown:
        shown = [clean(rest)]
    return shown, end - len(rest)


class Follower:
    """New whole lines of a growing file. A file that has shrunk (truncated by a requeue) is read from its start."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self.path = path
        self.offset = offset

    def lines(self) -> Iterator[str]:
        """What has come since the last call, block by block; the unfinished last line waits."""
        try:
            file = open(self.path, "rb")  # noqa: SIM115
        except FileNotFoundError:
            return
        with file:
            if os.fstat(file.fileno()).st_size < self.offset:
                self.offset = 0
            file.seek(self.offset)
            while data := file.read(BLOCK):
                whole = data.rfind(b"\n") + 1
                if not whole:
                    # Nothing but an unfinished line: skip updates that a later carriage return has overwritten.
                    overwritten = data.rfind(b"\r")
                    if len(data) == BLOCK and overwritten > 0:
                        self.offset += overwritten
                        file.seek(self.offset)
                        continue
                    if len(data) == BLOCK:
                        self.offset += len(data)
                        yield clean(data)
                        continue
                    return
                self.offset += whole
                file.seek(self.offset)
                for line in data[: whole - 1].split(b"\n"):
                    yield clean(line)


@dataclass(frozen=True)
class Line:
    """One line of one process. ``marked``: its attempt has other processes, so a reader wants to know whose it is."""

    attempt: int
    rank: int
    text: str
    marked: bool


class AttemptLogs:
    """The logs of all processes of one attempt, or of one of them; later ones are found as they come.

    Lines of different processes are not put in order of time: logs tell none. What was there at the first look comes
    process by process, what comes later as it comes.

    Attributes:
        seen: ranks whose logs were found.
    """

    def __init__(self, place: AttemptDir, last: int, rank: int | None = None) -> None:
        """``last``: so many lines of what is there already; ``rank``: this process alone."""
        self.place = place
        self.seen: dict[int, Follower] = {}
        self._last: int | None = last
        self._rank = rank

    def new(self) -> Iterator[Line]:
        """What has come since the last call."""
        logs = self.place.logs()
        for rank, path in logs.items():
            if self._rank not in (None, rank):
                continue
            texts: list[str] = []
            if rank not in self.seen:  # what comes later is shown from its start
                texts, offset = ([], 0) if self._last is None else last_lines(path, self._last)
                self.seen[rank] = Follower(path, offset)
            for text in (*texts, *self.seen[rank].lines()):
                yield Line(self.place.number, rank, text, len(logs) > 1)
        if logs:
            self._last = None
