"""Own row against the others: a planted specific arm is found, a generally good one is not called specific."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from sweeps.analysis.linear import SEARCH_RATIO, closed, contrast
from sweeps.analysis.noise_floor import c4
from sweeps.analysis.results import Result
from sweeps.analysis.sigma import NOISE_RATIO
from sweeps.analysis.specificity import specificity, specificity_index

TASKS = ("a", "b", "c")


def study(gain: dict[tuple[str, str], float], seed: int = 0, searches: int = 2, sd: float = 0.01) -> list[Result]:
    rng = np.random.default_rng(seed)
    rows = []
    for arm in TASKS:
        for task in TASKS:
            for search in range(searches):
                shift = rng.normal(0, sd)
                for run in range(3):
                    value = 0.5 + gain.get((arm, task), 0.0) + shift + rng.normal(0, sd)
                    rows.append(Result(arm, task, run, search, value))
    return rows


def test_only_the_planted_column_is_specific() -> None:
    found = specificity(study({("a", "a"): 0.2}, searches=4), TASKS, TASKS)
    verdicts = {s.against_others.column: s.against_others.verdict for s in found}
    assert verdicts == {"a": "more", "b": "undecided", "c": "undecided"}
    first = found[0]
    assert (first.beaten, first.rivals) == (2, 2)
    assert first.against_others.value == pytest.approx(0.2, abs=0.04)


def test_an_arm_that_is_good_everywhere_is_not_specific() -> None:
    """a is better than the baseline on every task; on b and c the others' own rows are then not ahead of it."""
    gain = {("a", task): 0.2 for task in TASKS}
    found = {s.against_others.column: s for s in specificity(study(gain), TASKS, TASKS)}
    assert found["b"].against_others.verdict != "more"
    assert found["b"].best_other is not None
    assert found["b"].best_other[0] == "a"


def test_each_side_has_the_larger_of_its_own_and_the_pooled_noise() -> None:
    """The rule `auto`: s^2 / c4^2 of an arm where that exceeds the pooled s^2, with its own degrees of freedom."""
    values = {"calm": (0.50, 0.51, 0.52, 0.53), "wild": (0.1, 0.5, 0.2, 0.9)}
    rows = [Result(arm, "t", i, value=v) for arm, found in values.items() for i, v in enumerate(found)]
    made = contrast("q", "t", {"wild": 1.0, "calm": -1.0}, rows)
    spread = {arm: float(np.var(found, ddof=1)) for arm, found in values.items()}
    pooled = (spread["calm"] + spread["wild"]) / 2
    wild = spread["wild"] / c4(3) ** 2
    assert made.standard_error == pytest.approx(math.sqrt((wild + pooled) / 4))
    assert made.df == pytest.approx((wild + pooled) ** 2 / (wild**2 / 3 + pooled**2 / 6))
    assert made.p == pytest.approx(2 * stats.t.sf(abs(made.value / made.standard_error), made.df))  # type: ignore[operator]


def test_the_mean_of_the_others_has_the_variance_of_a_mean() -> None:
    """Three arms with equal noise: own less the mean of two has sigma^2 (1/n + 1/2n)."""
    rows = [
        Result(arm, "t", i, value=0.5 + 0.01 * ((3 * i + shift) % 20))
        for shift, arm in enumerate("xyz")
        for i in range(20)
    ]
    made = contrast("q", "t", {"x": 1.0, "y": -0.5, "z": -0.5}, rows)
    square = float(np.var([0.01 * k for k in range(20)], ddof=1)) / c4(19) ** 2
    assert made.standard_error == pytest.approx(math.sqrt(square * (1 / 20 + 0.5 / 20)))


def test_gaps_are_shown_and_not_decided() -> None:
    rows = study({("a", "a"): 0.3})
    rows.append(Result("b", "a", 9, 0, None, "running"))
    found = specificity(rows, TASKS, TASKS)[0].against_others
    assert found.value is not None
    assert (found.p, found.verdict) == (None, "undecided")
    assert found.reason == "runs without a value: 1 running"
    assert closed([found])[0].p_adjusted is None


def test_one_lucky_search_is_no_architecture() -> None:
    """The same seeds' spread with searches that lie far apart: nothing is decided."""
    rows = [
        Result(arm, "a", run, search, 0.5 + (0.2 if arm == "a" and search else 0.0) + 0.001 * run)
        for arm in TASKS
        for search in range(2)
        for run in range(3)
    ]
    assert not specificity(rows, TASKS, ("a",))[0].against_others.decided


def test_the_index_is_in_units_of_the_room_above_chance() -> None:
    found = specificity(study({(t, t): 0.2 for t in TASKS}), TASKS, TASKS)
    index = specificity_index(found, dict.fromkeys(TASKS, 0.5), {})
    assert index.value == pytest.approx(0.4, abs=0.05)
    assert index.low is not None
    assert index.low < index.value < index.high  # type: ignore[operator]
    partly = specificity_index(found, {"a": 0.5}, {})
    assert (partly.columns, partly.reason) == (1, "left out: b, c")
    assert specificity_index([], {}, {}).value is None


def test_the_index_of_nothing_covers_zero() -> None:
    """200 studies of no specificity: the 95 % interval misses 0 in about 5 % of them."""
    missed = 0
    for seed in range(200):
        index = specificity_index(specificity(study({}, seed), TASKS, TASKS), dict.fromkeys(TASKS, 0.0), {})
        missed += not index.low < 0 < index.high  # type: ignore[operator]
    assert missed <= 18


def test_the_searches_of_the_arm_asked_about_are_taken_to_lie_further_apart() -> None:
    """The pooled search mean square enters with its factor for the own row, and once for the others."""
    rows = [
        Result(arm, "t", seed, search, 0.5 + 0.06 * search + 0.005 * seed)
        for arm in ("x", "y", "z") for search in (0, 1) for seed in (-1, 0, 1)
    ]  # fmt: skip
    made = contrast("q", "t", {"x": 1.0, "y": -0.5, "z": -0.5}, rows)
    square = 3 * 0.06**2 / 2
    assert made.standard_error == pytest.approx(math.sqrt((SEARCH_RATIO**2 + 0.5) * square / 6))
    assert made.df == pytest.approx(3)  # one estimate, three arms of two searches


def test_a_single_run_shows_no_noise_of_its_own() -> None:
    rows = [Result("many", "t", s, value=0.5 + 0.01 * s) for s in range(4)]
    few = contrast("q", "t", {"one": 1.0, "many": -1.0}, [*rows, Result("one", "t", 0, value=0.6)])
    sd = float(np.std([0.01 * s for s in range(4)], ddof=1))
    assert few.standard_error == pytest.approx(sd * math.sqrt(NOISE_RATIO**2 + 1 / 4 / c4(3) ** 2))
