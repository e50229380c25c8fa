"""Which array element is which request: names of ours <-> names, comments and indices of Slurm's.

An array is named ``orc-<batch>`` (the first one of its batch) or ``orc-<batch>+<first>`` (one that begins with entry
``first``), and its comment is the batch's directory. So element t of such an array is entry ``first + t`` of the batch
file that lies there, and an id that Slurm has given to somebody else is found out.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cluster.backend import JobHandle
from cluster.batch_file import BATCH_FILE
from cluster.slurm.parse import AccountRow, QueueRow

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

    The same pack may run in two workspaces of one person, under one name: a job belongs to us only if its comment names
    a directory of ours.

    Args:
        submissions: the directory that holds a directory per batch, where it is known before the first one is
            submitted. While none is known, every comment of our making is believed.
    """

    def __init__(self, submissions: Path | None = None) -> None:
        self._homes: set[Path] = {submissions.absolute()} if submissions is not None else set()
        self._names: dict[Path, list[str]] = {}
        self._places: dict[str, list[tuple[Path, str]]] = {}
        """name of a request -> (directory, path of the shim's record) of every batch that held it."""
        self._written: dict[Path, float] = {}

    def learn(self, directory: Path) -> None:
        """A batch of ours lies in this directory, and others lie beside it."""
        self._homes.add(directory.parent)
        self._read(directory)

    def _read(self, directory: Path) -> bool:
        if directory in self._names:
            return True
        path = directory / BATCH_FILE
        try:
            entries = json.loads(path.read_bytes())["entries"]
            self._written[directory] = path.stat().st_mtime
        except (OSError, ValueError, KeyError, TypeError):
            return False
        ordered = [entries[str(index)] for index in range(len(entries))]
        self._names[directory] = [entry["name"] for entry in ordered]
        for entry in ordered:
            self._places.setdefault(entry["name"], []).append((directory, entry["record"]))
        return True

    def _directory(self, batch: str, comment: str) -> Path | None:
        """Where a batch lies: where its job's comment says, or (accounting may have lost it) in a home of ours."""
        if comment.startswith(COMMENT):
            said = Path(comment.removeprefix(COMMENT))
            ours = not self._homes or said.parent in self._homes
            return said if ours and said.name == batch and self._read(said) else None
        return next((home / batch for home in self._homes if self._read(home / batch)), None)

    def name_of(self, array: str, task: int, comment: str = "") -> str | None:
        """Our name of element ``task`` of an array; None where it is none of ours or its batch file is out of reach."""
        split = split_array_name(array)
        directory = None if split is None else self._directory(split[0], comment)
        if split is None or directory is None:
            return None
        names, index = self._names[directory], split[1] + task
        return names[index] if index < len(names) else None

    def name_of_row(self, row: QueueRow | AccountRow) -> str | None:
        """Our name of the element that a row of squeue or sacct speaks of; None for what is none of ours."""
        task = row.id.partition("_")[2]
        return self.name_of(row.name, int(task), row.comment) if task else None

    def holders(self, names: Iterable[str]) -> set[Path]:
        """Directories of the batches that hold any of ``names``; looks at batches that were not met before."""
        wanted = set(names)
        if wanted - self._places.keys():
            for home in self._homes:
                with contextlib.suppress(FileNotFoundError):
                    for entry in os.scandir(home):
                        if not entry.name.startswith("."):
                            self._read(home / entry.name)
        return {directory for name in wanted for directory, _ in self._places.get(name, ())}

    def record(self, handle: JobHandle) -> dict[str, Any] | None:
        """What the shim left of how the command of this very job ended; None where it left nothing (yet)."""
        self.holders([handle.name])
        for _, path in self._places.get(handle.name, ()):
            try:
                record = json.loads(Path(path).read_bytes())
            except (OSError, ValueError):
                continue
            if str(record.get("job", "")).startswith(f"{handle.name}/{handle.id}/"):
                return record
        return None

    def oldest(self) -> float | None:
        """When the first batch that we know was written, by the file system's clock."""
        return min(self._written.values(), default=None)
