"""The published rank transfer, with the p it never had (audits.md section 4)."""

import itertools

import numpy as np
import pytest
from scipy import stats

from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.ranks import critical_rho, fisher_interval, permutation_p, spearman, t_p

RHO = 1 - 6 * 210 / 990


def test_the_published_rho_has_p_045():
    assert pytest.approx(-0.272727, abs=1e-6) == RHO
    assert t_p(RHO, 10) == pytest.approx(0.4458, abs=5e-5)
    assert permutation_p(RHO, 10) == pytest.approx(0.448, abs=1e-3)
    assert fisher_interval(RHO, 10) == pytest.approx((-0.77, 0.43), abs=5e-3)


def sizes_behind(rho, sizes):
    """(n, sum of squared rank differences) that round to a published rho; the sum is even without ties."""
    found = []
    for n in sizes:
        whole = n**3 - n
        found += [(n, d) for d in range(0, whole // 3 + 1, 2) if abs(1 - 6 * d / whole - rho) <= 0.005]
    return found


def test_which_sizes_could_have_given_it():
    assert (10, 210) in sizes_behind(-0.27, [10])
    assert (9, 152) in sizes_behind(-0.27, [9])
    assert sizes_behind(-0.27, [6, 7, 8]) == []
    assert (7 - 1) ** 2 + (10 - 3) ** 2 + (1 - 6) ** 2 == 110


def test_what_rho_ten_arms_need():
    assert 0.636 <= critical_rho(10) <= 0.649
    with pytest.raises(AnalysisError, match="no order of 3 arms"):
        critical_rho(3)
    with pytest.raises(AnalysisError, match="3 to 12 arms, not 40"):
        critical_rho(40)


@pytest.mark.parametrize("ties", [False, True])
def test_the_exact_permutation_p_counts_every_order(ties):
    rng = np.random.default_rng(4)
    x, y = rng.integers(0, 4 if ties else 1000, 6).astype(float), rng.standard_normal(6)
    x[0] = -1.0
    found = spearman(x, y)
    ours, theirs = stats.rankdata(x), stats.rankdata(y)
    rhos = [np.corrcoef(ours, order)[0, 1] for order in itertools.permutations(theirs)]
    assert found.exact
    assert found.p_permutation == pytest.approx(np.mean(np.abs(rhos) >= abs(found.rho) - 1e-9))
    assert found.rho == pytest.approx(stats.spearmanr(x, y).statistic)
    assert found.p == pytest.approx(stats.spearmanr(x, y).pvalue)


def test_many_arms_are_drawn_and_say_so():
    rng = np.random.default_rng(5)
    x = rng.standard_normal(30)
    found = spearman(x, x + 2 * rng.standard_normal(30))
    assert not found.exact
    assert found.p_permutation == pytest.approx(found.p, abs=0.02)


def test_perfect_order():
    found = spearman([1, 2, 3], [2, 4, 9])
    assert (found.rho, found.low, found.high) == (pytest.approx(1.0), -1.0, 1.0)
    assert found.p > 0.5  # three arms cannot show an order
    assert found.p_permutation == pytest.approx(2 / 6)


def test_refusals():
    with pytest.raises(AnalysisError, match="there are 2 and 2"):
        spearman([1, 2], [1, 2])
    with pytest.raises(AnalysisError, match="same value"):
        spearman([1, 1, 1], [1, 2, 3])


def test_a_perfect_order_of_few_arms_is_not_certain():
    found = spearman([1, 2, 3, 4, 5], [2, 3, 5, 7, 11])
    assert (found.rho, found.high) == (pytest.approx(1.0), 1.0)
    assert found.low < 0.3
    assert 0.01 < found.p < 0.05  # that of one swap, 0.9: not 0
    assert found.p_permutation == pytest.approx(2 / 120)
    turned = spearman([1, 2, 3, 4, 5], [11, 7, 5, 3, 2])
    assert (turned.low, turned.high) == (-1.0, pytest.approx(-found.low))
