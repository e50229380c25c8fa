"""Is there room again? Packs that met a full disk wait for it; nothing else is launched onto a disk that is full.

Free space is asked of the file system, and then tried: a quota does not show in its answer. The trial is a file of the
size of a checkpoint (of 64 MB at most), allocated, synced and deleted.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from jobs.durable import aside_name

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
"""What a write fails of where there is no room for it."""

LARGEST_TRIAL = 64 << 20
NO_SPACE = "no space left on "
"""How every reason begins that a person mends by making room."""


def is_full(error: BaseException) -> bool:
    """Whether a write has failed for want of room."""
    return isinstance(error, OSError) and error.errno in FULL


def shortage(folder: Path, needed: int, trial: bool = True) -> str:
    """Why ``needed`` bytes cannot be written below ``folder``; "" where they can, as far as anybody can tell.

    ``trial``: also write something.
    """
    try:
        free = shutil.disk_usage(folder).free
        said = f"{_mb(needed)} needed, {_mb(free)} free"
        if free < needed:
            return f"{NO_SPACE}{folder}: {said}"
        try:
            if trial:
                _try(folder, min(needed, LARGEST_TRIAL))
        except OSError as error:
            if not is_full(error):
                raise
            why = {errno.EDQUOT: "the quota is used up", errno.EROFS: "it is read-only"}.get(
                error.errno or 0, "a trial file cannot grow to that"
            )
            return f"{NO_SPACE}{folder}: {said}, but {why}"
    except OSError as error:
        return f"{NO_SPACE}{folder}: it cannot be written ({error.strerror or error})"
    return ""


def _try(folder: Path, size: int) -> None:
    trial = aside_name(folder / "room")
    try:
        with open(trial, "xb") as file:
            os.posix_fallocate(file.fileno(), 0, max(1, size))
            os.fsync(file.fileno())
    finally:
        with suppress(OSError):
            trial.unlink()


def _mb(size: float) -> str:
    return f"{size / 1e6:.1f} MB"


class Room:
    """What a loop knows of the room that is left.

    Args:
        folder: where all files lie.
        every_s: how often it looks while somebody waits for room.
    """

    def __init__(self, folder: Path, every_s: float, measure: Callable[[Path, int, bool], str] = shortage) -> None:
        self._folder = folder
        self._every_s = every_s
        self._measure = measure
        self._looked: float | None = None
        self._asked: dict[str, tuple[int, int]] = {}
        self.reason = ""
        """Why nothing is launched at all: not even the least of those that wait would fit."""
        self.short: dict[str, str] = {}
        """Pack -> why it does not fit yet."""
        self.released: dict[str, int] = {}
        """Pack -> attempt that met a full disk where there is room by now: it may go on at once."""
        self.full_at: float | None = None
        """When somebody last could not write, on our own clock."""

    def look(self, starved: Iterable[tuple[str, int, int]], now: float) -> None:
        """Look again, if it is time.

        Args:
            starved: (pack, its last attempt, bytes that it needs) of all that met a full disk, in the plan's order.
        """
        asked = {pack: (attempt, needed) for pack, attempt, needed in starved}
        due = self._looked is None or now - self._looked >= self._every_s
        if asked == self._asked and not (asked and due):
            return
        self._asked, self._looked = asked, now
        self.released = {pack: n for pack, n in self.released.items() if pack in asked and asked[pack][0] == n}
        waited, self.short = self.short, {}
        total, why = 0, ""
        for pack, (attempt, needed) in asked.items():
            total += needed  # those before it take theirs first
            why = why or self._measure(self._folder, total, total == needed)
            if why:  # the others wait behind it: the plan's order stands
                self.short[pack] = why
            elif pack in waited:
                self.released[pack] = attempt
        self.reason = why if asked and len(self.short) == len(asked) else ""
        if why:
            self.full_at = now
