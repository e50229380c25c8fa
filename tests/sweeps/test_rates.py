"""The rule that chooses learning rates and fixed steps, on made-up pilots whose answer is known."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sweeps.errors import SweepError
from sweeps.load import load_sweep
from sweeps.rate_table import rates_yaml
from sweeps.rates import assumed, choose, extensions, ladder

STEPS = range(20, 401, 20)


def pilot(losses: dict[float, list[float]], task: str = "copy", speed: float = 100.0) -> Iterator[dict[str, Any]]:
    """One run for each rate and seed; accuracy climbs from 0.1 to 0.9 and is halfway there at ``speed * ln 2``."""
    for lr, finals in losses.items():
        for seed, final in enumerate(finals, 9001):
            for step in STEPS:
                accuracy = 0.9 - 0.8 * math.exp(-step / speed)
                # Early in training the order of the rates is reversed: only the end counts.
                loss = final if step == STEPS[-1] else 5.0 - final
                diverged = not math.isfinite(final)
                yield {
                    **{"task": task, "lr": lr, "seed": seed, "step": step, "diverged": diverged},
                    **{"validation/loss": loss, "validation/accuracy": accuracy},
                }


def test_the_largest_rate_within_ten_percent_of_the_best_is_chosen() -> None:
    (choice,) = choose(
        pilot({1e-3: [1.2] * 3, 2e-3: [1.0] * 3, 5e-3: [1.05, 1.09, 9.0], 1e-2: [1.2] * 3}),
        {"copy": 0.1},
        clip=(20, 3000),
    )
    assert (choice.lr, choice.loss, choice.best_loss, choice.edge) == (5e-3, 1.09, 1.0, None)
    assert choice.seeds == (9001, 9002, 9003)


def test_just_beyond_ten_percent_is_not_within() -> None:
    losses = {1e-3: [1.0] * 3, 2e-3: [1.1] * 3, 5e-3: [1.1001] * 3}
    assert choose(pilot(losses), {"copy": 0.1})[0].lr == 2e-3


def test_a_rate_with_a_diverged_seed_is_out_even_if_its_median_is_the_best() -> None:
    losses = {1e-3: [1.3] * 3, 2e-3: [1.0] * 3, 5e-3: [0.5, 0.5, math.nan], 1e-2: [9.0] * 3}
    (choice,) = choose(pilot(losses), {"copy": 0.1})
    assert (choice.lr, choice.diverged) == (2e-3, (5e-3,))


@pytest.mark.parametrize(("finals", "edge"), [([2.0, 1.5, 1.0], "largest"), ([1.0, 1.5, 2.0], "smallest")])
def test_a_choice_at_an_edge_of_the_grid_says_that_it_must_be_extended(finals: list[float], edge: str) -> None:
    losses = {lr: [final] * 3 for lr, final in zip((1e-3, 2e-3, 5e-3), finals, strict=True)}
    choices = choose(pilot(losses), {"copy": 0.1})
    assert choices[0].edge == edge
    table = rates_yaml(choices, "orchestrate pilot", "mini")
    assert f"the {edge} rate of the grid: extend it" in table
    assert f"should be extended: copy ({edge})" in table


@pytest.mark.parametrize(
    ("rate", "up", "next_ones"),
    [
        (0.1, True, (0.2, 0.5, 1.0)),
        (0.05, True, (0.1, 0.2, 0.5)),
        (1e-4, False, (1e-5, 2e-5, 5e-5)),
        (2e-3, False, (2e-4, 5e-4, 1e-3)),
        (3e-3, True, (5e-3, 1e-2, 2e-2)),
        (3e-3, False, (5e-4, 1e-3, 2e-3)),
        (1.0, True, (2.0, 5.0, 10.0)),
    ],
)
def test_the_ladder_goes_on_by_a_decade_in_numbers_as_one_writes_them(
    rate: float, up: bool, next_ones: tuple[float, ...]
) -> None:
    assert ladder(rate, up=up) == next_ones


def test_only_tasks_whose_choice_lies_at_an_edge_are_extended_and_outwards() -> None:
    grid = (1e-3, 2e-3, 5e-3)
    finals = {
        "inside": (2.0, 1.0, 2.0),
        "up": (2.0, 1.5, 1.0),
        "down": (1.0, 1.5, 2.0),
        "burnt": (math.nan, math.inf, math.nan),
    }
    rows = [
        row
        for task, losses in finals.items()
        for row in pilot({lr: [loss] * 3 for lr, loss in zip(grid, losses, strict=True)}, task)
    ]
    assert extensions(rows) == {"up": (0.01, 0.02, 0.05), "down": (1e-4, 2e-4, 5e-4), "burnt": (1e-4, 2e-4, 5e-4)}
    # The extension is read together with the grid: 0.02 is the largest within ten percent of 0.01, inside now.
    rows += pilot({0.01: [0.9] * 3, 0.02: [0.95] * 3, 0.05: [3.0] * 3}, "up")
    assert set(extensions(rows)) == {"down", "burnt"}
    (choice,) = choose((row for row in rows if row["task"] == "up"), {"up": 0.1})
    assert (choice.lr, choice.edge) == (0.02, None)


def test_what_is_assumed_for_prices_is_as_long_as_a_run_can_get() -> None:
    entry = assumed([1e-3, 1e-2, 1e-1], (150, 3000))
    assert entry == {"lr": 1e-2, "T": 3000, "steps": 7500}
    losses = {1e-3: [1.5], 2e-3: [1.0], 5e-3: [2.0]}
    (choice,) = choose(pilot(losses, speed=1e9), {"copy": 0.1}, clip=(20, 301))
    assert choice.steps <= assumed([1.0], (20, 301))["steps"]


def test_the_fixed_step_is_the_first_evaluation_halfway_between_chance_and_the_end() -> None:
    # (0.1 + 0.885) / 2 = 0.4927 is passed at 67.5 steps; evaluations are 20 apart.
    losses = {1e-3: [1.5] * 3, 2e-3: [1.0] * 3, 5e-3: [2.0] * 3}
    (choice,) = choose(pilot(losses), {"copy": 0.1}, clip=(20, 3000))
    assert choice.T == 80
    assert choice.steps == 200
    assert choice.steps >= 2 * choice.T
    assert choice.final_accuracy == pytest.approx(0.9 - 0.8 * math.exp(-4))
    assert choice.learned
    (choice,) = choose(pilot(losses), {"copy": 0.1}, clip=(150, 3000))
    assert choice.T == 150
    (choice,) = choose(pilot(losses), {"copy": 0.1}, clip=(20, 51))
    assert choice.T == 52  # even, so that T/2 is a step


def test_a_task_that_is_hardly_above_chance_is_marked() -> None:
    choices = choose(pilot({1e-3: [1.5], 2e-3: [1.0], 5e-3: [2.0]}), {"copy": 0.88})
    assert not choices[0].learned
    assert "hardly above chance" in rates_yaml(choices, "x", "mini")


def test_pilots_that_cannot_decide_are_refused() -> None:
    good = {1e-3: [1.0] * 3, 2e-3: [1.1] * 3}
    with pytest.raises(SweepError, match=r"seeds \[9001\] of the pilot are seeds of the study"):
        choose(pilot(good), {"copy": 0.1}, study_seeds=[1, 9001])
    with pytest.raises(SweepError, match="no chance level is known for copy"):
        choose(pilot(good), {})
    with pytest.raises(SweepError, match="not finished"):
        choose(pilot({1e-3: [1.0] * 3, 2e-3: [1.1] * 2}), {"copy": 0.1})
    with pytest.raises(SweepError, match="a seed diverged at every rate"):
        choose(pilot({1e-3: [math.inf], 2e-3: [math.nan]}), {"copy": 0.1})
    with pytest.raises(SweepError, match="no pilot runs"):
        choose([], {"copy": 0.1})


def test_the_table_is_a_part_that_a_recipe_can_include_and_names_its_command(tmp_path: Path) -> None:
    losses = {1e-3: [1.5] * 3, 2e-3: [1.0] * 3, 5e-3: [2.0] * 3}
    rows = [*pilot(losses), *pilot(losses, "add", 200.0)]
    command = 'orchestrate rates pilot-mini --out "rates\\mini.yaml"'
    table = rates_yaml(choose(rows, {"copy": 0.1, "add": 0.1}, clip=(20, 3000)), command, "mini")
    (tmp_path / "rates.yaml").write_text(table, encoding="utf-8")
    path = tmp_path / "study.yaml"
    path.write_text("include: rates.yaml\nrunner: toy\nconfig: {steps: '${values.rates.add.steps}'}\n")
    sweep = load_sweep(path)
    assert sweep.file.values["rates"]["copy"] == {"lr": 0.002, "T": 80, "steps": 200}
    assert sweep.file.values["rates_source"] == {"made_by": command}
    assert sweep.file.pilots == {"rates": None}, "whatever pilot the recipe names has chosen already"
    assert sweep.file.config["steps"] == 2.5 * sweep.file.values["rates"]["add"]["T"]
    assert sweep.file.notices == {"rates": None}
    assert table.splitlines()[1] == f"# Made by: {command}"
