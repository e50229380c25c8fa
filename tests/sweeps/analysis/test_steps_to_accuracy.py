"""Speed with runs that never arrive, the area under a curve, and the spread between seeds."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from sweeps.analysis.results import Result
from sweeps.analysis.seed_spread import seed_spreads
from sweeps.analysis.steps_to_accuracy import Reached, area, reached, speed


def test_when_a_curve_arrives() -> None:
    assert reached([10, 20, 30], [0.1, 0.6, 0.5], 0.6) == Reached(20, False)
    assert reached([10, 20, 30], [0.1, 0.2, 0.5], 0.6) == Reached(30, True)
    assert reached([], [], 0.6) is None


def test_the_area_is_the_mean_height() -> None:
    assert area([0, 10, 40], [0.0, 1.0, 1.0]) == pytest.approx((5 + 30) / 40)
    assert area([10], [0.5]) is None


def runs(*steps: float, censored: tuple[int, ...] = ()) -> list[Reached]:
    return [Reached(step, index in censored) for index, step in enumerate(steps)]


def test_the_ratio_is_of_geometric_means_with_an_interval_that_decides_nothing() -> None:
    found = speed("t", "own", 0.5, {None: runs(100, 100, 100)}, runs(200, 200, 200))
    assert found.ratio == pytest.approx(2.0)
    assert (found.low, found.high) == (pytest.approx(2.0), pytest.approx(2.0))
    assert not found.decides
    assert found.bound == ""
    spread = speed("t", "own", 0.5, {1: runs(50, 100), 2: runs(200, 100)}, runs(100, 400))
    assert spread.ratio == pytest.approx(2.0)
    assert spread.low is not None
    assert spread.low < 2.0 < spread.high  # type: ignore[operator]


@pytest.mark.parametrize(
    ("ours", "theirs", "bound"),
    [
        (runs(100, 100), runs(200, 300, censored=(1,)), "at least"),
        (runs(100, 300, censored=(1,)), runs(200, 200), "at most"),
        (runs(100, 300, censored=(1,)), runs(200, 300, censored=(1,)), "bound unknown"),
    ],
)
def test_a_run_that_never_arrives_makes_the_ratio_a_bound(
    ours: list[Reached], theirs: list[Reached], bound: str
) -> None:
    found = speed("t", "own", 0.5, {None: ours}, theirs)
    assert found.bound == bound
    assert found.ratio is not None
    assert found.censored + found.baseline_censored >= 1


def test_without_anything_to_compare_there_is_a_reason() -> None:
    never = runs(300, 300, censored=(0, 1))
    assert speed("t", "own", 0.5, {None: never}, never).reason == "no run of either side reaches it"
    assert speed("t", "own", None, {None: never}, never).reason == "no target: the baseline has no value"
    assert speed("t", "own", 0.5, {}, never).reason == "no curve"


def spread_rows(arm: str, *values: float, diverged: bool = False) -> list[Result]:
    return [Result(arm, "t", seed, value=v, diverged=diverged) for seed, v in enumerate(values)]


def test_the_sd_ratio_has_its_f_interval() -> None:
    rows = spread_rows("gelu", 0.1, 0.3, 0.5, 0.7) + spread_rows("own", 0.50, 0.51, 0.52, 0.53)
    (found,) = seed_spreads(rows, "gelu", [("t", "own")])
    assert found.ratio == pytest.approx(0.05)
    tail = stats.f.ppf(0.975, 3, 3)
    assert found.low == pytest.approx(0.05 / math.sqrt(tail))
    assert found.high == pytest.approx(0.05 * math.sqrt(tail))
    assert found.verdict == "smaller"


def test_more_columns_widen_the_interval_and_diverged_runs_are_left_out() -> None:
    rows = spread_rows("gelu", 0.1, 0.3, 0.5) + spread_rows("own", 0.50, 0.51, 0.52)
    (alone,) = seed_spreads(rows, "gelu", [("t", "own")])
    among = seed_spreads(rows, "gelu", [("t", "own"), ("u", "own"), ("v", "own")])
    assert among[0].low < alone.low  # type: ignore[operator]
    assert among[1].reason == "own: one seed or none"
    lost = seed_spreads([*rows, Result("own", "t", 9, value=0.0, diverged=True)], "gelu", [("t", "own")])[0]
    assert (lost.arm_sd, lost.reason) == (alone.arm_sd, "1 diverged runs left out")


def test_equal_runs_have_no_ratio() -> None:
    (flat,) = seed_spreads(spread_rows("gelu", 0.1, 0.2) + spread_rows("own", 1, 1), "gelu", [("t", "own")])
    assert (flat.ratio, flat.low) == (0.0, None)
    (base,) = seed_spreads(spread_rows("gelu", 1, 1) + spread_rows("own", 0.1, 0.2), "gelu", [("t", "own")])
    assert base.ratio is None
