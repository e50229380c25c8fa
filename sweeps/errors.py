"""The base error of this folder: every mistake in a sweep file, at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sweeps.load import Sweep


class _Absent:
    def __repr__(self) -> str:
        return "absent"


ABSENT = _Absent()
"""There is no value to show (a missing key, say); None is a value."""

SHOWN = 12
"""Choices listed before the rest is only counted."""


@dataclass(frozen=True)
class Problem:
    """One mistake.

    Attributes:
        where: key in the sweep file ("factors.task.copy"), with the cells it spoils where they are known.
        message: what is wrong, without the value.
        file: path as the user wrote it, or "override 2".
        line: 1-based, None where there is no line (an override).
        value: what was found there, or ABSENT.
        choices: what would have been valid.
    """

    where: str
    message: str
    file: str = ""
    line: int | None = None
    value: Any = ABSENT
    choices: tuple[str, ...] = ()

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        text = ": ".join(part for part in (place, self.where, self.message) if part)
        if self.value is not ABSENT:
            text += f", got {_short(self.value)}"
        if close := self.suggestion:
            text += f"; did you mean {close}?"
        if self.choices:
            more = len(self.choices) - SHOWN
            listed = ", ".join(self.choices[:SHOWN]) + (f" and {more} more" if more > 0 else "")
            text += f" (choose from: {listed})"
        return text

    @property
    def suggestion(self) -> str | None:
        """The choice closest to what was written, if one is close."""
        key = self.where.partition(" (")[0].rpartition(".")[2]
        written = self.value if isinstance(self.value, str) else key
        close = difflib.get_close_matches(written, self.choices, n=1, cutoff=0.6)
        return close[0] if close else None


class SweepError(Exception):
    """What is wrong with a sweep file or a plan; ``problems`` holds every mistake that was found.

    ``rest`` is what can be read of the file without its mistakes, where that makes sense, to look for more of them.
    """

    def __init__(self, problems: Iterable[Problem] | str, rest: Sweep | None = None) -> None:
        self.problems = (Problem("", problems),) if isinstance(problems, str) else tuple(problems)
        self.rest = rest
        super().__init__(self.problems)

    def __str__(self) -> str:
        if len(self.problems) == 1:
            return str(self.problems[0])
        lines = "\n".join(f"  {problem}" for problem in self.problems)
        return f"{len(self.problems)} mistakes:\n{lines}"


def _short(value: Any, limit: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."
