"""Factors, seeds, zip groups, stages, exclusions and cells -> runs. Written for the toy runner: no Python is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jobs.spec import InputRef
from sweeps.design import Design
from sweeps.errors import Problem, SweepError
from sweeps.expand import expand
from sweeps.load import load_sweep

TWO_STAGES = """
config: {steps: 3}
factors:
  task: {copy: {note: copy}, add: {note: add}, mano: {note: mano}}
  arm:
    plain: {}
    copy: {consumes: [curve]}
    add: {consumes: [curve]}
stages:
  search:
    runner: toy
    factors: [task]
    seeds: {name: search_seed, values: 2, first: 101}
    config: {products: [shape]}
  retrain:
    runner: toy
    factors: [task, arm]
    seeds: [1, 2, 3]
    config: {level: 0.5}
    needs:
      curve: {stage: search, product: shape, match: {task: arm}}
"""


def design_of(folder: Path, text: str, *overrides: str) -> Design:
    path = folder / "study.yaml"
    path.write_text(text, encoding="utf-8")
    return expand(load_sweep(path, overrides))


def problems(folder: Path, text: str, *overrides: str) -> tuple[Problem, ...]:
    with pytest.raises(SweepError) as caught:
        design_of(folder, text, *overrides)
    return caught.value.problems


def labels(design: Design) -> list[dict[str, Any]]:
    return [design.labels(run) for run in design.runs]


def test_factors_are_crossed_and_runs_are_seed_major(tmp_path: Path) -> None:
    design = design_of(tmp_path, "runner: toy\nfactors: {level: [0.1, 0.2], note: [a, b]}\nseeds: 2\n")
    assert [cell.config for cell in design.cells] == [
        {"level": level, "note": note} for level in (0.1, 0.2) for note in "ab"
    ]
    assert [(row["seed"], row["level"], row["note"]) for row in labels(design)] == [
        (seed, level, note) for seed in (1, 2) for level in (0.1, 0.2) for note in "ab"
    ]
    assert [run.spec.seed for run in design.runs] == [1] * 4 + [2] * 4
    assert len({run.id for run in design.runs}) == 8


def test_a_list_of_twenty_modifications_needs_no_python(tmp_path: Path) -> None:
    levels = "".join(f"    mod{k}: {{note: 'modification {k}'}}\n" for k in range(20))
    text = f"runner: toy\nseeds: 3\nfactors:\n  modification:\n    none:\n{levels}"
    text += "analysis: {baseline: {modification: none}}\n"
    design = design_of(tmp_path, text)
    assert (len(design.cells), len(design.runs)) == (21, 63)
    assert design.cells[0].config == {}
    assert design.analysis["baseline"] == {"modification": "none"}


def test_a_ladder_of_scales_walks_together_and_has_its_own_resources(tmp_path: Path) -> None:
    text = """
runner: toy
factors:
  scale: {path: note, values: [10M, 100M, 1B]}
  budget: {path: steps, values: [10, 20, 40]}
  arm: {base: {}, new: {level: 0.9}}
zip: [[scale, budget]]
cells:
  - {when: {scale: 1B}, resources: {gpus: 8, minutes: 600}, config: {checkpoint_bytes: 9}}
exclude:
  - {when: {scale: 1B, arm: new}, reason: too dear}
"""
    design = design_of(tmp_path, text)
    assert [(cell.labels["scale"], cell.config.get("steps", 10)) for cell in design.cells] == [
        ("10M", 10), ("10M", 10), ("100M", 20), ("100M", 20), ("1B", 40),
    ]  # fmt: skip
    assert design.cells[-1].config["checkpoint_bytes"] == 9
    assert design.cells[-1].resources == {"gpus": 8, "minutes": 600}
    assert design.cells[0].resources == {}
    (skipped,) = design.skipped
    assert (skipped.labels, skipped.reason) == (
        {"stage": "toy", "scale": "1B", "budget": 40, "arm": "new"},
        "too dear",
    )


def test_a_consumer_is_nested_in_the_seeds_of_its_producer(tmp_path: Path) -> None:
    design = design_of(tmp_path, TWO_STAGES)
    search = [run for run in design.runs if design.cells[run.cell].stage == "search"]
    retrain = [run for run in design.runs if design.cells[run.cell].stage == "retrain"]
    assert len(search) == 3 * 2
    # plain: 3 tasks x 3 seeds; each learned arm: 3 tasks x 3 seeds x 2 searches
    assert len(retrain) == 9 + 2 * 18
    producer = {(design.labels(run)["task"], run.labels["search_seed"]): run.id for run in search}
    for run in retrain:
        found = design.labels(run)
        if found["arm"] == "plain":
            assert not run.spec.inputs
            assert "search_seed" not in found
        else:
            expected = producer[found["arm"], found["search_seed"]]
            assert run.spec.inputs == {"curve": InputRef(expected, "shape")}
    assert [stage.needs for stage in design.stages] == [(), ("search",)]
    assert design.runs.index(search[-1]) < design.runs.index(retrain[0])


def test_labels_that_both_sides_have_are_matched_and_where_picks_producers(tmp_path: Path) -> None:
    text = """
factors: {task: {a: {note: a}, b: {note: b}}, kind: {x: {level: 0.1}, y: {level: 0.2}}}
stages:
  make: {runner: toy, factors: [task, kind], seeds: {name: make_seed, values: 2}, config: {products: [p]}}
  use:
    runner: toy
    factors: [task]
    config: {consumes: [i], steps: 2}
    needs: {i: {stage: make, product: p, where: {kind: y}}}
"""
    design = design_of(tmp_path, text)
    made = {run.id: design.labels(run) for run in design.runs if design.cells[run.cell].stage == "make"}
    used = [run for run in design.runs if design.cells[run.cell].stage == "use"]
    assert len(used) == 4
    for run in used:
        source = made[run.spec.inputs["i"].run]
        assert (source["task"], source["kind"]) == (design.labels(run)["task"], "y")
        assert "kind" not in run.labels
        assert run.labels["make_seed"] == source["make_seed"]


def test_seeds_of_one_name_are_matched_not_crossed(tmp_path: Path) -> None:
    text = """
seeds: 3
stages:
  make: {runner: toy, config: {products: [p]}}
  use: {runner: toy, config: {consumes: [i]}, needs: {i: {stage: make, product: p}}}
"""
    design = design_of(tmp_path, text)
    assert len(design.runs) == 6
    by_id = {run.id: run for run in design.runs}
    for run in design.runs[3:]:
        assert by_id[run.spec.inputs["i"].run].spec.seed == run.spec.seed


def test_two_inputs_share_the_labels_they_bring(tmp_path: Path) -> None:
    text = """
stages:
  make: {runner: toy, seeds: {name: make_seed, values: 2}, config: {products: [p, q]}}
  use:
    runner: toy
    config: {consumes: [i, j]}
    needs: {i: {stage: make, product: p}, j: {stage: make, product: q}}
"""
    design = design_of(tmp_path, text)
    used = design.runs[2:]
    assert len(used) == 2  # not 4: both inputs come from one producer
    assert all(len({ref.run for ref in run.spec.inputs.values()}) == 1 for run in used)


def test_consumers_of_producers_that_are_left_out_are_skipped_with_the_reason(tmp_path: Path) -> None:
    excluded = TWO_STAGES + "exclude: [{when: {stage: search, task: add}, reason: no data}]\n"
    design = design_of(tmp_path, excluded)
    reasons = {(s.labels["stage"], s.labels["task"], s.labels.get("arm")): s.reason for s in design.skipped}
    assert reasons["search", "add", None] == "no data"
    assert reasons["retrain", "mano", "add"] == "needs search task=add, which is left out: no data"
    assert len(reasons) == 4
    assert not any(cell.labels.get("arm") == "add" for cell in design.cells)

    design = design_of(tmp_path, TWO_STAGES, "only.task=[copy]")
    assert {row["task"] for row in labels(design)} == {"copy"}
    assert {row.get("arm") for row in labels(design)} == {None, "plain", "copy"}
    (skipped,) = design.skipped
    assert "search task=add, which is left out by `only`" in skipped.reason


def test_a_producer_that_never_existed_is_a_mistake(tmp_path: Path) -> None:
    text = TWO_STAGES.replace("    add: {consumes: [curve]}", "    spectral: {consumes: [curve]}")
    (problem,) = problems(tmp_path, text)
    assert "needs a run of search task=spectral, and there is none" in problem.message
    assert "3 cells, first retrain task=copy arm=spectral" in problem.where


def test_only_and_exclude_reach_seeds_and_inherited_labels(tmp_path: Path) -> None:
    design = design_of(tmp_path, TWO_STAGES, "only={seed: [1], search_seed: [101]}")
    assert {row.get("seed", 1) for row in labels(design)} == {1}
    assert {row.get("search_seed", 101) for row in labels(design)} == {101}
    late = TWO_STAGES + "exclude: [{when: {arm: copy, search_seed: 102}, reason: it broke}]\n"
    design = design_of(tmp_path, late)
    assert sum(skipped.reason == "it broke" for skipped in design.skipped) == 9
    assert not any(row.get("arm") == "copy" and row.get("search_seed") == 102 for row in labels(design))


def test_equal_runs_are_one_run_and_an_arm_under_two_names_is_said_aloud(tmp_path: Path) -> None:
    text = "runner: toy\nfactors: {arm: {a: {level: 0.8}, b: {}, c: {level: 0.1}}}\nseeds: 2\n"
    design = design_of(tmp_path, text)  # 0.8 is the default: a and b are the same
    assert len(design.runs) == 4
    assert [cell.labels["arm"] for cell in design.cells] == ["a", "c"]
    assert [run.cell for run in design.runs] == [0, 1, 0, 1]
    assert design.skipped[0].labels == {"stage": "toy", "arm": "b"}
    assert any("toy arm=b is left out" in notice for notice in design.notices)


def test_equal_runs_of_two_stages_are_one_run(tmp_path: Path) -> None:
    text = "stages: {one: {runner: toy, seeds: 3}, two: {runner: toy, seeds: 2, config: {steps: 10}}}\n"
    design = design_of(tmp_path, text)
    assert len(design.runs) == 3
    assert any("2 runs of two are runs of one already" in notice for notice in design.notices)


def test_pieces_are_laid_over_each_other_in_a_fixed_order(tmp_path: Path) -> None:
    text = """
config: {note: file, level: 0.1, steps: 1, metric_every: 1}
factors: {arm: {x: {level: 0.3, steps: 3}}}
stages: {only: {runner: toy, config: {note: stage, level: 0.2, steps: 2}}}
cells: [{when: {arm: x}, config: {steps: 4}}]
"""
    assert design_of(tmp_path, text).cells[0].config == {"note": "stage", "level": 0.3, "steps": 4}


def test_names_that_mean_nothing_are_reported_at_once_with_choices(tmp_path: Path) -> None:
    text = """
factors: {task: {copy: {}, add: {}}, width: [1, 2, 3]}
zip: [[task, width]]
exclude: [{when: {task: cpoy}, reason: x}]
cells: [{when: {taks: copy}}]
pack: {by: [sed]}
analysis: {baseline: {task: cop}, column: tsak, step: {copi: 3}}
stages:
  a: {runner: toi, factors: [tusk]}
  b: {runner: toy, needs: {i: {stage: aa, product: p}, j: {stage: a, product: p, match: {tsk: task}}}}
"""
    found = {problem.where: problem for problem in problems(tmp_path, text)}
    assert found["exclude.0.when.task"].suggestion == "copy"
    assert found["cells.0.when.taks"].suggestion == "task"
    assert found["pack.by.0"].suggestion == "seed"
    assert found["analysis.baseline.task"].suggestion == "copy"
    assert found["analysis.column"].suggestion == "task"
    assert found["stages.a.runner"].suggestion == "toy"
    assert found["stages.a.factors.0"].suggestion == "task"
    assert found["stages.b.needs.i.stage"].suggestion == "a"
    assert found["stages.b.needs.j.match.tsk"].value == "tsk"
    assert "task has 2, width has 3" in found["zip.0"].message
    assert found["zip.0"].line == 3
    assert all(problem.line for problem in found.values())


def test_a_config_that_asks_for_an_input_nobody_gives_is_a_mistake_and_the_reverse(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, "runner: toy\nconfig: {consumes: [curve]}\n")
    assert "asks for the input 'curve'" in problem.message
    text = TWO_STAGES.replace("match: {task: arm}", "match: {task: arm}, when: {arm: plain}")
    assert any("has no use for it" in p.message for p in problems(tmp_path, text))
    text = TWO_STAGES.replace("product: shape", "product: shpae")
    (problem,) = problems(tmp_path, text)
    assert (problem.message, problem.suggestion) == ("stage search leaves no such product", "shape")


def test_stages_that_wait_for_each_other_are_a_mistake(tmp_path: Path) -> None:
    text = """
stages:
  a: {runner: toy, config: {products: [p], consumes: [i]}, needs: {i: {stage: b, product: p}}}
  b: {runner: toy, config: {products: [p], consumes: [i]}, needs: {i: {stage: a, product: p}}}
"""
    assert any("wait for each other" in problem.message for problem in problems(tmp_path, text))


def test_a_factor_named_like_the_seeds_is_a_mistake(tmp_path: Path) -> None:
    found = problems(tmp_path, "runner: toy\nfactors: {seed: {a: {}, b: {level: 1}}}\n")
    assert any("need a label of their own" in problem.message for problem in found)


def test_no_run_left_is_a_mistake(tmp_path: Path) -> None:
    text = "runner: toy\nfactors: {a: {x: {}}}\nexclude: [{when: {a: x}, reason: none}]\n"
    assert "no run is left" in problems(tmp_path, text)[0].message


def test_the_same_mistake_in_many_cells_is_reported_once(tmp_path: Path) -> None:
    text = "runner: toy\nconfig: {stepz: 1}\nfactors: {level: [0.1, 0.2], note: [a, b]}\n"
    (problem,) = problems(tmp_path, text)
    assert "4 cells, first toy level=0.1 note=a" in problem.where
    assert (problem.line, problem.suggestion) == (2, "steps")


def test_numeric_level_names_agree_with_the_numbers_they_spell(tmp_path: Path) -> None:
    text = "runner: toy\nfactors: {width: {64: {note: a}, 128: {note: b}}}\n"
    text += "exclude: [{when: {width: 64}, reason: small}]\n"
    design = design_of(tmp_path, text)
    assert [cell.labels["width"] for cell in design.cells] == ["128"]


def test_a_path_that_leads_to_no_key_is_told_with_the_key_that_was_meant(tmp_path: Path) -> None:
    text = "runner: toy\nfactors: {length: {path: stepz, values: [3]}}\nconfig: {steps: 3}\n"
    with pytest.raises(SweepError) as caught:
        design_of(tmp_path, text)
    (problem,) = caught.value.problems
    assert problem.where.startswith("factors.length.path")
    assert (problem.message, problem.value, problem.suggestion) == ("unknown key", "stepz", "steps")
