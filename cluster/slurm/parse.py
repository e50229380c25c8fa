"""Reading what squeue and sacct print. Pure.

Ids: a job of ours is always an array, so its id is ``<array>_<task>``. What waits in an array is one line,
``12_[3-9:2,14%4]``; long lists lose their end (squeue: also the closing bracket) unless SLURM_BITSTR_LEN=0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

QUEUE_FIELDS = "%i|%T|%r|%N|%j|%k"
ACCOUNT_FIELDS = "JobID,State,ExitCode,DerivedExitCode,NodeList,Start,End,ElapsedRaw,JobName,Comment"


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One line of squeue, or one element of such a line. ``id``: ``12_3`` (or ``12``)."""

    id: str
    word: str
    reason: str
    nodes: str
    name: str
    comment: str


@dataclass(slots=True)
class AccountRow:
    """One run of a job in sacct, with its steps."""

    id: str
    word: str
    exit_code: int
    signal: int
    nodes: str
    start: str
    end: str
    elapsed_s: int
    name: str
    comment: str
    steps: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    """step (``batch``, ``0``) -> state word, exit code, signal."""
    blank_batch: bool = False
    """Its batch step has no exit code at all: the script never began."""


def split_id(text: str) -> tuple[str, list[int] | None, bool]:
    """(array or job id, tasks or None for a job that is no array, whether the list was whole).

    Raises:
        ValueError: not an id.
    """
    found = re.fullmatch(r"(\d+)(?:_(?:(\d+)|\[([\d,:.\-]*)(%\d+)?(\])?))?", text.strip())
    if found is None:
        raise ValueError(f"not a job id: {text!r}")
    job, single, many, _, closed = found.groups()
    if many is None:
        return job, None if single is None else [int(single)], True
    whole = closed is not None and "..." not in many
    tasks: list[int] = []
    for part in many.split(","):
        piece = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", part)
        if piece is None:  # "..." or nothing, where the list was cut
            whole = False
            continue
        first, last, step = int(piece[1]), int(piece[2] or piece[1]), int(piece[3] or 1)
        tasks.extend(range(first, last + 1, step))
    return job, tasks, whole


def queue_rows(text: str) -> Iterator[QueueRow]:
    """Rows of ``squeue -h -o QUEUE_FIELDS``, one an element; lines that are none are passed over."""
    for line in text.splitlines():
        fields = line.split("|", 5)
        if len(fields) != 6:
            continue
        try:
            job, tasks, _ = split_id(fields[0])
        except ValueError:
            continue
        word, reason, nodes, name, comment = (part.strip() for part in fields[1:])
        for id in [job] if tasks is None else [f"{job}_{task}" for task in tasks]:
            yield QueueRow(id, word, reason, nodes, name, "" if comment == "(null)" else comment)


def _code(text: str) -> tuple[int, int]:
    code, _, number = text.partition(":")
    return (int(code), int(number)) if code.isdigit() and number.isdigit() else (0, 0)


def account_rows(text: str) -> list[AccountRow]:
    """Rows of ``sacct -n -P -D -o ACCOUNT_FIELDS``: one for every run of every element, oldest first, each with the
    steps that follow it."""
    rows: list[AccountRow] = []
    for line in text.splitlines():
        fields = line.split("|", 9)
        if len(fields) != 10:
            continue
        id, word, exit, _derived, nodes, start, end, elapsed, name, comment = fields
        main, dot, step = id.partition(".")
        code, number = _code(exit)
        if dot:
            owner = next((row for row in reversed(rows) if row.id == main), None)
            if owner is not None:
                owner.steps[step] = (word, code, number)
                owner.blank_batch = owner.blank_batch or (step == "batch" and not exit.strip())
            continue
        try:
            job, tasks, _ = split_id(main)
        except ValueError:
            continue
        seconds = int(elapsed) if elapsed.isdigit() else 0
        rows += [
            AccountRow(one, word, code, number, nodes, start, end, seconds, name, comment)
            for one in ([job] if tasks is None else [f"{job}_{task}" for task in tasks])
        ]
    return rows


def config_values(text: str) -> dict[str, str]:
    """``scontrol show config``: key -> value as printed."""
    found = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals and key.strip() and " " not in key.strip():
            found[key.strip()] = value.strip()
    return found


def key_values(line: str) -> dict[str, str]:
    """``scontrol -o show ...``: the ``Key=value`` pairs of one line. Values may hold blanks; keys never do."""
    return {m[1]: m[2].strip() for m in re.finditer(r"(?:^|\s)([A-Za-z][\w:/]*)=(.*?)(?=\s[A-Za-z][\w:/]*=|$)", line)}
