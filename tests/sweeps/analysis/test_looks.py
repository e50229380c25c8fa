"""Group-sequential boundaries against the tables of Lan & DeMets' method."""

import numpy as np
import pytest
from scipy import stats

from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.looks import Look, boundaries, nominal_levels, planned_look, spent
from sweeps.analysis.results import Result

FIFTHS = (0.2, 0.4, 0.6, 0.8, 1.0)


@pytest.mark.parametrize(
    ("fractions", "spending", "expected"),
    [
        (FIFTHS, "obrien-fleming", (4.8769, 3.3569, 2.6803, 2.2898, 2.0310)),
        ((0.5, 1.0), "obrien-fleming", (2.9626, 1.9686)),
        (FIFTHS, "pocock", (2.4380, 2.4268, 2.4101, 2.3966, 2.3859)),
        ((1.0,), "obrien-fleming", (1.9600,)),
    ],
)
def test_published_boundaries(fractions, spending, expected):
    assert boundaries(fractions, 0.05, spending) == pytest.approx(expected, abs=6e-4)


@pytest.mark.parametrize("spending", ["obrien-fleming", "pocock"])
def test_looking_five_times_still_costs_five_percent(spending):
    rng = np.random.default_rng(0)
    z = np.cumsum(rng.standard_normal((100_000, 5)), axis=1) / np.sqrt(np.arange(1, 6))
    crossed = (np.abs(z) > boundaries(FIFTHS, 0.05, spending)).any(axis=1).mean()
    assert crossed == pytest.approx(0.05, abs=3 * np.sqrt(0.05 * 0.95 / 1e5))
    assert (np.abs(z) > 1.96).any(axis=1).mean() > 0.13  # what it costs without


def test_all_of_alpha_is_spent_at_the_end():
    assert spent(1.0, 0.05) == pytest.approx(0.05)
    assert spent(1.0, 0.05, "pocock") == pytest.approx(0.05)
    assert spent(0.2, 0.05) == pytest.approx(4 * stats.norm.sf(stats.norm.isf(0.0125) / np.sqrt(0.2)), rel=1e-5)


def test_a_look_gives_its_nominal_level():
    look = Look((0.5, 1.0), now=1)
    assert look.level(0.05) == pytest.approx(0.00305, abs=1e-5)
    assert Look((0.5, 1.0), now=2).level(0.05) == pytest.approx(nominal_levels((0.5, 1.0))[1])
    assert Look().level(0.05) == pytest.approx(0.05)


def test_the_look_that_the_finished_runs_have_reached():
    def runs(done, failed, running):
        reasons = [None] * done + ["failed: oom"] * failed + ["running"] * running
        return [Result("a", "t", s, value=None if r else 0.5, reason=r) for s, r in enumerate(reasons)]

    looks = (0.5, 1.0)
    assert planned_look(looks, runs(1, 0, 3)) is None
    assert planned_look(looks, runs(2, 1, 1)) == Look(looks, 1)
    assert planned_look(looks, [*runs(3, 1, 0), Result("b", "t", 0, reason="not planned: excluded")]) == Look(looks, 2)
    assert planned_look((1.0,), runs(4, 0, 0)) is None  # no look but the last costs nothing


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Look((0.5, 1.0), now=3).level(0.05), "look 3 was not planned .* exploratory"),
        (lambda: boundaries((0.5, 0.4, 1.0)), "rise to 1"),
        (lambda: boundaries((0.5,)), "rise to 1"),
        (lambda: boundaries((1.0,), 0.05, "haybittle"), "choose from obrien-fleming, pocock"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(AnalysisError, match=message):
        call()
