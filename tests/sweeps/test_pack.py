"""Which runs train together, and that runs which are planned already stay where they are."""

from __future__ import annotations

from pathlib import Path

from jobs.spec import pack_id
from sweeps.design import Design, PackPlan
from sweeps.expand import expand
from sweeps.load import load_sweep
from sweeps.pack import assign

GRID = """
runner: toy
factors:
  task: {path: note, values: [copy, add]}
  arm: {path: level, values: [0.1, 0.2, 0.3, 0.4, 0.5]}
seeds: 2
analysis: {baseline: {arm: 0.1}}
"""


def design_of(folder: Path, text: str, *overrides: str) -> Design:
    path = folder / "study.yaml"
    path.write_text(text, encoding="utf-8")
    return expand(load_sweep(path, overrides))


def members(design: Design, pack: PackPlan) -> list[tuple[object, ...]]:
    by_id = {run.id: design.labels(run) for run in design.runs}
    return [tuple(by_id[run].values()) for run in pack.runs]


def test_baseline_and_arms_of_a_column_and_seed_share_a_pack(tmp_path: Path) -> None:
    design = design_of(tmp_path, GRID + "pack: {by: [task, seed], max: 8}\n")
    assert [len(pack.runs) for pack in design.packs] == [5, 5, 5, 5]
    assert [pack.order for pack in design.packs] == [0, 1, 2, 3]
    assert members(design, design.packs[0]) == [("copy", arm, 1) for arm in (0.1, 0.2, 0.3, 0.4, 0.5)]
    assert members(design, design.packs[2])[0] == ("copy", 0.1, 2)
    assert all(pack.id == pack_id(pack.runs) for pack in design.packs)
    assert sorted(run for pack in design.packs for run in pack.runs) == sorted(run.id for run in design.runs)
    assert design.notices == ()


def test_a_run_is_a_pack_of_its_own_unless_asked(tmp_path: Path) -> None:
    design = design_of(tmp_path, GRID)
    assert len(design.packs) == len(design.runs) == 20
    assert design.notices == ()  # all packs have one shape: nothing is confounded


def test_what_does_not_fit_is_split_evenly_and_said_aloud(tmp_path: Path) -> None:
    design = design_of(tmp_path, GRID + "pack: {by: [task, seed], max: 4}\n")
    assert [len(pack.runs) for pack in design.packs] == [2, 3] * 4
    (notice,) = design.notices
    assert "pack.max is 4 and 5 runs belong together" in notice


def test_a_baseline_kept_apart_by_the_rule_is_said_aloud(tmp_path: Path) -> None:
    design = design_of(tmp_path, GRID + "pack: {by: [arm], max: 8}\n")
    (notice,) = design.notices
    assert "4 of 5 groups hold no baseline run" in notice


def test_other_shapes_resources_and_execution_never_share_a_pack(tmp_path: Path) -> None:
    rules = """
pack: {max: 99}
cells:
  - {when: {arm: 0.2}, config: {stack: other}}
  - {when: {arm: 0.3}, resources: {cpus: 2}}
  - {when: {arm: 0.4}, execution: {threads: 2}}
"""
    design = design_of(tmp_path, GRID + rules)
    assert sorted(len(pack.runs) for pack in design.packs) == [4, 4, 4, 8]
    assert [dict(pack.resources) for pack in design.packs] == [{}, {}, {"cpus": 2}, {}]


def test_a_stage_can_pack_in_its_own_way(tmp_path: Path) -> None:
    text = """
factors: {arm: {path: level, values: [0.1, 0.2]}}
seeds: 3
pack: {max: 2}
stages:
  one: {runner: toy}
  two: {runner: toy, config: {steps: 3}, pack: {by: [seed], max: 9}}
"""
    design = design_of(tmp_path, text)
    assert [(pack.stage, len(pack.runs)) for pack in design.packs] == [("one", 2)] * 3 + [("two", 2)] * 3


def test_runs_that_are_planned_already_stay_in_their_pack(tmp_path: Path) -> None:
    rule = "pack: {by: [task, seed], max: 8}\n"
    old = design_of(tmp_path, GRID + rule, "seeds=1")
    carriers = {run: pack for pack in old.packs for run in pack.runs}
    new = design_of(tmp_path, GRID + rule)
    kept = assign(new, carriers)
    assert [pack.id for pack in kept.packs] == [pack.id for pack in new.packs]
    assert not any(pack.carried for pack in kept.packs)

    # An arm is added: the old packs stay as they are, the new runs get packs of their own, and that is said aloud.
    wider = design_of(tmp_path, GRID + rule, "seeds=1", "factors.arm.values=[0.1, 0.2, 0.3, 0.4, 0.5, 0.6]")
    kept = assign(wider, carriers)
    assert {pack.id for pack in old.packs} < {pack.id for pack in kept.packs}
    assert sorted(len(pack.runs) for pack in kept.packs) == [1, 1, 5, 5]
    assert any("2 new runs go into 2 packs of their own" in notice for notice in kept.notices)
    assert sorted(run for pack in kept.packs for run in pack.runs) == sorted(run.id for run in wider.runs)

    # Another sweep asks for some of the runs: their pack is named with its full membership.
    fewer = design_of(tmp_path, GRID + rule, "seeds=1", "only.arm=[0.1, 0.2]")
    kept = assign(fewer, carriers)
    assert [pack.id for pack in kept.packs] == [pack.id for pack in old.packs]
    assert all(pack.carried and len(pack.runs) == 5 for pack in kept.packs)


def test_nothing_planned_already_changes_nothing(tmp_path: Path) -> None:
    design = design_of(tmp_path, GRID)
    assert assign(design, {}) is design
