"""Sigma and how well it is known (audits.md 3.3, point 1)."""

import math

import numpy as np
import pytest
from scipy import stats

from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.noise_floor import c4, pooled, sd_ratio, spread


@pytest.mark.parametrize(
    ("df", "low", "high", "bounds"),
    [(2, 0.5207, 6.2847, (0.00108, 0.01307)), (6, 0.6444, 2.2021, (0.00134, 0.00458))],
)
def test_the_interval_of_the_audits_sigma(df, low, high, bounds):
    found = spread(0.00208**2, df)
    assert (found.low / found.sd, found.high / found.sd) == pytest.approx((low, high), abs=1e-4)
    assert (found.low, found.high) == pytest.approx(bounds, abs=6e-6)


def test_three_runs_understate_sigma():
    assert c4(2) == pytest.approx(0.886227, abs=1e-6)
    assert spread(0.00208**2, 2).unbiased == pytest.approx(0.002347, abs=1e-6)
    assert c4(math.inf) == 1


def test_pooling_weights_by_degrees_of_freedom():
    found = pooled([(1.0, 2.0, 3.0), (5.0, 7.0), (9.0,)])
    assert found.df == 3
    assert found.sd == pytest.approx(math.sqrt((2 * 1 + 1 * 2) / 3))
    with pytest.raises(AnalysisError, match="no noise floor"):
        pooled([(1.0,), (2.0,)])


def test_the_ratio_of_spreads_covers_the_truth():
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(400):
        arm, base = pooled([rng.normal(scale=2, size=6)]), pooled([rng.normal(size=4)])
        ratio, low, high = sd_ratio(arm, base)
        assert low < ratio < high
        hits += low < 2 < high
    assert stats.binomtest(hits, 400, 0.95).pvalue > 0.001


def test_a_known_sigma_has_no_interval():
    found = spread(4.0, math.inf)
    assert (found.low, found.high, found.unbiased) == (2, 2, 2)
    with pytest.raises(AnalysisError, match="all equal"):
        sd_ratio(found, spread(0.0, 2))
