"""Which array element is which request: names of ours <-> names, comments and indices of Slurm's.

An array is named ``orc-<batch>`` (the first one of its batch) or ``orc-<batch>+<first>`` (one that begins with entry
``first``), and its comment is the batch's directory. So element t of such an array is entry ``first + t`` of the batch
file that lies there, and an id that Slurm has given to somebody else is found out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cluster.backend import JobHandle
from cluster.batch_file import BATCH_FILE

PREFIX = "orc-"
COMMENT = "orchestrate:"


def array_name(batch: str, first: int) -> str:
    return f"{PREFIX}{batch}" + (f"+{first}" if first else "")


def split_array_name(name: str) -> tuple[str, int] | None:
    """Batch id and first entry of an array's name; None for anybody else's job."""
    if not name.startswith(PREFIX):
        return None
    batch, _, first = name.removeprefix(PREFIX).partition("+")
    return (batch, int(first or 0)) if batch and (first or "0").isdigit() else None


def comment_of(directory: Path) -> str:
    return f"{COMMENT}{directory}"


class Batches:
    """Batch files that were met, read once each.

    Args:
        submissions: the directory that holds a directory per batch, where it is known; others are learned from the
            batches that are submitted and from the comments of jobs.
    """

    def __init__(self, submissions: Path | None = None) -> None:
        self._homes: set[Path] = {submissions} if submissions is not None else set()
        self._names: dict[str, list[str]] = {}
        self._entries: dict[str, list[tuple[str, int]]] = {}
        """name of a request -> (batch, index) of every batch that held it."""
        self._records: dict[str, str] = {}
        self._written: dict[str, float] = {}
        self._directories: dict[str, Path] = {}

    def learn(self, directory: Path) -> None:
        """A batch lies in this directory, and others lie beside it."""
        self._homes.add(directory.parent)
        self._read(directory)

    def learn_comment(self, comment: str) -> None:
        if comment.startswith(COMMENT):
            directory = Path(comment.removeprefix(COMMENT))
            if directory.name not in self._names:
                self.learn(directory)

    def _read(self, directory: Path) -> bool:
        batch = directory.name
        if batch in self._names:
            return True
        path = directory / BATCH_FILE
        try:
            entries = json.loads(path.read_bytes())["entries"]
            self._written[batch] = path.stat().st_mtime
        except (OSError, ValueError, KeyError, TypeError):
            return False
        self._directories[batch] = directory
        self._names[batch] = [entries[str(index)]["name"] for index in range(len(entries))]
        for index, name in enumerate(self._names[batch]):
            self._entries.setdefault(name, []).append((batch, index))
            self._records[name] = entries[str(index)]["record"]
        return True

    def name_of(self, array: str, task: int, comment: str = "") -> str | None:
        """Our name of element ``task`` of an array; None where it is none of ours or its batch file is out of reach."""
        split = split_array_name(array)
        if split is None:
            return None
        self.learn_comment(comment)
        batch, first = split
        if batch not in self._names and not any(self._read(home / batch) for home in self._homes):
            return None
        names = self._names[batch]
        return names[first + task] if first + task < len(names) else None

    def locate(self, names: Iterable[str]) -> dict[str, list[tuple[str, int]]]:
        """(batch, index) of every batch that holds each of ``names``; looks at batches that were not met before."""
        wanted = set(names)
        if wanted - self._entries.keys():
            for home in self._homes:
                try:
                    found = [entry.name for entry in os.scandir(home) if entry.name not in self._names]
                except FileNotFoundError:
                    continue
                for name in found:
                    if not name.startswith("."):
                        self._read(home / name)
        return {name: self._entries[name] for name in wanted if name in self._entries}

    def directory(self, batch: str) -> Path:
        """Where a batch that ``locate`` or ``name_of`` has met lies."""
        return self._directories[batch]

    def record(self, handle: JobHandle) -> dict[str, Any] | None:
        """What the shim left of how the command of this very job ended; None where it left nothing (yet)."""
        try:
            record = json.loads(Path(self._records[handle.name]).read_bytes())
        except (KeyError, OSError, ValueError):
            return None
        return record if str(record.get("job", "")).startswith(f"{handle.name}/{handle.id}/") else None

    def oldest(self) -> float | None:
        """When the first batch that we know was written, by the file system's clock."""
        return min(self._written.values(), default=None)
