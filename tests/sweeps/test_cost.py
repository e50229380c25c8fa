"""What a design costs."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeps.cost import GUESSED_FLOPS, GUESSED_OVERHEAD_S, PACK_START_S, estimate
from sweeps.design import Design
from sweeps.expand import expand
from sweeps.load import load_sweep

TEXT = """
factors: {size: {small: {steps: 100, stack: s}, large: {steps: 400, stack: l}}}
seeds: 3
pack: {by: [size], max: 2}
stages:
  one: {runner: toy, config: {checkpoint_bytes: 800, note: one}}
  two: {runner: toy, factors: [], config: {steps: 50}}
"""


@pytest.fixture
def design(tmp_path: Path) -> Design:
    path = tmp_path / "study.yaml"
    path.write_text(TEXT, encoding="utf-8")
    return expand(load_sweep(path))


def test_steps_hours_and_disk_add_up(design: Design) -> None:
    cost = estimate(design, {"toy": 0.01}, slots=2)
    assert (cost.runs, cost.packs, cost.model_steps) == (9, 6, 3 * 100 + 3 * 400 + 3 * 50)
    assert cost.hours == pytest.approx((cost.model_steps * 0.01 + 6 * PACK_START_S) / 3600)
    assert cost.checkpoint_bytes == 6 * 1000 + 3 * 200
    assert not cost.guessed
    # stage one: packs of 1, 2 small and 1, 2 large runs: 1 + 2 + 4 + 8 s and four starts, shared by two slots
    # stage two: packs of 1 and 2 runs: 0.5 and 1 s, each with its start
    assert cost.wall_hours == pytest.approx(((15 + 4 * PACK_START_S) / 2 + 1 + PACK_START_S) / 3600)
    assert [(c.name, c.runs, c.steps, c.parameters) for c in cost.cells] == [
        ("one size=small", 3, 100, 1),
        ("one size=large", 3, 400, 1),
        ("two", 3, 50, 1),
    ]
    assert sum(c.hours for c in cost.cells) == pytest.approx(cost.hours - 6 * PACK_START_S / 3600)
    assert cost.flops == cost.model_steps  # a toy step is one operation


def test_a_rate_of_the_shape_goes_before_that_of_the_runner(design: Design) -> None:
    cost = estimate(design, {"toy": 0.01, "toy-l": 1.0})
    assert cost.cells[1].hours == pytest.approx(3 * 400 / 3600)
    assert cost.cells[0].hours == pytest.approx(3 * 100 * 0.01 / 3600)


def test_without_a_rate_it_says_that_it_guesses(design: Design) -> None:
    cost = estimate(design, {"toy-l": 1.0})
    assert cost.guessed
    assert cost.cells[0].hours == pytest.approx(300 * (GUESSED_OVERHEAD_S + 1 / GUESSED_FLOPS) / 3600)


def test_what_is_done_costs_nothing(design: Design) -> None:
    done = {run.id for run in design.runs if design.cells[run.cell].labels.get("size") == "large"}
    cost = estimate(design, {"toy": 0.01}, done=done)
    assert (cost.runs, cost.packs, cost.model_steps) == (6, 4, 450)
    assert estimate(design, done=[run.id for run in design.runs]).hours == 0


def test_nonsense_is_refused(design: Design) -> None:
    with pytest.raises(ValueError, match="slots"):
        estimate(design, slots=0)
    with pytest.raises(ValueError, match="positive"):
        estimate(design, {"toy": 0.0})
