"""How a sweep's runs went: counts, hours and what was lost, troubles, skipped pairs, verdicts on resumes."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

import orjson

from sweeps.layout import text
from sweeps.tables import Columns

STATES = ("completed", "running", "queued", "pending", "failed", "cancelled")


@dataclass(frozen=True)
class StageCost:
    """Hours of one stage, summed over runs; a packed run counts its share of the pack's wall time."""

    stage: str
    runs: int
    completed: int
    hours: float
    lost_hours: float


@dataclass(frozen=True)
class Trouble:
    """Runs that share a stage, an arm or labels, and a reason."""

    what: str
    reason: str
    runs: tuple[str, ...]
    message: str


@dataclass(frozen=True)
class Accounts:
    """What the page says about runs rather than results."""

    runs: int
    states: dict[str, int]
    stages: tuple[StageCost, ...]
    troubles: tuple[Trouble, ...]
    diverged: tuple[Trouble, ...]
    skipped: tuple[tuple[str, str], ...]
    notices: tuple[str, ...]
    resumes: int
    exact_resumes: int
    inexact: tuple[tuple[str, int], ...]
    codes: tuple[tuple[str, int], ...]

    @property
    def finished(self) -> bool:
        return all(self.states.get(state, 0) == 0 for state in ("running", "queued", "pending"))

    @property
    def hours(self) -> float:
        return sum(stage.hours for stage in self.stages)

    @property
    def lost_hours(self) -> float:
        return sum(stage.lost_hours for stage in self.stages)


def accounts(runs: Columns) -> Accounts:
    """Counts and groups over all runs of a sweep."""
    states = Counter(runs.values("state"))
    failed, diverged = _troubles(runs)
    resumes = [n or 0 for n in runs.values("resumes")]
    inexact = [verdicts or [] for verdicts in runs.values("inexact")]
    pairs = [(words(pair.get("skipped") or {}), pair.get("reason", "")) for pair in runs.plan.get("skipped", [])]
    return Accounts(
        runs=len(runs),
        states={state: states.get(state, 0) for state in STATES},
        stages=_stages(runs),
        troubles=failed,
        diverged=diverged,
        skipped=tuple(dict.fromkeys(pairs)),
        notices=tuple(str(notice) for notice in runs.plan.get("notices", [])),
        resumes=sum(resumes),
        exact_resumes=sum(n for n, verdicts in zip(resumes, inexact, strict=True) if not verdicts),
        inexact=tuple(sorted(Counter(v for verdicts in inexact for v in verdicts).items())),
        codes=tuple(sorted(Counter(code for code in runs.values("code") if code).items())),
    )


def words(labels: dict[str, Any]) -> str:
    """Labels as ``task copy, architecture relu``."""
    return ", ".join(f"{name} {text(level)}" for name, level in labels.items() if level is not None)


def _stages(runs: Columns) -> tuple[StageCost, ...]:
    rows: dict[str, list[tuple[str, float, float]]] = defaultdict(list)
    names = ("stage", "state", "seconds", "lost_seconds")
    for stage, state, seconds, lost in zip(*map(runs.values, names), strict=True):
        rows[stage or "runs"].append((state, seconds or 0.0, lost or 0.0))
    return tuple(
        StageCost(
            stage,
            len(found),
            sum(state == "completed" for state, _, _ in found),
            sum(seconds for _, seconds, _ in found) / 3600,
            sum(lost for _, _, lost in found) / 3600,
        )
        for stage, found in rows.items()
    )


def _troubles(runs: Columns) -> tuple[tuple[Trouble, ...], tuple[Trouble, ...]]:
    """Runs that failed or were cancelled, grouped, and those that diverged apart from them."""
    groups: dict[tuple[str, str, bool], list[tuple[str, str]]] = {}
    names = ("run", "stage", "labels", "state", "reason", "failure", "message")
    for run, stage, labels, state, reason, failure, message in zip(*map(runs.values, names), strict=True):
        if state not in ("failed", "cancelled"):
            continue
        found = {k: v for k, v in orjson.loads(labels).items() if k != "search_seed"}
        key = f"{stage}: {words(found)}", reason or state, failure == "diverged"
        groups.setdefault(key, []).append((run, message or ""))
    made = {
        key: Trouble(key[0], key[1], tuple(run for run, _ in members), next((m for _, m in members if m), ""))
        for key, members in groups.items()
    }
    return (
        tuple(t for key, t in made.items() if not key[2]),
        tuple(t for key, t in made.items() if key[2]),
    )
