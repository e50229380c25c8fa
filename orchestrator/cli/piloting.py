"""The pilots that a study waits for, as `plan` and `sweep` see them: shown, priced, and run one round after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click
from rich.console import Console

from jobs.workspace import Workspace
from orchestrator.cli.again import to_type
from orchestrator.cli.plan_view import show_plan
from orchestrator.cli.pricing import price
from orchestrator.cli.units import hours
from orchestrator.errors import PilotUnfinished
from orchestrator.pilot_rounds import Outlook, Round, next_round, outlook
from orchestrator.planning import Prepared, commit, freeze_analysis, prepare
from sweeps.cost import Cost


@dataclass(frozen=True)
class Study:
    """A prepared study and what it waits for. ``first``: each pilot that has not chosen, its cost and what is done."""

    prepared: Prepared
    look: Outlook
    first: Sequence[tuple[Round, Cost, frozenset[str]]] = ()

    @property
    def pilot_hours(self) -> float:
        """Wall hours of the pilots' own grids; what extending them takes, nobody knows before."""
        return sum(cost.wall_hours for _, cost, _ in self.first)

    def notices(self, space: Workspace) -> list[str]:
        """What a plan says of its pilots."""
        told = [
            f"values.{name} were chosen by a pilot: {path.relative_to(space.root)} in the workspace"
            for name, path in self.look.tables.items()
        ]
        told += [
            f"values.{one.pilot} are not chosen yet: `sweep` runs {one.prepared.name} first (above). Until then the "
            "longest runs that they may ask for are assumed: prices only, nothing is trained on them"
            for one in self.look.waiting.values()
        ]
        return told

    def show(self, console: Console, verbose: bool) -> None:
        """The plans of the pilots that come first."""
        for one, cost, done in self.first:
            console.print(f"[dim]first: {one.why}[/dim]", highlight=False)
            show_plan(console, one.prepared, cost, done, verbose)
            console.print()

    def payload(self) -> dict[str, Any]:
        """For scripts."""
        return {
            "assumed": list(self.prepared.design.assumed),
            "tables": {name: str(path) for name, path in self.look.tables.items()},
            "pilots": [
                {
                    "values": one.pilot,
                    "sweep": one.prepared.name,
                    "runs": len(one.prepared.design.runs),
                    "done": len(done),
                    "hours": cost.hours,
                    "wall_hours": cost.wall_hours,
                }
                for one, cost, done in self.first
            ],
        }


def prepare_study(
    space: Workspace, file: str, overrides: Sequence[str], backend: str, max_in_flight: int | None
) -> Study:
    """The study with the tables there are, and the pilots it waits for, priced. Writes nothing."""
    look = outlook(space, file, overrides)
    prepared = prepare(space, file, overrides, look.tables)
    first = [(one, *price(space, one.prepared, backend, max_in_flight)) for one in look.waiting.values()]
    return Study(prepared, look, first)


def question(study: Study, cost: Cost) -> str:
    if not study.first:
        return f"This takes about {hours(cost.wall_hours)} on this machine. Go on?"
    pilots = ", ".join(one.prepared.name for one, _, _ in study.first)
    return (
        f"This takes about {hours(study.pilot_hours)} for {pilots} and up to {hours(cost.wall_hours)} for the study "
        "on this machine. Go on?"
    )


def run_pilots(
    space: Workspace,
    file: str,
    overrides: Sequence[str],
    backend: str,
    max_in_flight: int | None,
    console: Console,
    again: str,
) -> Mapping[str, Any]:
    """Run what the study waits for, round after round, until every table is there. Returns pilot -> table.

    Args:
        again: command that takes it up where it was.

    Raises:
        PilotUnfinished: runs of a pilot failed, so that nothing can be chosen.
    """
    from orchestrator.cli.finishing import run_to_end

    while (one := next_round(space, file, overrides)) is not None:
        name = one.prepared.name
        click.echo(f"{name}: {len(one.prepared.design.runs)} runs; it {one.why}", err=True)
        commit(space, one.prepared)
        freeze_analysis(space, one.prepared)
        limit = max_in_flight or one.prepared.design.settings.get("max_in_flight")
        run_to_end(space, name, backend, limit, console, again)
        if missing := dict(one.missing(space)):
            run, status = next(iter(missing.items()))
            told = ", ".join(str(word) for word in (status.state, status.failure, status.reason) if word)
            raise PilotUnfinished(
                f"the pilot {name} ended without {len(missing)} of its {len(one.prepared.design.runs)} runs "
                f"({run}: {told}), so that values.{one.pilot} cannot be chosen.\n"
                f"Why:         {to_type(space, 'errors', name)}\n"
                f"Mend it:     {to_type(space, 'retry', '--sweep', name)}\n"
                f"Then go on:  {again}"
            )
    tables = outlook(space, file, overrides).tables
    for name, path in tables.items():
        click.echo(f"values.{name}: {path}", err=True)
    return tables
