"""Power, detectable effects, seeds and provable margins (audits.md 3.4)."""

import math

import pytest
from scipy import stats

from sweeps.analysis.default_power import (
    Plan,
    detectable_by_default,
    provable_by_default,
    seeds_by_default,
    thresholds,
)
from sweeps.analysis.equivalence import provable_margin, tost_p
from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.options import Options
from sweeps.analysis.power import detectable, power, seeds_for
from sweeps.analysis.power_line import power_line

SIGMA = 0.00208
STRICT = 0.05 / 19


@pytest.mark.parametrize(
    ("n", "own", "own_strict", "three", "three_strict", "twenty_strict"),
    [
        (2, 0.01176, 0.05143, 0.00885, 0.02430, 0.00904),
        (3, 0.00639, 0.01415, 0.00572, 0.01046, 0.00693),
        (4, 0.00495, 0.00906, 0.00463, 0.00759, None),
        (8, 0.00313, 0.00479, 0.00306, 0.00449, None),
        (10, 0.00276, 0.00410, None, None, None),
    ],
)
def test_the_published_detectable_effects(n, own, own_strict, three, three_strict, twenty_strict):
    cases = [(own, 2, 0.05), (own_strict, 2, STRICT), (three, 3, 0.05), (three_strict, 3, STRICT)]
    for expected, arms, alpha in [*cases, (twenty_strict, 20, STRICT)]:
        if expected is not None:
            found = detectable(SIGMA, n, n, arms * (n - 1), alpha)
            assert found == pytest.approx(expected, abs=5.1e-6)
            assert power(found, SIGMA, n, n, arms * (n - 1), alpha) == pytest.approx(0.8, abs=1e-6)


@pytest.mark.parametrize(
    ("df", "alpha", "expected"),
    [(2, 0.05, 0.01358), (6, 0.05, 0.00809), (2, STRICT, 0.05939), (6, STRICT, 0.01479)],
)
def test_one_run_against_three(df, alpha, expected):
    assert detectable(SIGMA, 1, 3, df, alpha) == pytest.approx(expected, abs=5.1e-6)


def test_power_of_the_published_claims():
    assert power(0.0093, SIGMA, 3, 3, 6, STRICT) == pytest.approx(0.676, abs=6e-4)
    assert power(0.0093, SIGMA, 3, 3, 4, STRICT) == pytest.approx(0.395, abs=6e-4)
    assert power(0.0066, SIGMA, 1, 3, 6, STRICT) == pytest.approx(0.122, abs=1.5e-3)


@pytest.mark.parametrize(
    ("effect", "plain", "strict"),
    [(0.002, 18, 35), (0.003, 9, 17), (0.004, 6, 11), (0.005, 4, 8), (0.0066, 3, 6), (0.0093, 3, 4)],
)
def test_seeds_for_an_effect(effect, plain, strict):
    assert seeds_for(effect, SIGMA) == plain
    assert seeds_for(effect, SIGMA, STRICT) == strict


@pytest.mark.parametrize("df", [1, 2, 4, 30])
@pytest.mark.parametrize("effect", [0.0, 0.7, 2.5])
def test_power_agrees_with_the_noncentral_t(df, effect):
    limit = stats.t.isf(0.025, df)
    expected = stats.nct.sf(limit, df, effect / math.sqrt(2)) + stats.nct.cdf(-limit, df, effect / math.sqrt(2))
    assert power(effect, 1.0, 1, 1, df) == pytest.approx(expected, abs=1e-7)


def test_an_infinite_df_is_the_normal():
    assert power(0.0, 1.0, 1, 1, math.inf) == pytest.approx(0.05)
    assert detectable(1.0, 1, 1, math.inf) == pytest.approx(math.sqrt(2) * (1.959964 + 0.841621), abs=1e-4)


@pytest.mark.parametrize(
    ("n", "df", "expected"), [(3, 4, 0.00608), (3, 6, 0.00565), (5, 8, 0.00423), (8, 14, 0.00320), (10, 18, 0.00283)]
)
def test_provable_margins(n, df, expected):
    found = provable_margin(SIGMA, n, n, df)
    assert found == pytest.approx(expected, abs=5.1e-6)
    assert provable_margin(SIGMA, n, n, df, power=0.9) > found


def test_equivalence_is_the_90_percent_interval_inside_the_margin():
    limit = stats.t.isf(0.05, 4)
    assert tost_p(0.5, 1.0, 4, 0.5 + limit) == pytest.approx(0.05)
    assert tost_p(-0.5, 1.0, 4, 0.5 + limit) == pytest.approx(0.05)
    assert tost_p(0.0, 1.0, 4, 0.1) > 0.4


@pytest.mark.parametrize(
    ("seeds", "arms", "sigma", "words"),
    [
        (3, 19, 0.00208, "3 seeds x 19 arms against the baseline see effects from 0.0126 (noise floor 0.00208)"),
        (3, 19, 0.00208, "by the default rule; where all spreads are equal, sigma pooled would see 0.00693"),
        (3, 1, None, "3 seeds x 1 arm against the baseline see effects from 3.9 seed sd"),
        (2, 4, None, "nothing is decided below 3 baseline seeds"),
        (1, 4, 0.1, "1 seed an arm has no noise floor"),
        (5, 0, None, "no arm to compare"),
    ],
)
def test_the_line_of_a_plan(seeds, arms, sigma, words):
    assert words in power_line(seeds, arms, sigma)


def test_the_line_is_of_the_rule_that_decides():
    pooled = power_line(3, 19, 0.00208, Options("b", sigma="pooled", correction="holm"))
    assert "see effects from 0.00693 (noise floor 0.00208) with 80 % power, family-wise 0.05, sigma pooled" in pooled
    assert "seed sd" not in pooled
    assert "0.0142" in power_line(3, 19, 0.00208, Options("b", sigma="own"))  # audits.md 3.4: own df, .05/19
    matrix = power_line(6, 8, columns=8, matrix=True, searched=True)
    assert "family-wise 0.05 over 8 columns, by the matrix and its guard" in matrix
    assert "how far searches lie apart comes on top" in matrix


@pytest.mark.parametrize(
    ("plan", "effect", "simulated"), [((3, 3, 19), 4.0, 0.48), ((6, 6, 19), 4.0, 0.99), ((1, 3, 19), 20.0, 0.18)]
)
def test_power_of_the_default_rule_is_what_the_simulation_finds(plan, effect, simulated):
    """docs/statistics.md, `auto, dunnett`, equal normal noise: 2,000 tables, a standard error of 0.011."""
    assert thresholds(Plan(*plan)).power(effect) == pytest.approx(simulated, abs=0.025)
    assert thresholds(Plan(*plan)).power(0.0) * 19 < 0.05


def test_the_default_rule_needs_more_than_a_pooled_sigma():
    found = detectable_by_default(Plan(3, 3, 19), SIGMA)
    assert thresholds(Plan(3, 3, 19)).power(found / SIGMA) == pytest.approx(0.8)
    assert found > detectable(SIGMA, 3, 3, 40, STRICT)
    assert seeds_by_default(1.001 * found / SIGMA, 1.0, 19) == 3
    assert seeds_by_default(1.0, 1.0, 1) >= seeds_for(1.0, 1.0)
    margin = provable_by_default(Plan(3, 3, 19), SIGMA)
    assert thresholds(Plan(3, 3, 19)).power_at_zero(margin / SIGMA) == pytest.approx(0.8)
    single = detectable_by_default(Plan(1, 3, 19))
    assert single > detectable_by_default(Plan(3, 3, 19, seen=False)) > detectable_by_default(Plan(3, 3, 19))
    assert single > detectable_by_default(Plan(1, 3, 19, others_df=36))
    with pytest.raises(AnalysisError, match="decides nothing with 2 baseline seeds"):
        thresholds(Plan(3, 2, 4))
    with pytest.raises(AnalysisError, match="more than 1000 seeds"):
        seeds_by_default(1e-4, 1.0, 19)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: detectable(0.0, 3, 3, 4), "sigma is 0.0"),
        (lambda: detectable(1.0, 1, 1, 0), "no degree of freedom"),
        (lambda: seeds_for(0.0, 1.0), "effect of 0"),
        (lambda: seeds_for(1e-6, 1.0), "more than 10000 seeds"),
        (lambda: seeds_for(1.0, 1.0, alpha=2), "alpha is 2"),
        (lambda: seeds_for(1.0, 1.0, wanted=0.01), "power 0.01"),
        (lambda: tost_p(0.0, 1.0, 4, 0.0), "margin 0.0 must be positive"),
        (lambda: tost_p(0.0, 0.0, 4, 1.0), "no spread"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(AnalysisError, match=message):
        call()
