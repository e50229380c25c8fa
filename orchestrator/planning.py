"""From a sweep file to the desired state on disk: load, expand, leave started packs alone, write, freeze."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jobs.durable import decide_file, read_json, replace_file
from jobs.workspace import Workspace
from orchestrator.collector import collector_paused
from orchestrator.desired import plan_digest, sweep_names
from orchestrator.errors import OrchestratorError
from orchestrator.workspace_id import ensure_workspace_id
from sweeps.design import Design, PackPlan
from sweeps.pack import assign
from sweeps.plan_file import digest_of, plan_bytes, read_plan
from sweeps.read_design import read_design


@dataclass(frozen=True)
class Prepared:
    """A design that is ready to be written.

    Attributes:
        content: of ``plan.jsonl``.
        changed: the plan on disk is another one (or there is none).
        unlisted: runs of the plan on disk that this one no longer lists. They are not cancelled.
    """

    design: Design
    content: bytes = field(repr=False)
    changed: bool
    unlisted: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.design.name


@collector_paused()
def prepare(
    space: Workspace, source: str, overrides: Sequence[str] = (), tables: Mapping[str, Path] | None = None
) -> Prepared:
    """Load and expand ``source``; writes nothing.

    Args:
        tables: pilot -> table that was chosen from it (``orchestrator.pilot_rounds``).

    Raises:
        SweepError: every mistake in the file and the overrides.
    """
    design = read_design(source, overrides, tables=tables)
    old = plan_digest(space, design.name)
    content = plan_bytes(design)
    if _digest(content) == old:
        return Prepared(design, content, changed=False)  # nothing to look for: it was all said before
    carried = _carriers(space, design)
    if carried:
        design = assign(design, carried)
        content = plan_bytes(design)
    unlisted: tuple[str, ...] = ()
    changed = _digest(content) != old
    if changed and old is not None:
        listed = {run.id for run in design.runs}
        with open(space.plan(design.name), "rb") as file:
            unlisted = tuple(run for run in read_plan(file).runs if run not in listed)
    return Prepared(design, content, changed, unlisted)


def _carriers(space: Workspace, design: Design) -> dict[str, PackPlan]:
    """Run -> pack, for packs that must stay as they are: other sweeps' packs, and all that have been launched.

    A plan that was replaced still says what its packs hold, so a run that was once paid for is found again.
    """
    wanted = {run.id for run in design.runs}
    found: dict[str, PackPlan] = {}
    for pack in _packs_on_disk(space, design.name):
        if not wanted.isdisjoint(pack.runs):
            found.update({run: pack for run in pack.runs if run in wanted and run not in found})
    return found


def _packs_on_disk(space: Workspace, name: str) -> Iterable[PackPlan]:
    started: dict[str, bool] = {}
    names = sweep_names(space)
    # This sweep's own plan first: a run that two plans carry stays where it is.
    for sweep in sorted(names, key=lambda other: other != name):
        for path in (space.plan(sweep), *sorted(space.plan_history(sweep).glob("*.jsonl"))):
            fixed = sweep != name and path == space.plan(sweep)
            with open(path, "rb") as file:
                for pack in read_plan(file).packs.values():
                    if pack.id not in started:
                        started[pack.id] = bool(space.attempts(pack.id))
                    if fixed or started[pack.id]:
                        yield pack


def commit(space: Workspace, prepared: Prepared) -> None:
    """Write the plan, keeping the one it replaces. The same plan again writes nothing.

    Raises:
        OrchestratorError: some of its values are assumed: a pilot has not chosen them yet.
    """
    if prepared.design.assumed:
        names = ", ".join(f"values.{name}" for name in prepared.design.assumed)
        raise OrchestratorError(f"{prepared.name} cannot be launched: no pilot has chosen its {names} yet")
    path = space.plan(prepared.name)
    if not prepared.changed:
        return
    ensure_workspace_id(space)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        history = space.plan_history(prepared.name)
        history.mkdir(exist_ok=True)
        old = path.read_bytes()
        replace_file(history / f"{(_digest(old) or 'unknown')[:15]}.jsonl", old)
    replace_file(path, prepared.content)


def _digest(content: bytes) -> str | None:
    return digest_of(content[: content.find(b"\n") + 1])  # a partition would copy the hundred thousand other lines


def freeze_analysis(space: Workspace, prepared: Prepared) -> bool:
    """Freeze the analysis block at first launch; the first one stands.

    Returns:
        True if the plan's block is the frozen one; a report that uses another is exploratory.
    """
    path = space.frozen(prepared.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        decide_file(path, prepared.design.analysis)
    return read_json(path) == dict(prepared.design.analysis)
