"""Means without a baseline: Student's interval, over searches where an arm was searched for, or a reason."""

from __future__ import annotations

import pytest
from scipy import stats

from sweeps.analysis.means import mean_of
from sweeps.analysis.results import Result


def results(*values: float | None, search: int | None = None) -> list[Result]:
    return [Result("a", "t", seed, search=search, value=v, reason=None if v is not None else "running")
            for seed, v in enumerate(values)]  # fmt: skip


def test_the_interval_is_students() -> None:
    values = (0.2, 0.5, 0.6, 0.4)
    found = mean_of("a", "t", results(*values), alpha=0.1)
    low, high = stats.t.interval(0.9, 3, loc=0.425, scale=stats.sem(values))
    assert (found.value, found.n) == (pytest.approx(0.425), 4)
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))


def test_a_searched_arm_is_as_sure_as_its_searches_agree() -> None:
    """Ten seeds of each of two searches are two draws of a search, not twenty."""
    found = mean_of("a", "t", results(*[0.1] * 10, search=1) + results(*[0.3] * 10, search=2))
    assert (found.n, found.searches) == (20, 2)
    assert found.low is not None
    assert found.low < 0 < 0.4 < found.high  # type: ignore[operator]


@pytest.mark.parametrize(
    ("found", "value", "reason"),
    [
        (results(None, None), None, "2 running"),
        ([], None, "no run"),
        (results(0.5), 0.5, "one seed: no interval"),
        (results(0.5, 0.5), 0.5, "every seed has this value: no interval"),
        (results(0.4, 0.5, None), 0.45, "without a value: 1 running"),
    ],
)
def test_what_is_missing_is_said(found: list[Result], value: float | None, reason: str) -> None:
    made = mean_of("a", "t", found)
    assert made.value == (None if value is None else pytest.approx(value))
    assert made.reason == reason
