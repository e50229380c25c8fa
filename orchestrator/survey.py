"""All attempts of all packs of some sweeps, for the verbs that look at what has happened. Reads, never writes.

What has ended comes from this host's index where it knows it; the rest from the files. The answer is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass

from jobs.workspace import Workspace
from orchestrator.clock import host_clock
from orchestrator.desired import Desired, DesiredPack, read_desired
from orchestrator.errors import OrchestratorError
from orchestrator.history import AttemptView, read_view
from orchestrator.index import Index, views_from
from orchestrator.policy import Policy
from orchestrator.requests import Wishes
from orchestrator.verdicts import PackVerdict, judge_pack
from orchestrator.workspace_id import packs_on_disk, workspace_id


@dataclass(frozen=True)
class Surveyed:
    """A pack that was launched, or of which a person wished something. ``views`` oldest first."""

    pack: DesiredPack
    views: Sequence[AttemptView]
    verdict: PackVerdict


@dataclass(frozen=True)
class Survey:
    """Packs in the plan's order."""

    desired: Desired
    packs: Sequence[Surveyed]
    wishes: Wishes


def survey(space: Workspace, sweeps: Iterable[str] | None = None, policy: Policy | None = None) -> Survey:
    """Look at everything that was ever launched for ``sweeps`` (None: all of the workspace).

    Raises:
        OrchestratorError: a sweep has no plan.
    """
    policy = policy or Policy()
    desired = read_desired(space, sweeps)
    wishes = Wishes(space)
    wishes.refresh()
    there = packs_on_disk(space)
    known = _indexed(space)
    now = host_clock()()
    found = []
    for pack in desired.packs.values():
        views: list[AttemptView] = []
        if pack.id in there:
            views = brought_up_to_date(space, pack.id, known.get(pack.id, []), now)
        if views or any(run in wishes.of for run in pack.runs):
            found.append(Surveyed(pack, views, judge_pack(pack.runs, views, wishes.of, policy)))
    return Survey(desired, found, wishes)


def _indexed(space: Workspace) -> dict[str, list[AttemptView]]:
    try:
        index = Index(space.index, write=False, identity=workspace_id(space))
    except (FileNotFoundError, OrchestratorError):
        return {}
    with closing(index):
        return {
            pack: views_from(body["attempts"])
            for packs in (index.settled(), index.open_packs())
            for pack, body in packs
        }


def brought_up_to_date(space: Workspace, pack: str, views: list[AttemptView], now: float) -> list[AttemptView]:
    """What the index knew of a pack's attempts, with the tails of those that were open and those that came after."""
    if not views:
        return [view for place in space.attempts(pack) if (view := read_view(place, now)) is not None]
    for view in views:
        if view.live:
            view.fold(space.attempt(pack, view.number), now)
    while not views[-1].live:
        later = read_view(space.attempt(pack, views[-1].number + 1), now)
        if later is None:
            break
        views.append(later)
    return views
