"""What should exist: the plan files of one, several or all sweeps, read fast and unchecked (the planner checked)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from jobs.durable import read_json, read_log
from jobs.spec import InputRef
from jobs.workspace import Workspace
from orchestrator.errors import OrchestratorError


@dataclass(frozen=True, slots=True)
class Cell:
    """What the runs of one cell share."""

    runner: str
    config: Mapping[str, Any]
    labels: Mapping[str, Any]
    shape: Mapping[str, Any]
    stage: str


@dataclass(frozen=True, slots=True)
class DesiredRun:
    id: str
    cell: Cell
    seed: int
    inputs: Mapping[str, InputRef]
    labels: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DesiredPack:
    """Runs carried together. ``shape`` is equal for packs whose programs are alike: one of them goes first."""

    id: str
    runs: tuple[str, ...]
    needs: frozenset[str]
    """Runs whose products the members consume."""
    resources: Mapping[str, Any]
    execution: Mapping[str, Any]
    shape: str
    order: tuple[int, str]
    sweep: str


@dataclass
class Desired:
    """Plans by id. Packs lie in the order in which they are to be launched: seed-major as the planner numbered them,
    sweeps side by side."""

    runs: dict[str, DesiredRun] = field(default_factory=dict)
    packs: dict[str, DesiredPack] = field(default_factory=dict)
    pack_of: dict[str, str] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    """Sweep -> digest of the plan that was read."""
    packs_of: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Sweep -> its packs; one pack may belong to several."""
    runs_of: dict[str, frozenset[str]] = field(default_factory=dict)
    sweeps_of: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Run -> the sweeps that list it."""


def sweep_names(workspace: Workspace) -> list[str]:
    """Sweeps that have a plan, by name."""
    try:
        return sorted(entry.name for entry in workspace.sweeps.iterdir() if workspace.plan(entry.name).exists())
    except FileNotFoundError:
        return []


def plan_digest(workspace: Workspace, sweep: str) -> str | None:
    """Digest in the head of a plan, without reading the rest; None where there is no plan."""
    try:
        with open(workspace.plan(sweep), "rb") as file:
            return orjson.loads(file.readline())["digest"]
    except FileNotFoundError:
        return None


def read_desired(workspace: Workspace, sweeps: Iterable[str] | None = None) -> Desired:
    """Read plans; all of the workspace's where ``sweeps`` is None.

    Raises:
        OrchestratorError: a named sweep has no plan, or a pack has a member that no plan describes.
    """
    known = sweep_names(workspace)
    names = known if sweeps is None else list(sweeps)
    desired = Desired()
    packs: list[DesiredPack] = []
    foreign: list[tuple[str, Mapping[str, Any]]] = []
    for name in names:
        for record in _read_plan(workspace, name, desired):
            if all(run in desired.runs for run in record["runs"]):
                packs.append(_pack(record, name, desired))
            else:
                foreign.append((name, record))
    if foreign:
        # A pack that was planned before, here or elsewhere: its other members stand in that plan only.
        others = Desired()
        for name in known:
            if name not in desired.digests:
                _read_plan(workspace, name, others)
            for path in sorted(workspace.plan_history(name).glob("*.jsonl")):
                _take_up(read_log(path)[0], name, others)
        for name, record in foreign:
            for run in record["runs"]:
                if run not in desired.runs:
                    desired.runs[run] = others.runs.get(run) or _from_launch(workspace, name, record["pack"], run)
            packs.append(_pack(record, name, desired))
    packs.sort(key=lambda pack: pack.order)
    for pack in packs:
        if pack.id not in desired.packs:
            desired.packs[pack.id] = pack
            desired.pack_of.update(dict.fromkeys(pack.runs, pack.id))
    return desired


def _read_plan(workspace: Workspace, sweep: str, into: Desired) -> list[Mapping[str, Any]]:
    """Take a plan's runs up; returns its pack lines."""
    records, _ = read_log(workspace.plan(sweep))
    if not records:
        raise OrchestratorError(
            f"{workspace.plan(sweep)} does not exist or is empty: there is no sweep {sweep!r}; "
            f"`orchestrate sweep FILE` plans one"
        )
    into.digests[sweep] = records[0].get("digest", "")
    packs, own = _take_up(records, sweep, into)
    into.packs_of[sweep] = tuple(record["pack"] for record in packs)
    into.runs_of[sweep] = frozenset(own)
    return packs


def _take_up(
    records: Iterable[Mapping[str, Any]], sweep: str, into: Desired
) -> tuple[list[Mapping[str, Any]], list[str]]:
    """Pack lines and runs of a plan; the runs go into ``into``, where they are not known already."""
    cells: dict[int, Cell] = {}
    packs: list[Mapping[str, Any]] = []
    own: list[str] = []
    for record in records:
        if "run" in record:
            inputs = {name: InputRef(**ref) for name, ref in record.get("inputs", {}).items()}
            run = DesiredRun(record["run"], cells[record["cell"]], record["seed"], inputs, record.get("labels", {}))
            into.runs.setdefault(run.id, run)
            own.append(run.id)
            into.sweeps_of[run.id] = (*into.sweeps_of.get(run.id, ()), sweep)
        elif "pack" in record:
            packs.append(record)
        elif "cell" in record:
            cells[record["cell"]] = Cell(
                record["runner"],
                record["config"],
                record.get("labels", {}),
                record.get("shape", {}),
                record.get("stage", ""),
            )
    return packs, own


def _from_launch(workspace: Workspace, sweep: str, pack: str, run: str) -> DesiredRun:
    """A member whose plan is lost, as its pack's newest launch describes it."""
    for place in reversed(workspace.attempts(pack)):
        record = read_json(place.launch)
        for member in (record or {}).get("members", ()):
            if record is not None and member["run"] == run:
                config = record["configs"][member["config"]]
                inputs = {name: InputRef(i["run"], i["product"]) for name, i in member.get("inputs", {}).items()}
                return DesiredRun(run, Cell(record["runner"], config, {}, {}, ""), member["seed"], inputs, {})
    raise OrchestratorError(
        f"{workspace.plan(sweep)}: pack {pack} carries {run}, which no plan of this workspace describes; "
        f"plan the sweep again"
    )


def _pack(record: Mapping[str, Any], sweep: str, desired: Desired) -> DesiredPack:
    members = [desired.runs[run] for run in record["runs"]]
    cell = next((member.cell for member in members if member.cell.shape), members[0].cell)
    resources = record.get("resources") or {}
    return DesiredPack(
        id=record["pack"],
        runs=tuple(record["runs"]),
        needs=frozenset(ref.run for member in members for ref in member.inputs.values()),
        resources=resources,
        execution=record.get("execution") or {},
        shape=f"{cell.runner}|{cell.shape.get('stack_key', '')}|{len(members)}|{sorted(resources.items())}",
        order=(record.get("order", 0), sweep),
        sweep=sweep,
    )
