"""Stouffer's sum with dependence (audits.md 3.4)."""

import numpy as np
import pytest

from sweeps.analysis.combining import mean_correlation, stouffer
from sweeps.analysis.errors import AnalysisError


def test_the_published_pair():
    independent, dependent = stouffer([1.0] * 12), stouffer([1.0] * 12, 0.2)
    assert (independent.z, independent.p) == (pytest.approx(3.4641, abs=5e-5), pytest.approx(2.66e-4, abs=1e-6))
    assert (dependent.z, dependent.p) == (pytest.approx(1.9365, abs=5e-5), pytest.approx(0.0264, abs=5e-5))


def test_the_correlation_it_is_paid_for_with_is_recovered():
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((4000, 1))
    tasks = np.sqrt(0.3) * shared + np.sqrt(0.7) * rng.standard_normal((4000, 6))
    rho = mean_correlation(tasks)
    assert rho == pytest.approx(0.3, abs=0.03)
    sums = [stouffer(row, rho).z for row in tasks]
    assert np.std(sums) == pytest.approx(1.0, abs=0.04)


def test_refusals():
    with pytest.raises(AnalysisError, match="no statistics"):
        stouffer([])
    with pytest.raises(AnalysisError, match=r"correlation of -0\.5 is impossible for 12 tasks"):
        stouffer([1.0] * 12, -0.5)
    with pytest.raises(AnalysisError, match="3 runs and 2 tasks"):
        mean_correlation([[1.0, 2.0], [2.0, 1.0]])
