"""Two-sample tests on the fixture of audits.md 3.4."""

import pytest

from sweeps.analysis import contrasts
from sweeps.analysis.errors import AnalysisError

ARM = (0.4908, 0.4925, 0.4933)
BASE = (0.4805, 0.4832, 0.4850)


def test_welch():
    found = contrasts.welch(ARM, BASE)
    assert found.difference == pytest.approx(0.0093, abs=1e-6)
    assert found.standard_error == pytest.approx(0.00150111, abs=1e-8)
    assert found.statistic == pytest.approx(6.195413, abs=1e-6)
    assert found.df == pytest.approx(3.154408, abs=1e-6)
    assert found.p == pytest.approx(0.00729909, abs=1e-8)
    assert found.low < found.difference < found.high


def test_student_and_paired():
    assert contrasts.pooled(ARM, BASE).p == pytest.approx(0.00345118, abs=1e-8)
    assert contrasts.pooled(ARM, BASE).df == 4
    found = contrasts.paired(ARM, BASE)
    assert found.statistic == pytest.approx(16.108073, abs=1e-6)
    assert found.df == 2
    assert found.p == pytest.approx(0.00383187, abs=1e-8)
    assert contrasts.pair_correlation(ARM, BASE) == pytest.approx(0.995956, abs=1e-6)


def test_effect_sizes():
    assert contrasts.cohen_d(ARM, BASE) == pytest.approx(5.058533, abs=1e-6)
    assert contrasts.hedges_g(ARM, BASE) == pytest.approx(4.046827, abs=1e-6)


def test_bartlett():
    assert contrasts.bartlett_p([ARM, BASE]) == pytest.approx(0.479806, abs=1e-6)
    assert contrasts.bartlett_p([ARM, (0.5,)]) is None
    assert contrasts.bartlett_p([ARM, (0.5, 0.5)]) is None


def test_permutation_states_its_floor():
    found = contrasts.permutation(ARM, BASE)
    assert (found.p, found.floor, found.relabellings) == (pytest.approx(0.1), pytest.approx(0.1), 20)
    mixed = contrasts.permutation((1.0, 4.0), (2.0, 3.0, 5.0))
    assert mixed.floor == pytest.approx(0.1)
    assert mixed.p > 0.5
    with pytest.raises(AnalysisError, match="too many to enumerate"):
        contrasts.permutation(range(20), range(20))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: contrasts.welch([0.5], BASE), "one run has no spread"),
        (lambda: contrasts.pooled([0.5, 0.5], [0.5, 0.5]), "all values are equal"),
        (lambda: contrasts.paired(ARM, BASE[:2]), "3 runs cannot be paired with 2"),
        (lambda: contrasts.from_error("t", 1.0, 0.0, 4), "no spread"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")
def test_refusals(call, message):
    with pytest.raises(AnalysisError, match=message):
        call()
