"""Plans on disk: written once, kept when replaced, and never a reason to run anything twice."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from jobs.durable import decide_file
from jobs.workspace import Workspace
from orchestrator.desired import read_desired
from orchestrator.errors import OrchestratorError
from orchestrator.planning import commit, freeze_analysis, prepare


@pytest.fixture
def space(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "ws")


def sweep_file(folder: Path, name: str, values: list[int], **more: object) -> str:
    content = {
        "name": name,
        "runner": "toy",
        "factors": {"steps": {"path": "steps", "values": values}},
        "seeds": 2,
        "pack": {"by": [], "max": 8},
        **more,
    }
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(content))
    return str(path)


def launch_first(space: Workspace, pack: str) -> None:
    place = space.attempt(pack, 1)
    place.path.mkdir(parents=True)
    decide_file(place.launch, {})


def test_the_same_plan_again_writes_nothing(space: Workspace, tmp_path: Path) -> None:
    file = sweep_file(tmp_path, "one", [1, 2])
    first = prepare(space, file)
    assert first.changed
    commit(space, first)
    stamp = space.plan("one").stat()
    again = prepare(space, file)
    assert not again.changed
    commit(space, again)
    assert space.plan("one").stat() == stamp


def test_8_05_a_removed_line_cancels_nothing_and_is_named(space: Workspace, tmp_path: Path) -> None:
    commit(space, prepare(space, sweep_file(tmp_path, "one", [1, 2])))
    less = prepare(space, sweep_file(tmp_path, "one", [1]))
    assert len(less.unlisted) == 2
    assert not space.requests.exists()


def test_a_replaced_plan_still_says_what_its_packs_hold(space: Workspace, tmp_path: Path) -> None:
    """Remove a column, plan, add it again: the run that was paid for is found, not planned into another pack."""
    file = sweep_file(tmp_path, "one", [1, 2])
    before = prepare(space, file)
    (pack,) = before.design.packs
    commit(space, before)
    launch_first(space, pack.id)
    commit(space, prepare(space, sweep_file(tmp_path, "one", [3])))
    assert len(list(space.plan_history("one").iterdir())) == 1
    again = prepare(space, sweep_file(tmp_path, "one", [1, 2, 3]))
    assert pack.id in {p.id for p in again.design.packs}


def test_members_that_only_a_replaced_plan_describes_are_found_there(space: Workspace, tmp_path: Path) -> None:
    """Two columns, launched; one removed, planned again: the pack is kept whole, and its plan is readable."""
    commit(space, prepare(space, sweep_file(tmp_path, "one", [1, 2])))
    before = read_desired(space)
    (pack,) = before.packs
    space.attempt(pack, 1).path.mkdir(parents=True)  # killed before it could link its launch
    less = prepare(space, sweep_file(tmp_path, "one", [1]))
    commit(space, less)
    now = read_desired(space)
    assert set(now.packs) == {pack}
    assert now.packs[pack].runs == before.packs[pack].runs
    assert now.runs == before.runs
    assert len(now.runs_of["one"]) == 2, "the others are carried, not listed"
    for path in space.plan_history("one").iterdir():
        path.unlink()
    with pytest.raises(OrchestratorError, match="no plan of this workspace describes"):
        read_desired(space)


def test_a_run_of_two_sweeps_is_one_run_in_one_pack(space: Workspace, tmp_path: Path) -> None:
    first = prepare(space, sweep_file(tmp_path, "one", [1, 2]))
    commit(space, first)
    second = prepare(space, sweep_file(tmp_path, "two", [2, 3]))
    packs = {run: pack.id for pack in second.design.packs for run in pack.runs}
    shared = {run.id for run in first.design.runs} & {run.id for run in second.design.runs}
    assert len(shared) == 2
    assert {packs[run] for run in shared} == {first.design.packs[0].id}


def test_an_unlaunched_pack_of_the_same_sweep_is_packed_anew(space: Workspace, tmp_path: Path) -> None:
    commit(space, prepare(space, sweep_file(tmp_path, "one", [1, 2])))
    wider = prepare(space, sweep_file(tmp_path, "one", [1, 2, 3]))
    assert len(wider.design.packs) == 1


def test_the_analysis_is_frozen_at_first_launch(space: Workspace, tmp_path: Path) -> None:
    file = sweep_file(tmp_path, "one", [1, 2], analysis={"metric": "test/accuracy"})
    assert freeze_analysis(space, prepare(space, file))
    assert freeze_analysis(space, prepare(space, file))
    assert not freeze_analysis(space, prepare(space, file, ["analysis.alpha=0.1"]))
