"""Maintenance: a job whose time limit reaches into it does not start before it. A shorter limit may fit under it, and a
run that is cut there goes on afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from cluster.slurm.commands import Commands
from cluster.slurm.parse import key_values

LOOK_EVERY_S = 600.0
MARGIN_MINUTES = 5
LEAST_MINUTES = 15
"""A limit shorter than this is not worth a start; the job then waits until the maintenance is over."""


@dataclass(frozen=True, slots=True)
class Maintenance:
    """A reservation flagged MAINT. Times are local and have no zone, as Slurm prints them."""

    name: str
    start: datetime
    end: str


def maintenances(text: str) -> Iterator[Maintenance]:
    """From ``scontrol -o show reservation``."""
    for line in text.splitlines():
        values = key_values(line)
        if "MAINT" not in values.get("Flags", ""):
            continue
        try:
            start = datetime.fromisoformat(values["StartTime"])
        except (KeyError, ValueError):
            continue
        yield Maintenance(values.get("ReservationName", ""), start, values.get("EndTime", "?"))


def fit(minutes: int | None, left: float | None) -> int | None:
    """A time limit that ends before a maintenance that begins in ``left`` minutes; the wanted one where that is none,
    too near, or far enough."""
    if minutes is None or left is None:
        return minutes
    room = int(left) - MARGIN_MINUTES
    return room if LEAST_MINUTES <= room < minutes else minutes


class Calendar:
    """Minutes until the next maintenance, asked for now and then."""

    def __init__(self, commands: Commands, clock: Callable[[], float] = time.monotonic) -> None:
        self._commands = commands
        self._clock = clock
        self._asked: float | None = None
        self._starts: list[datetime] = []

    def left_minutes(self) -> float | None:
        """None: no maintenance is announced, or nobody answers."""
        now = self._clock()
        if (self._asked is None or now - self._asked > LOOK_EVERY_S) and self._commands.orders.take():
            self._asked = now
            answer = self._commands("scontrol", "-o", "show", "reservation")
            if answer.ok:
                self._starts = [found.start for found in maintenances(answer.out)]
        left = [(start - datetime.now()).total_seconds() / 60 for start in self._starts]
        return min((minutes for minutes in left if minutes > 0), default=None)
