"""How long the rest will take: from what was measured, and not a word where nothing was."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from jobs.facts import Closed
from jobs.workspace import Workspace
from orchestrator.board import Board
from orchestrator.desired import read_desired
from orchestrator.history import AttemptView, Pulse, RunEnd
from orchestrator.policy import Policy
from orchestrator.remaining import Pace, words, work_left
from sweeps.cost import PACK_START_S


class Desk:
    """Packs of two runs each, by hand; ``shapes[i]`` is the stack key of pack i."""

    def __init__(self, workspace: Workspace, lab: ModuleType, shapes: list[str], sizes: dict[str, Any] | None = None):
        specs = [lab.cell({"shape": shape}, [2 * n, 2 * n + 1]) for n, shape in enumerate(shapes)]
        self.packs = lab.write_plan(workspace, "s", specs, shapes=shapes)
        desired = read_desired(workspace)
        for run in desired.runs.values():
            run.cell.shape.update((sizes or {}).get(run.cell.shape["stack_key"], {}))  # type: ignore[attr-defined]
        self.board = Board(workspace, desired, Policy(probe=False), {})
        self.board.load({}, {})

    def end(self, pack: int, seconds: float) -> None:
        """Both runs have ended, each with this share of the pack's time."""
        runs = self.board.desired.packs[self.packs[pack]].runs
        ends = {run: RunEnd(True, 100, seconds) for run in runs}
        closed = Closed(time=0, by="worker", outcome="completed")
        self._put(pack, AttemptView(1, "orc", runs, claim="j", seen=0.0, finished=ends, closed=closed, over=0.0))

    def run(self, pack: int, step: int, steps: int, step_s: float | None = None) -> None:
        runs = self.board.desired.packs[self.packs[pack]].runs
        pulse = Pulse(1, step, steps, step_s)
        self._put(pack, AttemptView(1, "orc", runs, claim="j", seen=0.0, started=0.0, pulse=pulse))

    def _put(self, pack: int, view: AttemptView) -> None:
        self.board.histories[self.packs[pack]] = [view]
        self.board.touch(self.packs[pack])


def test_nothing_measured_is_nothing_said(workspace: Workspace, lab: ModuleType) -> None:
    desk = Desk(workspace, lab, ["a", "a"])
    assert work_left(desk.board) is None
    desk.run(0, 0, 100)
    assert work_left(desk.board) is None


def test_what_is_left_costs_what_its_like_have_cost(workspace: Workspace, lab: ModuleType) -> None:
    desk = Desk(workspace, lab, ["a", "a", "a"])
    desk.end(0, 30.0)
    assert work_left(desk.board) == pytest.approx(4 * 30.0 + 2 * PACK_START_S)
    desk.run(1, 75, 100)
    assert work_left(desk.board) == pytest.approx(2 * 0.25 * 30.0 + 2 * 30.0 + PACK_START_S)


def test_a_pack_that_runs_tells_how_long_its_like_will_take(workspace: Workspace, lab: ModuleType) -> None:
    desk = Desk(workspace, lab, ["a", "a"])
    desk.run(0, 50, 100, step_s=2.0)
    assert work_left(desk.board) == pytest.approx(100.0 + 200.0 + PACK_START_S)


def test_a_shape_nobody_ran_costs_its_guess_times_how_wrong_guesses_were(workspace: Workspace, lab: ModuleType) -> None:
    """b has twice the operations; a took twice its guess."""
    size = {"models": 1, "steps": 100}
    desk = Desk(
        workspace, lab, ["a", "a", "b"], {"a": size | {"flops_per_step": 1e10}, "b": size | {"flops_per_step": 2e10}}
    )
    guess = 100 * (2e-4 + 0.5)
    desk.end(0, 2 * guess)
    assert work_left(desk.board) == pytest.approx(4 * guess + 4 * 100 * (2e-4 + 1.0) + 2 * PACK_START_S)


def test_mostly_guesses_are_not_said(workspace: Workspace, lab: ModuleType) -> None:
    size = {"models": 1, "steps": 100}
    desk = Desk(
        workspace, lab, ["a", "a", "b"], {"a": size | {"flops_per_step": 1e8}, "b": size | {"flops_per_step": 2e10}}
    )
    desk.end(0, 1.0)
    assert work_left(desk.board) is None


def test_the_pace_is_how_many_packs_run_at_once(workspace: Workspace, lab: ModuleType) -> None:
    desk = Desk(workspace, lab, ["a", "a", "a", "a"])
    now = [0.0]
    pace = Pace(lambda: now[0])
    desk.end(0, 30.0)
    desk.run(1, 0, 100)
    assert pace.left(desk.board) is None  # one look is no pace
    desk.run(2, 0, 100)
    seen = None
    for _ in range(200):
        now[0] += 3.0
        seen = pace.left(desk.board)
    assert seen == pytest.approx((6 * 30.0 + PACK_START_S) / 2, rel=0.02)
    desk.end(1, 30.0)
    desk.end(2, 30.0)
    now[0] += 3.0
    assert pace.left(desk.board) is None  # nothing runs: nobody can say


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (None, ""),
        (4.0, "some seconds left"),
        (47.0, "about 50 s left"),
        (240.0, "about 4 min left"),
        (9000.0, "about 2.5 h left"),
        (400_000.0, "about 5 days left"),
    ],
)
def test_words_are_no_finer_than_the_estimate(seconds: float | None, expected: str) -> None:
    assert words(seconds) == expected
