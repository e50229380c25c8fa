"""The shipped recipes: what they ask for, and what they may cost."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from jobs.runners import validate_config
from sweeps import shipped
from sweeps.cost import estimate
from sweeps.design import Design
from sweeps.expand import expand
from sweeps.load import load_sweep
from sweeps.rates import chance_of

TASKS = ["memorize", "parentheses", "addmod", "haystack", "add", "addreversed", "copy", "mano"]
FIXED = ["gelu", "relu", "relu2", "silu", "random_spline"]
MODEL_STEP_S = {"train": 0.8e-3, "search": 1.3e-3}
"""Measured at mini size on one core: a step of one model of a pack, with evaluations, tasks as the study mixes them."""


@cache
def design_of(recipe: str, preset: str | None = None) -> Design:
    return expand(load_sweep(recipe, preset=preset))


def arms(design: Design) -> Counter[tuple[str, str]]:
    return Counter(
        (design.labels(run)["architecture"], design.labels(run)["task"])
        for run in design.runs
        if design.cells[run.cell].stage == "retrain"
    )


def test_parts_are_not_recipes() -> None:
    assert shipped.names() == ("compat-extras.yaml", "compat.yaml", "pilot-search.yaml", "pilot.yaml")


@pytest.mark.parametrize("preset", [None, "mini", "smoke"])
def test_the_extras_share_every_run_of_the_study_and_add_their_own(preset: str | None) -> None:
    study, extras = design_of("compat", preset), design_of("compat-extras", preset)
    assert extras.name != study.name
    added = {run.id: extras.labels(run) for run in extras.runs}
    for run in study.runs:
        added.pop(run.id)
    assert {row.get("architecture", row.get("learns")) for row in added.values()} == {"gelu_start"}
    labels = {run.id: extras.labels(run) for run in extras.runs}
    for run in extras.runs:
        if labels[run.id].get("architecture") == "gelu_start":
            source = labels[run.spec.inputs["activation"].run]
            assert (source["task"], source["learns"]) == (labels[run.id]["task"], "gelu_start")


def test_an_architecture_at_a_rate_of_its_own_is_a_row_beside_the_one_at_the_baseline_s(tmp_path: Path) -> None:
    """As the head of compat-extras.yaml shows it."""
    path = tmp_path / "own.yaml"
    path.write_text(
        "include: compat-extras.yaml\nname: own\n"
        "factors: {architecture: {relu_own: {model: {activation: {kind: relu}}}}}\n"
        "cells: [{when: {architecture: relu_own, task: copy}, config: {optimizer: {lr: 0.05}}}]\n"
    )
    design = expand(load_sweep(path, preset="mini"))
    rates = {
        (cell.labels["architecture"], cell.labels["task"]): cell.config["optimizer"]["lr"]
        for cell in design.cells
        if cell.stage == "retrain" and cell.labels["rate"] == "1"
    }
    assert rates["relu_own", "copy"] == 0.05 != rates["relu", "copy"] == rates["gelu", "copy"]
    together = {pack.runs for pack in design.packs if any(run in pack.runs for run in _of(design, "relu_own", "copy"))}
    assert all(any(run in runs for run in _of(design, "gelu", "copy")) for runs in together)


def test_its_rate_can_be_chosen_by_a_pilot_of_its_own(tmp_path: Path) -> None:
    """The lines stand in the head of compat-extras.yaml; here they are taken from there."""
    head = (shipped.FOLDER / "compat-extras.yaml").read_text().partition("\ninclude:")[0]
    lines = [line.removeprefix("#   ") for line in head.splitlines() if line.startswith("#   ")]
    wanted = [line.replace(", ...]", "]") for line in lines if line.startswith(("pilots:", "cells:")) or "own" in line]
    assert len(wanted) == 3
    path = tmp_path / "own.yaml"
    path.write_text("\n".join(["include: compat-extras.yaml", "name: own", *wanted]))
    sweep = load_sweep(path, preset="mini")
    assert sweep.assumed == ("relu",)
    pilot = sweep.file.pilots["relu"]
    assert pilot is not None
    own = expand(load_sweep(shipped.FOLDER / pilot.sweep, pilot.overrides))
    assert own.name == "pilot-relu"
    assert {cell.config["model"]["activation"]["kind"] for cell in own.cells} == {"relu"}
    assert not {run.id for run in own.runs} & {run.id for run in design_of("pilot", "mini").runs}
    (table := tmp_path / "relu.yaml").write_text("values: {relu: {copy: {lr: 0.05, T: 20, steps: 50}}}\n")
    design = expand(load_sweep(path, preset="mini", tables={"relu": table}))
    assert design.assumed == ()
    rates = {
        cell.config["optimizer"]["lr"]
        for cell in design.cells
        if cell.labels.get("architecture") == "relu_own" and cell.labels["task"] == "copy"
    }
    assert rates == {0.05}


def _of(design: Design, architecture: str, task: str) -> set[str]:
    labels = {run.id: design.labels(run) for run in design.runs}
    return {run for run, row in labels.items() if (row.get("architecture"), row["task"]) == (architecture, task)}


@pytest.mark.parametrize(("preset", "runs", "searches"), [(None, 6 * 2, 3), ("mini", 6 + 2, 2), ("bench", 6, 1)])
def test_compat_is_the_whole_grid_with_its_controls(preset: str | None, runs: int, searches: int) -> None:
    """``runs``: seeds of an arm and column, summed over the rates (mini: six at rate 1, two at 1/3)."""
    design = design_of("compat", preset)
    count = arms(design)
    fixed = ["gelu"] if preset == "bench" else FIXED
    controls = [] if preset == "bench" else ["scaled_gelu"]
    assert {arm for arm, _ in count} == {*fixed, *controls, *TASKS}
    for task in TASKS:
        assert all(count[arm, task] == runs for arm in fixed)
        assert all(count[arm, task] == runs * searches for arm in [*controls, *TASKS])
    assert all("two seeds" in skipped.reason for skipped in design.skipped)


@pytest.mark.parametrize("preset", [None, "mini", "bench", "smoke"])
def test_every_column_and_seed_is_one_pack_with_its_baseline_and_all_its_arms(preset: str | None) -> None:
    design = design_of("compat", preset)
    labels = {run.id: design.labels(run) for run in design.runs}
    retrain = [pack for pack in design.packs if pack.stage == "retrain"]
    for pack in retrain:
        found = [labels[run] for run in pack.runs]
        assert len({(row["task"], row["seed"]) for row in found}) == 1
        assert "gelu" in {row["architecture"] for row in found}
    assert len({frozenset(labels[run]["task"] for run in pack.runs) for pack in retrain}) * len(
        {labels[pack.runs[0]]["seed"] for pack in retrain}
    ) == len(retrain)
    assert not any("baseline" in notice for notice in design.notices)
    if preset == "mini":
        assert {len(pack.runs) for pack in retrain} == {46, 23}


def test_splines_come_from_the_row_s_task_and_scaled_gelu_from_the_column_s() -> None:
    design = design_of("compat", "mini")
    labels = {run.id: design.labels(run) for run in design.runs}
    for run in design.runs:
        if not run.spec.inputs:
            continue
        mine, (ref,) = labels[run.id], run.spec.inputs.values()
        theirs = labels[ref.run]
        assert ref.product == "shape"
        assert theirs["search_seed"] == mine["search_seed"]
        if mine["architecture"] == "scaled_gelu":
            assert (theirs["task"], theirs["learns"]) == (mine["task"], "scaled_gelu")
        else:
            assert (theirs["task"], theirs["learns"]) == (mine["architecture"], "spline")


@pytest.mark.parametrize("preset", [None, "mini", "bench", "smoke"])
def test_t_half_t_twice_t_and_the_end_are_steps_of_every_run(preset: str | None) -> None:
    design = design_of("compat", preset)
    step = design.analysis["step"]
    for cell in design.cells:
        config = validate_config(cell.runner, cell.config)
        landmarks = config.landmarks()  # type: ignore[attr-defined]
        fixed = step[cell.labels["task"]]
        assert (landmarks["T/2"], landmarks["T"]) == (fixed // 2, fixed)
        assert landmarks["2T"] == 2 * fixed < landmarks["final"]


def test_seeds_of_search_retrain_and_pilot_are_disjoint() -> None:
    used = {}
    for recipe, preset in (("compat", None), ("compat", "mini"), ("pilot", "full"), ("pilot", "mini")):
        for stage in design_of(recipe, preset).stages:
            used.setdefault((recipe, stage.name), set()).update(stage.seeds)
    groups = list(used.values())
    assert len(groups) == 3
    assert sum(map(len, groups)) == len(set().union(*groups))


def test_mini_is_meant_for_ten_minutes_on_two_cores() -> None:
    cost = estimate(design_of("compat", "mini"), MODEL_STEP_S, slots=2)
    assert cost.wall_hours * 60 < 10
    assert cost.checkpoint_bytes < 1e9


def test_smoke_is_small_and_still_has_everything() -> None:
    design = design_of("compat", "smoke")
    cost = estimate(design, MODEL_STEP_S, slots=2)
    assert cost.packs <= 8
    assert cost.model_steps < 5000
    found = {(d["architecture"], d["task"]) for run in design.runs if "architecture" in (d := design.labels(run))}
    assert {("copy", "memorize"), ("memorize", "copy"), ("scaled_gelu", "copy"), ("gelu", "copy")} <= found


def test_the_pilot_looks_at_validation_data_only_and_its_grid_contains_what_is_committed() -> None:
    for preset in ("full", "mini"):
        pilot = design_of("pilot", preset)
        for cell in pilot.cells:
            config = validate_config(cell.runner, cell.config)
            assert config.evaluate.splits == ("validation",)  # type: ignore[attr-defined]
            assert config.model.activation.kind == "gelu"  # type: ignore[attr-defined]
        assert Counter(pilot.labels(run)["task"] for run in pilot.runs).keys() == set(TASKS)


def test_every_task_of_the_pilot_knows_its_chance_level() -> None:
    chance = {cell.labels["task"]: chance_of(cell.runner, cell.config) for cell in design_of("pilot", "mini").cells}
    assert chance.keys() == set(TASKS)
    assert chance["memorize"] == pytest.approx(1 / 16)
    assert chance["addmod"] == pytest.approx(1 / 23)
    assert all(level is not None and 0 <= level < 0.75 for level in chance.values())


def test_pilot_and_study_train_the_same_model_on_the_same_data() -> None:
    for preset in ("full", "mini"):
        study = design_of("compat", None if preset == "full" else preset)
        baseline = {
            cell.labels["task"]: validate_config(cell.runner, cell.config)
            for cell in study.cells
            if cell.labels.get("architecture") == "gelu"
        }
        for cell in design_of("pilot", preset).cells:
            pilot, other = validate_config(cell.runner, cell.config), baseline[cell.labels["task"]]
            for key in ("task", "model", "batch_size", "warmup_steps"):
                assert getattr(pilot, key) == getattr(other, key), (preset, cell.name, key)


@pytest.mark.parametrize("preset", ["mini", "smoke", "bench"])
def test_a_committed_table_names_its_command_and_lies_at_no_edge_of_its_grid(preset: str) -> None:
    design = design_of("compat", preset)
    assert design.assumed == ()
    table = (shipped.FOLDER / "rates-mini.yaml").read_text()
    command = design.settings["values"]["rates_source"]["made_by"]
    assert f"# Made by: {command}\n" in table
    assert command.startswith("orchestrate rates pilot-mini")
    assert "extend it" not in table
    assert not any("extended" in notice for notice in design.notices)


def test_every_committed_table_was_made_by_the_rule() -> None:
    tables = list(shipped.FOLDER.glob("rates-*.yaml"))
    assert tables
    for path in tables:
        assert path.read_text().splitlines()[1].startswith("# Made by: orchestrate rates "), path.name


def test_the_full_study_has_no_rates_of_its_own_and_is_priced_by_the_longest_runs_it_may_ask_for() -> None:
    design = design_of("compat")
    assert design.assumed == ("rates",)
    pilot = design_of("pilot")
    rates = {cell.config["optimizer"]["lr"] for cell in pilot.cells}
    for cell in design.cells:
        assert cell.config["optimizer"]["lr"] in rates
        assert (cell.config["t_task"], cell.shape.steps) == (3000, 7500)
