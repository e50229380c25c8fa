"""Device hours of sweeps by who launched them, by labels and by what became of them. Reads, never writes."""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from cluster.batch_file import BATCH_FILE
from jobs.durable import read_json
from jobs.workspace import Workspace
from orchestrator.cost import NO_LOSS, USEFUL, bills, devices_of, unit_of
from orchestrator.errors import OrchestratorError
from orchestrator.history import split_name
from orchestrator.survey import Survey

USER, CLASS = "user", "class"
NOBODY = "unknown"


@dataclass(frozen=True, slots=True)
class Item:
    """What one run took in one attempt, by what became of it. ``unit``: "GPU", or "slot" for packs without one."""

    run: str
    user: str
    fate: str
    seconds: float
    unit: str


@dataclass
class Account:
    """Seconds by what became of them."""

    by_fate: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    @property
    def total(self) -> float:
        return sum(self.by_fate.values())

    @property
    def useful(self) -> float:
        return self.by_fate.get(USEFUL, 0.0)

    @property
    def lost(self) -> dict[str, float]:
        """Class -> seconds, the most first."""
        lost = {name: seconds for name, seconds in self.by_fate.items() if name not in NO_LOSS}
        return dict(sorted(lost.items(), key=lambda item: -item[1]))


def launchers(space: Workspace) -> dict[str, str]:
    """Job name -> who handed it over first. Reads every submission."""
    found: dict[str, str] = {}
    with contextlib.suppress(FileNotFoundError):
        for batch in sorted(os.listdir(space.submissions)):
            record = read_json(space.submission(batch) / BATCH_FILE) or {}
            for entry in record.get("entries", {}).values():
                found.setdefault(entry["name"], record.get("by", NOBODY))
    return found


def items(space: Workspace, seen: Survey) -> Iterator[Item]:
    """Everything that the runs of a survey took. A run that a sweep carries for another is not among its own."""
    users = launchers(space)
    of_pack: dict[str, str] = {}
    for name, user in users.items():  # a job that its scheduler started again has no submission of its own
        split = split_name(name)
        if split is not None:
            of_pack[split[0]] = user
    for surveyed in seen.packs:
        pack = surveyed.pack
        unit = unit_of([pack.resources])
        devices = devices_of(pack.resources)
        for view, run, fate, seconds in bills(surveyed.views, surveyed.verdict.runs):
            if run in seen.desired.sweeps_of:
                user = users.get(view.name) or of_pack.get(pack.id, NOBODY)
                yield Item(run, user, fate, seconds * devices, unit)


def accounts(seen: Survey, found: list[Item], by: str) -> dict[str, Account]:
    """Accounts by ``user``, ``class`` or any label, the dearest first.

    Raises:
        OrchestratorError: no run has this label.
    """
    if by not in (USER, CLASS) and by not in labels_of(seen):
        known = ", ".join([USER, CLASS, *labels_of(seen)])
        raise OrchestratorError(f"cost cannot be shown by {by!r}; choose from: {known}")
    totals: dict[str, Account] = defaultdict(Account)
    for item in found:
        run = seen.desired.runs[item.run]
        labels = {**run.cell.labels, **run.labels}
        key = item.user if by == USER else item.fate if by == CLASS else str(labels.get(by, "none"))
        totals[key].by_fate[item.fate] += item.seconds
    return dict(sorted(totals.items(), key=lambda pair: -pair[1].total))


def labels_of(seen: Survey) -> list[str]:
    """Labels that any run of the survey has, in the plan's order."""
    runs = seen.desired.runs.values()
    return list(dict.fromkeys(name for run in runs for name in (*run.cell.labels, *run.labels)))
