"""How far the pilots of a study are: the tables that were chosen, and the sweep that must be run next.

Nothing is remembered but the pilots' own runs and the tables made from them: killed at any moment, the same question
gets the same answer, and what was run is not run again.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jobs.durable import replace_file
from jobs.facts import FailureClass
from jobs.identity import canonical_json
from jobs.state import RunState, RunStatus, read_attempt, run_states
from jobs.workspace import Workspace
from orchestrator.planning import Prepared, prepare
from sweeps.design import Design
from sweeps.errors import Problem, SweepError
from sweeps.load import Sweep, load_sweep
from sweeps.pilots import first_round, further_round, pilot_file
from sweeps.rate_table import rates_yaml
from sweeps.rates import choose, extensions
from sweeps.schema import Pilot
from sweeps.tree import origin_of


@dataclass(frozen=True)
class Round:
    """A sweep that a choice waits for.

    Attributes:
        pilot: name of the values that it chooses.
        why: what it is for, in words.
    """

    pilot: str
    prepared: Prepared
    why: str

    def over(self, space: Workspace) -> bool:
        """Every run has completed, or diverged."""
        return next(self.missing(space), None) is None

    def missing(self, space: Workspace) -> Iterator[tuple[str, RunStatus]]:
        """Runs that have neither completed nor diverged, as their files have them."""
        wanted = {run.id for run in self.prepared.design.runs}
        for pack in self.prepared.design.packs:
            attempts = [read_attempt(place) for place in space.attempts(pack.id) if place.launch.exists()]
            for run, status in run_states(pack.runs, attempts).items():
                if run in wanted and status.state != RunState.COMPLETED and status.failure != FailureClass.DIVERGED:
                    yield run, status


@dataclass(frozen=True)
class Outlook:
    """Where the pilots of a study stand.

    Attributes:
        tables: pilot -> the table that was chosen from it.
        waiting: pilot -> its first round, where there is no table yet.
    """

    tables: Mapping[str, Path] = field(default_factory=dict)
    waiting: Mapping[str, Round] = field(default_factory=dict)


def outlook(space: Workspace, source: str, overrides: Sequence[str]) -> Outlook:
    """Which tables there are. Writes nothing.

    Raises:
        SweepError: mistakes of the study or of a pilot.
    """
    tables: dict[str, Path] = {}
    waiting: dict[str, Round] = {}
    for name, pilot, first in _pilots(space, source, overrides):
        path = _table(space, pilot, first.prepared.design)
        if path.exists():
            tables[name] = path
        else:
            waiting[name] = first
    return Outlook(tables, waiting)


def next_round(space: Workspace, source: str, overrides: Sequence[str]) -> Round | None:
    """The sweep to run next; None when every table is there. Tables that can be made are made.

    Raises:
        SweepError: mistakes of the study or of a pilot; no rate can be chosen.
    """
    for name, pilot, first in _pilots(space, source, overrides):
        path = _table(space, pilot, first.prepared.design)
        if not path.exists() and (missing := _advance(space, name, pilot, first, path)) is not None:
            return missing
    return None


def _pilots(space: Workspace, source: str, overrides: Sequence[str]) -> Iterator[tuple[str, Pilot, Round]]:
    """Each pilot of a study with its first round."""
    try:
        study = load_sweep(source, overrides)
    except SweepError:
        return  # whoever reads the study tells all its mistakes at once
    for name, pilot in study.file.pilots.items():
        if pilot is not None:
            yield name, pilot, _first(space, study, name, pilot)


def _first(space: Workspace, study: Sweep, name: str, pilot: Pilot) -> Round:
    only = study.file.only.get(pilot.column)
    prepared = prepare(space, str(pilot_file(pilot)), first_round(pilot, only))
    if only is not None:
        # Named apart: the pilot of a part of the study must not take the place of the whole one's plan.
        own = f"name={_fitting(prepared.name, _digest(pilot, prepared.design))}"
        prepared = prepare(space, str(pilot_file(pilot)), (*first_round(pilot, only), own))
    _refuse_shared_seeds(study, name, prepared.design)
    return Round(name, prepared, f"chooses values.{name} for {study.file.name}")


def _refuse_shared_seeds(study: Sweep, name: str, design: Design) -> None:
    """What was chosen on a seed must not be judged on it."""
    stages = study.file.all_stages().values()
    used = {seed for stage in stages for seed in (stage.seeds or study.file.seeds).values}
    if shared := sorted(used & {run.spec.seed for run in design.runs}):
        message = f"seeds {', '.join(map(str, shared))} of pilot {design.name} are seeds of {study.file.name} too"
        _, origin = origin_of(study.origins, ("pilots", name))
        told = f"{message}; choose others for one of them"
        raise SweepError([Problem(f"pilots.{name}", told, origin.file, origin.line)])


def _advance(space: Workspace, name: str, pilot: Pilot, first: Round, path: Path) -> Round | None:
    """Extend the grid as often as the rule asks for and the file allows; then write the table."""
    from orchestrator.pilot import pilot_rows  # reads tables: a plan need not wait for pyarrow

    rounds = [first]
    names: list[str] = []
    for number in range(pilot.rounds + 1):
        for one in rounds:
            if not one.over(space):
                return one
            names.append(one.prepared.name)
        rows, chance = pilot_rows(space, names, column=pilot.column, factor=pilot.factor)
        wanted = extensions(rows)
        if not wanted or number == pilot.rounds:
            command = rates_command(names, pilot)
            text = rates_yaml(choose(rows, chance, clip=pilot.clip), command, pilot.size, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, text.encode())
            return None
        rounds = list(_extended(space, first, pilot, number + 1, wanted))
    raise AssertionError("the last round makes the table")


def _extended(
    space: Workspace, first: Round, pilot: Pilot, number: int, wanted: Mapping[str, Sequence[float]]
) -> Iterator[Round]:
    """One sweep for all levels that are extended by the same rates."""
    for name, levels, rates in _further(first.prepared.name, number, wanted):
        prepared = prepare(space, str(pilot_file(pilot)), further_round(pilot, name, levels, rates))
        yield Round(first.pilot, prepared, f"extends the grid of {', '.join(levels)}, whose choice lies at its edge")


def _further(
    pilot: str, number: int, wanted: Mapping[str, Sequence[float]]
) -> Iterator[tuple[str, list[str], tuple[float, ...]]]:
    """(name of its sweep, levels, rates) of each sweep of an extension."""
    together: dict[tuple[float, ...], list[str]] = defaultdict(list)
    for level, rates in wanted.items():
        together[tuple(rates)].append(level)
    for place, (rates, levels) in enumerate(sorted(together.items())):
        suffix = f"x{number}" + ("abcdefghij"[place] if len(together) > 1 else "")
        yield _fitting(pilot, suffix), levels, rates


def extending_commands(
    space: Workspace, names: Sequence[str], pilot: Pilot, wanted: Mapping[str, Sequence[float]]
) -> Iterator[tuple[str, ...]]:
    """What a person types to extend the grid of a pilot that was run by hand, word by word. ``names``: its sweeps so
    far."""
    from orchestrator.gather.parquet import load_plan

    source = load_plan(space, names[0]).header["source"]
    preset = [f"preset={source['preset']}"] if source["preset"] else []
    by_hand = Pilot(**{**pilot.model_dump(), "overrides": (*preset, *source["overrides"])})
    for name, levels, rates in _further(names[0], len(names), wanted):
        yield ("sweep", source["file"], *further_round(by_hand, name, levels, rates))


def rates_command(names: Sequence[str], pilot: Pilot) -> str:
    """What a person types to make the same table from the same runs."""
    other = [f"--{key} {value}" for key, value in (("column", pilot.column), ("factor", pilot.factor))]
    told = [text for text in other if text not in ("--column task", "--factor lr")]
    clip = f"--clip {pilot.clip[0]} {pilot.clip[1]}"
    return " ".join(["orchestrate rates", *names, *told, "--size", pilot.size, clip])


def _table(space: Workspace, pilot: Pilot, design: Design) -> Path:
    return space.rates_table(design.name, _digest(pilot, design))


def _digest(pilot: Pilot, design: Design) -> str:
    """Of the runs of the first round and of how the rule is applied: another pilot makes another table."""
    how = pilot.model_dump(mode="json", include={"rule", "column", "factor", "clip", "rounds"})
    return hashlib.sha256(canonical_json([sorted(run.id for run in design.runs), how])).hexdigest()[:8]


def _fitting(name: str, suffix: str) -> str:
    """A sweep's name has at most 60 characters."""
    return f"{name[: 59 - len(suffix)]}-{suffix}"
