"""Does a curve go on where it stopped?"""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from jobs.resume_check import ResumeCheck


def noisy(steps: range, *, noise: float, shift: float = 0.0, seed: int = 1) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    return [
        {"run": "r", "step": step, "train/loss": 2 * math.exp(-step / 40) + shift + chance.gauss(0, noise)}
        for step in steps
    ]


def names(check: ResumeCheck, rows: list[dict[str, Any]]) -> list[str]:
    found = []
    for row in rows:
        values = {name: value for name, value in row.items() if "/" in name}
        found += [finding.name for finding in check.look(row["run"], row["step"], values)]
    return found


BEFORE = noisy(range(1, 41), noise=0.02)


def test_the_same_values_again_are_exact() -> None:
    assert names(ResumeCheck(BEFORE, 30), BEFORE[30:]) == []


def test_the_smallest_difference_is_not_exact_but_no_jump() -> None:
    rows = [{**row, "train/loss": row["train/loss"] * (1 + 1e-12)} for row in BEFORE[30:]]
    assert names(ResumeCheck(BEFORE, 30), rows) == ["resume_differs"]


def test_a_shift_is_both() -> None:
    rows = [{**row, "train/loss": row["train/loss"] + 0.3} for row in BEFORE[30:]]
    assert names(ResumeCheck(BEFORE, 30), rows) == ["resume_differs", "loss_jump"]


@pytest.mark.parametrize("sign", [1, -1])
def test_without_overlap_the_two_sides_are_compared(sign: int) -> None:
    assert names(ResumeCheck(BEFORE, 40), noisy(range(41, 50), noise=0.02, seed=2)) == []
    assert names(ResumeCheck(BEFORE, 40), noisy(range(41, 50), noise=0.02, shift=0.4 * sign, seed=2)) == ["loss_jump"]


def test_it_speaks_once_and_only_of_the_first_values() -> None:
    rows = noisy(range(41, 80), noise=0.02, shift=0.4, seed=2)
    assert names(ResumeCheck(BEFORE, 40), rows).count("loss_jump") == 1
    late = [*noisy(range(41, 60), noise=0.02, seed=2), *noisy(range(60, 80), noise=0.02, shift=3.0)]
    assert names(ResumeCheck(BEFORE, 40), late) == []


def test_a_noisy_curve_may_move_within_its_noise() -> None:
    flagged = 0
    for seed in range(200):
        before = noisy(range(1, 41), noise=0.3, seed=seed)
        flagged += bool(names(ResumeCheck(before, 40), noisy(range(41, 50), noise=0.3, seed=1000 + seed)))
    assert flagged <= 2


def test_what_cannot_be_compared_is_not() -> None:
    check = ResumeCheck([*BEFORE, {"run": "r", "step": 41, "train/loss": "nan"}], 40)
    assert names(check, [{"run": "r", "step": 41, "train/loss": math.nan}]) == []
    assert names(check, [{"run": "other", "step": 41, "train/loss": 9.0}]) == []
    assert names(check, [{"run": "r", "step": 41, "test/accuracy": 9.0}]) == []
    assert names(ResumeCheck(BEFORE[:2], 2), noisy(range(3, 9), noise=0.02, shift=9)) == []
