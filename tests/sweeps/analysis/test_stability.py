"""Cross-scale stability on the published counts (audits.md section 4)."""

import numpy as np
import pytest

from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.stability import Effect, clopper_pearson, compare_scales, deming, reliability

SMALL = [(11 - rank) * 0.001 for rank in range(1, 11)]
# Ranks at the larger scale with sum d^2 = 210, among them the known moves 7 -> 1, 10 -> 3 and 1 -> 6.
LARGE_RANKS = (6, 2, 7, 8, 10, 9, 1, 5, 4, 3)


def effects(noise=0.002):
    return [Effect(f"arm{i}", small, noise, (11 - LARGE_RANKS[i]) * 0.001, noise) for i, small in enumerate(SMALL)] + [
        Effect(f"lost{i}", 0.001, noise, diverged=(3, 3)) for i in range(3)
    ]


def test_the_published_reshuffle():
    assert sum((i + 1 - r) ** 2 for i, r in enumerate(LARGE_RANKS)) == 210
    found = compare_scales(effects())
    assert found.ranks.rho == pytest.approx(-0.272727, abs=1e-6)
    assert found.ranks.p_permutation == pytest.approx(0.448, abs=1e-3)
    assert (found.same_sign.count, found.arms) == (10, 10)
    assert found.sign_p == pytest.approx(2**-10)
    assert (found.diverged.count, found.diverged.total) == (3, 13)
    assert "10 of the 10 arms" in found.words
    assert "cannot be told from no rank transfer" in found.words
    assert "3 of 13 arms diverged in every seed" in found.words


def test_divergence_rates():
    assert (clopper_pearson(3, 13).low, clopper_pearson(3, 13).high) == pytest.approx((0.050, 0.538), abs=5e-4)
    assert clopper_pearson(3, 3).low == pytest.approx(0.292, abs=5e-4)
    with pytest.raises(AnalysisError, match="4 of 3 is no share"):
        clopper_pearson(4, 3)


def test_noise_shrinks_the_correlation_it_is_said_to():
    rng = np.random.default_rng(0)
    true, noise = rng.standard_normal(1000), 0.8
    small, large = (true + noise * rng.standard_normal(1000) for _ in range(2))
    found = compare_scales(
        [Effect(str(i), a, noise, b, noise) for i, (a, b) in enumerate(zip(small, large, strict=True))]
    )
    assert found.attenuation == pytest.approx(1 / (1 + noise**2), abs=0.03)
    assert found.ranks.rho == pytest.approx(found.attenuation, abs=0.07)
    assert found.disattenuated == pytest.approx(1, abs=0.06)


def test_an_order_of_pure_noise_has_no_reliability():
    assert reliability([0.1, 0.2, 0.3], [1.0, 1.0, 1.0]) == 0
    assert reliability([0.1], [0.0]) == 0
    found = compare_scales(effects(noise=1.0))
    assert found.attenuation is None
    assert found.disattenuated is None


def test_deming_with_equal_errors_is_the_major_axis():
    rng = np.random.default_rng(1)
    x = rng.standard_normal(3000)
    y = 0.5 * x + 0.4 * rng.standard_normal(3000)
    noisy = x + 0.4 * rng.standard_normal(3000)
    assert deming(noisy, y, 0.4, 0.4) == pytest.approx(0.5, abs=0.03)
    assert float(noisy @ y / (noisy @ noisy)) < 0.46  # least squares is attenuated
    with pytest.raises(AnalysisError, match="positive standard error"):
        deming([1.0], [1.0], 0.0, 1.0)


def test_nothing_finished():
    with pytest.raises(AnalysisError, match="no arm finished"):
        compare_scales([Effect("a", 0.1, 0.1, diverged=(3, 3))])


def test_what_all_effects_share_is_no_noise_of_their_order():
    """The baseline's mean is off by as much for every arm: it lowers no reliability."""
    both = [
        Effect(f"arm{i}", small, 0.01, small, 0.01, small_noise=1e-6, large_noise=1e-6) for i, small in enumerate(SMALL)
    ]
    found = compare_scales(both)
    assert found.attenuation == pytest.approx(1, abs=1e-3)
    assert compare_scales([Effect(e.arm, e.small, 0.01, e.large, 0.01) for e in both]).attenuation is None


def test_noise_does_not_flatten_the_slope():
    rng = np.random.default_rng(4)
    true = np.linspace(-1, 1, 40)
    small, large = true + 0.4 * rng.standard_normal(40), 0.8 * true + 0.4 * rng.standard_normal(40)
    found = compare_scales([Effect(str(i), a, 0.4, b, 0.4) for i, (a, b) in enumerate(zip(small, large, strict=True))])
    assert found.slope is not None
    assert found.slope.low < 0.8 < found.slope.high
    assert found.slope.high - found.slope.low < 1
    assert compare_scales(effects(noise=0.0)).slope is None
