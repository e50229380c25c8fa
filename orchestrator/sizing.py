"""What each attempt asks for: what its plan says, the time that earlier ones took, more memory after it ran out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from cluster.backend import Resources
from jobs.durable import read_json
from jobs.facts import FailureClass
from jobs.workspace import Workspace
from orchestrator.board import Board
from orchestrator.calibration import PACKS_PER_SHAPE, Measured, joined, measure_pack, measured
from orchestrator.desired import Desired, DesiredPack
from orchestrator.history import AttemptView
from orchestrator.launching import resources_of
from orchestrator.needs import Memory, Work, memory_of, needs_of
from orchestrator.requests import Wish


def stack_key(desired: Desired, pack: DesiredPack) -> str:
    """What programs must share to run at one speed; "" where the plan does not say."""
    keys = (desired.runs[run].cell.shape.get("stack_key", "") for run in pack.runs)
    return next((str(key) for key in keys if key), "")


def models_of(desired: Desired, runs: Iterable[str]) -> dict[str, int]:
    """Run -> models that it trains side by side."""
    return {run: int(desired.runs[run].cell.shape.get("models", 1)) for run in runs}


def work_of(desired: Desired, runs: Collection[str], step: int) -> Work:
    """What is left of ``runs``, which go on at ``step``."""
    last = max((int(desired.runs[run].cell.shape.get("steps", 0)) for run in runs), default=0)
    return Work(max(0, last - step), max(1, sum(models_of(desired, runs).values())))


def memory_after(
    space: Workspace, pack: DesiredPack, views: Sequence[AttemptView], site_mb: int | None = None
) -> Memory | None:
    """See ``memory_of``. A worker closes its attempt before its shim leaves a record, so that is looked for again."""
    for view in views:
        if view.ended is None and view.closed is not None and view.closed.failure is FailureClass.OUT_OF_MEMORY:
            view.ended = read_json(space.attempt(pack.id, view.number).exit)
    return memory_of(pack.resources, views, site_mb)


class Sizing:
    """Remembers for one loop what it has measured.

    Args:
        timed: the backend has time limits to propose.
        site_mb: memory that is asked for where a plan names none.
    """

    def __init__(self, space: Workspace, *, timed: bool, site_mb: int | None = None) -> None:
        self._space = space
        self._timed = timed
        self._site_mb = site_mb
        self._known: dict[str, Measured] = {}
        self._looked: dict[str, int] = {}
        """Key -> how much had happened when it was looked for in vain."""
        self._elsewhere: dict[str, Measured] | None = None
        self._said: dict[tuple[str, int, tuple[str, ...]], Resources] = {}

    def resources(self, pack: DesiredPack, view: AttemptView, board: Board, avoid: Sequence[str] = ()) -> Resources:
        """What an attempt asks for; the same however often it is handed over. ``avoid``: see ``resources_of``."""
        key = pack.id, view.number, tuple(avoid)
        if key not in self._said:
            self._said[key] = self._resources(pack, view, board, avoid)
        return self._said[key]

    def _resources(self, pack: DesiredPack, view: AttemptView, board: Board, avoid: Sequence[str]) -> Resources:
        asked = resources_of(pack, avoid)
        before = [one for one in board.histories.get(pack.id, ()) if one.number < view.number]
        memory = memory_after(self._space, pack, before, self._site_mb)
        if memory is not None:
            asked = replace(asked, memory_mb=memory.allowed_mb)
        if not self._timed:
            return asked
        work = work_of(board.desired, view.carried, _resumes_at(pack, before, board.wishes))
        return replace(asked, needs=needs_of(self._measured(pack, before, board), work, pack.execution))

    def _measured(self, pack: DesiredPack, before: Sequence[AttemptView], board: Board) -> Measured | None:
        """By its own attempts and those of packs like it."""
        key = stack_key(board.desired, pack)
        if not key:
            return None
        found = []
        if any(view.started is not None for view in before):
            own = measure_pack(self._space, pack.id, models_of(board.desired, pack.runs))
            found += [own] if own is not None else []
        news = len(board.ended) + len(board.proven)
        if key not in self._known and self._looked.get(key) != news:
            self._looked[key] = news
            if others := list(self._search(key, board)):
                self._known[key] = joined(others)
        found += [self._known[key]] if key in self._known else []
        return joined(found) if found else None

    def _search(self, key: str, board: Board) -> Iterator[Measured]:
        """A few packs of a key: of the sweeps at hand, else of any other of the workspace (looked at once)."""
        desired, count = board.desired, 0
        for id in (*board.histories, *board.settled):
            if count < PACKS_PER_SHAPE and stack_key(desired, desired.packs[id]) == key:
                one = measure_pack(self._space, id, models_of(desired, desired.packs[id].runs))
                if one is not None and one.rate_s is not None:
                    count += 1
                    yield one
        if not count:
            if self._elsewhere is None:
                self._elsewhere = measured(self._space, {stack_key(desired, one) for one in desired.packs.values()})
            if key in self._elsewhere:
                yield self._elsewhere[key]


def _resumes_at(pack: DesiredPack, before: Sequence[AttemptView], wishes: Mapping[str, Wish]) -> int:
    """The newest checkpoint that a next attempt may go on with, as far as attempts tell; 0 for none."""
    fresh = [w.attempt for run in pack.runs if (w := wishes.get(run)) is not None and w.kind == "retry" and w.fresh]
    return max(
        (v.checkpoint for v in before if v.checkpoint is not None and v.number > max(fresh, default=0)), default=0
    )
