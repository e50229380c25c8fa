"""Loss against downstream on the published pairs (audits.md section 5)."""

import math

import pytest

from sweeps.analysis import decoupling as d
from sweeps.analysis.errors import AnalysisError

SIGMOID = d.Point("sigmoid", d.ATTENTION_OUTPUT, 2.4, -16.1, t=-67.3)
SSMAX = d.Point("ssmax", d.ATTENTION_OUTPUT, 3.0, -6.0, t=-25.0)
RESIDUAL = d.Point("attnres", "residual", 13.0, -6.13, t=-25.5)
POINTS = [SIGMOID, SSMAX, RESIDUAL]


def test_accuracy_points_per_percent_of_loss():
    per_percent = [p.accuracy / p.loss for p in POINTS]
    assert per_percent == pytest.approx([-6.71, -2.00, -0.47], abs=5e-3)
    assert per_percent[0] / per_percent[2] == pytest.approx(14, abs=0.3)
    assert per_percent[1] / per_percent[2] == pytest.approx(4.3, abs=0.1)
    assert d.slope(POINTS) == pytest.approx(-6.13 / 13)


def test_the_index_is_the_distance_from_the_loss_line_in_standard_errors():
    found = d.decoupling(POINTS, sigma_accuracy=0.208, sigma_loss=0.1, n_baseline=3)
    beta = -6.13 / 13
    error = math.sqrt(0.208**2 * (1 + 1 / 3) + (beta * 0.1) ** 2)
    assert found[0].index == pytest.approx((-16.1 - beta * 2.4) / error)
    assert found[2].index == pytest.approx(0, abs=1e-9)
    assert [f.masked for f in found] == [True, True, False]


def test_a_small_loss_is_a_lot_of_compute():
    assert [d.compute_lost(x) for x in (2.4, 3.0, 13.0)] == pytest.approx([0.38, 0.45, 0.91], abs=5e-3)
    assert d.relative_loss(2.06, 2.0) == pytest.approx(3.0)


def test_a_verdict_on_attention_output_must_not_rest_on_loss():
    untested = d.Point("softpick", d.ATTENTION_OUTPUT, 0.5, 0.0)
    assert "judged by loss alone" in d.loss_only_warning(untested)
    assert d.loss_only_warning(SIGMOID) is None
    assert d.loss_only_warning(d.Point("geglu", "MLP", 0.5, 0.0)) is None


def test_chance_correction():
    assert d.chance_corrected(0.31, 0.31) == 0
    assert d.chance_corrected(1.0, 0.31) == 1
    with pytest.raises(AnalysisError, match="chance level 1"):
        d.chance_corrected(0.5, 1)


def test_kendall_by_class():
    norms = [d.Point(str(i), "norm", i, -i) for i in range(4)]
    assert d.kendall_by_kind([*norms, RESIDUAL])["norm"][0] == pytest.approx(1.0)
    assert "residual" not in d.kendall_by_kind([*norms, RESIDUAL])


def test_refusals():
    with pytest.raises(AnalysisError, match="loss slope needs arms"):
        d.slope([SIGMOID])
    with pytest.raises(AnalysisError, match="both are 0"):
        d.decoupling(POINTS, sigma_accuracy=0, sigma_loss=0, n_baseline=3)
