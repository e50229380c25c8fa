"""Dunnett's integral against scipy's and against known tables."""

import math

import numpy as np
import pytest
from scipy import stats

from sweeps.analysis import student
from sweeps.analysis.dunnett import adjusted_p, critical_value, exceedance

HALF = math.sqrt(0.5)


@pytest.mark.parametrize("sizes", [(3, 3, 3, 3), (6, 2, 3, 4, 5)])
def test_it_agrees_with_scipy(sizes):
    rng = np.random.default_rng(0)
    groups = [rng.standard_normal(n) + 0.7 * i for i, n in enumerate(sizes)]
    theirs = stats.dunnett(*groups[1:], control=groups[0], rng=np.random.default_rng(1))
    df = sum(sizes) - len(sizes)
    loadings = [math.sqrt((1 / sizes[0]) / (1 / sizes[0] + 1 / n)) for n in sizes[1:]]
    ours = adjusted_p(theirs.statistic, [df] * len(loadings), loadings)
    np.testing.assert_allclose(ours, theirs.pvalue, atol=2e-4)


@pytest.mark.parametrize(
    ("arms", "df", "expected"), [(2, 10, 2.57), (3, 10, 2.76), (9, 20, 2.95), (9, math.inf, 2.69), (2, 5, 3.03)]
)
def test_published_critical_values(arms, df, expected):
    assert critical_value(0.05, df, [HALF] * arms) == pytest.approx(expected, abs=0.006)


@pytest.mark.parametrize("df", [1, 2, 3, 6, 12, 40, math.inf])
@pytest.mark.parametrize("t", [0.5, 2.0, 5.0])
def test_one_arm_is_the_plain_t(df, t):
    assert exceedance(t, df, np.array([HALF])) == pytest.approx(student.two_sided_p(t, df), rel=2e-4)


def test_without_correlation_it_is_sidak():
    assert exceedance(2.0, math.inf, np.zeros(5)) == pytest.approx(1 - (1 - student.two_sided_p(2.0, math.inf)) ** 5)


def test_p_lies_between_the_plain_and_bonferronis_however_far_out():
    for t in (0.1, 3.0, 30.0, 300.0):
        (p,) = set(adjusted_p([t] * 4, [12] * 4, [HALF] * 4))
        alone = student.two_sided_p(t, 12)
        assert alone <= p <= min(1.0, 4 * alone)


def test_each_contrast_may_have_its_own_degrees_of_freedom():
    few, many = adjusted_p([4.0, 4.0], [3, 30], [HALF, HALF])
    assert few > many


def test_one_sided_agrees_with_scipy():
    rng = np.random.default_rng(2)
    groups = [rng.standard_normal(4) + 0.5 * i for i in range(4)]
    theirs = stats.dunnett(*groups[1:], control=groups[0], alternative="greater", rng=np.random.default_rng(1))
    ours = adjusted_p(theirs.statistic, [12] * 3, [HALF] * 3, one_sided=True)
    np.testing.assert_allclose(ours, theirs.pvalue, atol=2e-4)


@pytest.mark.parametrize("shared", [True, False])
def test_it_is_the_probability_it_says(shared):
    rng = np.random.default_rng(3)
    draws, arms, df = 400_000, 4, 3
    numerators = HALF * rng.standard_normal((draws, 1)) + HALF * rng.standard_normal((draws, arms))
    scales = np.sqrt(rng.chisquare(df, (draws, 1 if shared else arms)) / df)
    simulated = (np.abs(numerators / scales).max(axis=1) >= 4.0).mean()
    assert exceedance(4.0, df, np.full(arms, HALF), shared=shared) == pytest.approx(simulated, abs=0.002)
