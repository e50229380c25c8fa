"""What the files of a sweep say afterwards: what was lost, what was done twice, what it took. Pure reading.

*Steps* here are steps of one run. An attempt that was killed does not say how far it had come; its last heartbeat is
the least it had done, and the next checkpoint it did not make the most. So what is said of repeated steps is a pair.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import orjson

from jobs.durable import read_log
from jobs.facts import Checkpointed, Closed, Fact, Finished, Started, read_claimed, read_closed, read_facts
from jobs.facts import read_heartbeat as read_beat
from jobs.launch import read_launch
from jobs.workspace import AttemptDir, Workspace


@dataclass(frozen=True)
class Plan:
    """Packs of a sweep: pack -> runs, run -> its last step, and how many steps lie between two checkpoints."""

    packs: Mapping[str, Sequence[str]]
    steps: Mapping[str, int]
    interval: int

    @staticmethod
    def read(workspace: Workspace, sweep: str) -> Plan:
        lines = [orjson.loads(line) for line in workspace.plan(sweep).read_bytes().splitlines()]
        cells = {line["cell"]: line["config"]["steps"] for line in lines if "config" in line}
        packs = [line for line in lines if "pack" in line]
        return Plan(
            {line["pack"]: line["runs"] for line in packs},
            {line["run"]: cells[line["cell"]] for line in lines if "run" in line},
            packs[0]["execution"]["checkpoint_steps"],
        )


@dataclass
class Attempt:
    """One attempt, as far as its files count."""

    place: AttemptDir
    carried: tuple[str, ...]
    job: str
    closed: Closed | None
    facts: Sequence[Fact]
    ignored: int
    """Facts that were written after somebody else had closed it: two copies were alive."""
    first: int | None
    """Step at which it began, None where it never came so far."""
    kept: int
    least: int
    most: int

    @staticmethod
    def read(place: AttemptDir, plan: Plan) -> Attempt:
        launch = read_launch(place.launch)
        claimed, closed = read_claimed(place.claimed), read_closed(place.closed)
        facts, _ = read_facts(place.facts, 0, closed.facts_bytes if closed else None)
        everything, _ = read_facts(place.facts)
        carried = tuple(member.run for member in launch.members if not member.done)
        first = next((fact.step for fact in facts if isinstance(fact, Started)), None)
        ends = [fact.step for fact in facts if isinstance(fact, Finished)]
        kept = max([first or 0, *(fact.step for fact in facts if isinstance(fact, Checkpointed))])
        beat = read_beat(place.heartbeat)
        least = max([kept, *ends, beat.step if beat is not None else 0])
        most = least
        if closed is not None and "reached" in closed.evidence:
            least = most = int(closed.evidence["reached"])
        elif first is not None and (closed is None or closed.outcome != "completed"):
            last = max((plan.steps[run] for run in carried), default=0)
            most = max(least, min((kept // plan.interval + 1) * plan.interval, last))
        job = claimed.job if claimed is not None else ""
        return Attempt(place, carried, job, closed, facts, len(everything) - len(facts), first, kept, least, most)

    @property
    def how(self) -> str:
        """Its class in one word."""
        if self.closed is None:
            return "open"
        return str(self.closed.failure or self.closed.outcome)


@dataclass
class Tally:
    """See the attributes; lists hold one line a case, for a person to read."""

    runs: int = 0
    attempts: Counter[str] = field(default_factory=Counter)
    finished: Counter[str] = field(default_factory=Counter)
    """Run -> completed facts that count."""
    lost: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    """Runs that finished twice, attempts that began twice, finished members that were trained again."""
    too_far_back: list[str] = field(default_factory=list)
    """Attempts that went back behind a checkpoint which its predecessor had made: more than an interval is repeated."""
    ignored: int = 0
    useful: int = 0
    again_least: int = 0
    again_most: int = 0
    worst_run: int = 0
    """Most steps that one run repeated (upper bound)."""
    interruptions: int = 0
    not_exact: int = 0
    checkpoints_before_end: int = 0
    """Of the run that had fewest."""


def attempts_of(workspace: Workspace, pack: str, plan: Plan) -> list[Attempt]:
    """Launched attempts, oldest first."""
    places = [place for place in workspace.attempts(pack) if place.launch.exists()]
    return [Attempt.read(place, plan) for place in places]


def count(workspace: Workspace, plan: Plan) -> Tally:
    """Everything about one sweep."""
    tally = Tally(runs=len(plan.steps), useful=sum(plan.steps.values()))
    again: Counter[str] = Counter()
    fewest: list[int] = []
    for pack, runs in plan.packs.items():
        attempts = attempts_of(workspace, pack, plan)
        tally.attempts.update(attempt.how for attempt in attempts)
        tally.ignored += sum(attempt.ignored for attempt in attempts)
        tally.interruptions += sum(a.closed is None or a.closed.outcome != "completed" for a in attempts)
        _count_ends(tally, pack, runs, attempts)
        _count_again(tally, again, attempts, plan)
        saved = {fact.step for a in attempts for fact in a.facts if isinstance(fact, Checkpointed)}
        fewest += [sum(step < plan.steps[run] for step in saved) for run in runs]
    tally.worst_run = max(again.values(), default=0)
    tally.checkpoints_before_end = min(fewest, default=0)
    return tally


def _count_ends(tally: Tally, pack: str, runs: Sequence[str], attempts: Sequence[Attempt]) -> None:
    done: set[str] = set()
    for attempt in attempts:
        name = f"{pack}/{attempt.place.path.name}"
        if sum(isinstance(fact, Started) for fact in attempt.facts) > 1:
            tally.twice.append(f"{name} was begun twice")
        if again := done & set(attempt.carried):
            tally.twice.append(f"{name} trains {len(again)} runs that had finished before: {min(again)}")
        for fact in attempt.facts:
            if isinstance(fact, Finished) and fact.status == "completed":
                tally.finished[fact.run] += 1
                done.add(fact.run)
            tally.not_exact += isinstance(fact, Finished) and bool(fact.exact)
    tally.lost += [f"{pack}: {run}" for run in runs if run not in done]
    tally.twice += [f"{pack}: {run} finished {n} times" for run in runs if (n := tally.finished[run]) > 1]


def _count_again(tally: Tally, again: Counter[str], attempts: Sequence[Attempt], plan: Plan) -> None:
    begun = [attempt for attempt in attempts if attempt.first is not None]
    for before, after in pairwise(begun):
        assert after.first is not None
        if after.first < before.kept:
            name = f"{after.place.pack}/{after.place.path.name}"
            tally.too_far_back.append(f"{name} goes on from {after.first}, its predecessor had saved {before.kept}")
        for run in after.carried:
            last = plan.steps[run]
            tally.again_least += max(0, min(before.least, last) - after.first)
            most = max(0, min(before.most, last) - after.first)
            tally.again_most += most
            again[run] += most


# What came out


def results(workspace: Workspace, plan: Plan) -> dict[str, str]:
    """Run -> everything it reported that is not a time: its summary and its curve, as one canonical text."""
    found: dict[str, str] = {}
    for pack in plan.packs:
        attempts = attempts_of(workspace, pack, plan)
        rows = _curves(attempts)
        for attempt in attempts:
            for fact in attempt.facts:
                if isinstance(fact, Finished) and fact.run not in found:
                    value: dict[str, Any] = {"summary": fact.summary, "status": fact.status, "step": fact.step}
                    value["curve"] = [rows[fact.run][step] for step in sorted(rows.get(fact.run, {}))]
                    found[fact.run] = orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    return found


def _curves(attempts: Sequence[Attempt]) -> dict[str, dict[int, dict[str, Any]]]:
    """Run -> step -> row; a later attempt's rows win from its first step on."""
    curves: dict[str, dict[int, dict[str, Any]]] = {}
    for attempt in attempts:
        rows, _ = read_log(attempt.place.metrics)
        if attempt.first is not None:
            for run in attempt.carried:
                curves[run] = {step: row for step, row in curves.get(run, {}).items() if step <= attempt.first}
        for row in rows:
            if row["run"] in attempt.carried:
                curves.setdefault(row["run"], {})[row["step"]] = row
    return curves


def differing(here: Mapping[str, str], there: Mapping[str, str]) -> Iterator[str]:
    """Runs that have a result in both and not the same one."""
    return (run for run in here if run in there and here[run] != there[run])


def differing_weights(
    here: Mapping[tuple[str, int], set[str]], there: Mapping[tuple[str, int], set[str]], first_end: int
) -> tuple[int, list[str]]:
    """How many checkpoints were seen on both sides, and those whose bytes differ, or differ between two attempts.

    Only those before the first member's end (``first_end``): after it, a resumed pack keeps a finished member's lanes
    as they were when it was resumed, and nobody reads them.
    """
    both = [key for key in here if key in there and key[1] < first_end]
    return len(both), [f"{pack} at step {step}" for pack, step in both if len(here[pack, step] | there[pack, step]) > 1]


def story(workspace: Workspace, plan: Plan, packs: Sequence[str]) -> Iterator[str]:
    """What happened to some packs, a line an attempt."""
    for pack in packs:
        for attempt in attempts_of(workspace, pack, plan):
            closed = attempt.closed
            how = f"{closed.by} says {closed.outcome} {closed.failure or ''}: {closed.message}" if closed else "open"
            exit = attempt.place.exit
            ended = exit.read_text() if exit.exists() else "no exit record"
            name = f"{pack}/{attempt.place.path.name}"
            yield f"{name}: {attempt.job or 'unclaimed'}, {attempt.first}..{attempt.least}: {how}; {ended}"
