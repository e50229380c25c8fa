"""What a log says about why its program ended: the lines a person would look for. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

TRACEBACK = "Traceback (most recent call last):"
OURS = re.compile(r"^orc-p\w+-a\d+: \d+ of \d+ runs, from step \d+$")
"""The worker's own first line."""
SNAPSHOT = re.compile(r'File "[^"]*/code/[0-9a-f]{16}/')
"""Where our code lies in a workspace says nothing."""


def telling_lines(text: str, most: int = 5) -> list[str]:
    """The end of the last traceback (its last frame and the error), else the last lines that say anything.

    Args:
        text: the tail of a log; carriage returns separate lines, of which the last stands.
        most: so many lines at most.
    """
    lines = [line.rstrip("\r").rpartition("\r")[2].rstrip() for line in text.split("\n")]
    lines = [SNAPSHOT.sub('File "', line) for line in lines if line.strip() and not OURS.match(line)]
    starts = [number for number, line in enumerate(lines) if line.startswith(TRACEBACK)]
    if starts:
        return _end_of_traceback(lines[starts[-1] + 1 :], most)
    return lines[-min(most, 3) :]


def _end_of_traceback(lines: Sequence[str], most: int) -> list[str]:
    """``lines`` behind the heading: frames are indented, the error is not."""
    error = next((number for number, line in enumerate(lines) if not line.startswith((" ", "|"))), len(lines))
    frames = [number for number, line in enumerate(lines[:error]) if line.lstrip().startswith('File "')]
    frame = list(lines[frames[-1] : error]) if frames else []
    frame = [line for line in frame if line.strip("~^ |")]  # the markers under the code
    return [*frame[:2], *lines[error:]][:most]


_NUMBER = re.compile(r"0x[0-9a-f]+|\b[rp][0-9a-f]{15}\b|\d+(\.\d+)?([eE][-+]?\d+)?")


def pattern_of(message: str) -> str:
    """Messages that differ only in numbers, addresses and ids are one kind."""
    return _NUMBER.sub("#", message)
