"""Corrections against statsmodels, and the published fixture (audits.md 3.4)."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from sweeps.analysis.corrections import (
    adjust,
    adjust_array,
    critical_z,
    family_wise_error,
    holm_levels,
    log_bonferroni,
)
from sweeps.analysis.errors import AnalysisError

FIXTURE = (4.47, 3.19, 2.51, 2.15, 2.10, 2.05, 1.80, 1.23, 0.81, 0.40, 0.10)
FIXTURE += (-0.60, -1.50, -2.60, -4.20, -9.79, -28.80, -29.47, -77.70)
SURVIVE = {4.47, 3.19, -4.20, -9.79, -28.8, -29.47, -77.7}
STATSMODELS = {"bh": "fdr_bh", "by": "fdr_by"}


@pytest.mark.parametrize("correction", ["bonferroni", "sidak", "holm", "hommel", "bh", "by"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 19])
def test_every_correction_agrees_with_statsmodels(correction, size):
    rng = np.random.default_rng(size)
    p = rng.uniform(size=(6, size)) ** 3
    ours = adjust_array(p, correction)
    for row, expected in zip(ours, p, strict=True):
        theirs = multipletests(expected, method=STATSMODELS.get(correction, correction))[1]
        np.testing.assert_allclose(row, theirs, rtol=1e-12)


@pytest.mark.parametrize(
    ("correction", "expected"),
    [(name, SURVIVE) for name in ("bonferroni", "sidak", "holm", "hommel", "by")] + [("bh", SURVIVE | {2.51, -2.60})],
)
def test_the_published_fixture_rejects_what_it_should(correction, expected):
    p = [2 * float(stats.norm.sf(abs(z))) for z in FIXTURE]
    adjusted = adjust(p, correction)
    assert {z for z, q in zip(FIXTURE, adjusted, strict=True) if q < 0.05} == expected


def test_a_member_without_a_p_value_stays_in_the_family():
    assert adjust([0.01, None, 0.04], "bonferroni") == [pytest.approx(0.03), None, pytest.approx(0.12)]
    assert adjust([0.01], "holm", family=19) == [pytest.approx(0.19)]
    assert adjust([], "holm") == []
    assert adjust([0.2, None], "none") == [0.2, None]


def test_holm_levels_agree_with_adjusted_p():
    rng = np.random.default_rng(0)
    for _ in range(50):
        p = list(rng.uniform(size=9) ** 4)
        levels, adjusted = holm_levels(p, 0.05), adjust(p, "holm")
        assert [a < 0.05 for a in adjusted] == [x < level for x, level in zip(p, levels, strict=True)]


def test_published_thresholds():
    assert family_wise_error(0.05, 19) == pytest.approx(0.622646, abs=1e-6)
    assert family_wise_error(0.05, 20) == pytest.approx(0.641514, abs=1e-6)
    assert critical_z(0.05, 19) == pytest.approx(3.007787, abs=1e-6)
    assert critical_z(0.05, 19, "sidak") == pytest.approx(3.000428, abs=1e-6)


def test_log_bonferroni_never_reaches_above_one():
    assert log_bonferroni(-1000.0, 19) == pytest.approx(-1000 + np.log(19))
    assert log_bonferroni(-1.0, 19) == 0.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.1], "dunnett"), "cannot adjust bare p-values; choose from none, bonferroni"),
        (([1.5], "holm"), r"p-value 1.5 lies outside \[0, 1\]"),
        (([0.1, 0.2], "holm", 1), "a family of 1 cannot hold 2 p-values"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(AnalysisError, match=message):
        adjust(*arguments)
