"""The bootstrap: enumerated where small, and never deciding with few seeds."""

import itertools

import numpy as np
import pytest

from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.resampling import hierarchical, item_variance, over_seeds, two_components


def test_three_seeds_a_side_are_enumerated():
    arm, base = (0.1, 0.5, 0.6), (0.0, 0.2, 0.3)
    found = over_seeds(arm, base)
    assert (found.enumerated, found.decides, found.outcomes) == (True, False, 100)
    everything = [
        np.mean(a) - np.mean(b) for a in itertools.product(arm, repeat=3) for b in itertools.product(base, repeat=3)
    ]
    assert found.low == pytest.approx(np.quantile(everything, 0.025, method="inverted_cdf"))
    assert found.high == pytest.approx(np.quantile(everything, 0.975, method="inverted_cdf"))


def test_at_three_seeds_the_percentile_interval_covers_far_less_than_it_says():
    rng = np.random.default_rng(0)
    hits = [f.low <= 0 <= f.high for f in (over_seeds(*rng.standard_normal((2, 3))) for _ in range(1500))]
    assert 0.75 < np.mean(hits) < 0.85


def test_many_seeds_are_drawn_and_agree_with_the_t_interval():
    rng = np.random.default_rng(1)
    arm, base = rng.standard_normal(60) + 1, rng.standard_normal(60)
    found = over_seeds(arm, base)
    assert (found.enumerated, found.decides) == (False, True)
    error = np.sqrt(np.var(arm, ddof=1) / 60 + np.var(base, ddof=1) / 60)
    assert found.high - found.low == pytest.approx(2 * 1.96 * error, rel=0.05)
    assert over_seeds(arm, base) == found


def test_every_level_adds_its_variance():
    rng = np.random.default_rng(2)
    searches, seeds, items = 12, 15, 40

    def side(search_sd):
        return [
            [rng.normal(rng.normal(0, search_sd), 0.1, (seeds, 1)) + rng.normal(0, 0.1, (seeds, items))]
            for _ in range(searches)
        ]

    narrow = hierarchical(side(0.0), side(0.0), draws=2000)
    wide = hierarchical(side(1.0), side(0.0), draws=2000)
    assert wide.high - wide.low > 5 * (narrow.high - narrow.low)
    assert (wide.high - wide.low) / 3.92 == pytest.approx(1 / np.sqrt(searches), rel=0.35)


def test_item_draws_are_shared():
    rng = np.random.default_rng(3)
    hard = rng.standard_normal((1, 200))  # one run each, equal but for a constant: items cancel
    found = hierarchical([[hard + 0.5]], [[hard]], draws=500)
    assert (found.low, found.high) == pytest.approx((0.5, 0.5))
    with pytest.raises(AnalysisError, match="differ in tasks or items"):
        hierarchical([[hard]], [[hard[:, :10]]])


def test_two_components():
    low, high = two_components(0.5, 0.04, 4)
    assert (high - low) / 2 == pytest.approx(0.2 * 2.776445, rel=1e-6)
    narrower, _ = two_components(0.5, 0.04, 4, item_variance=0.0)
    with_items, _ = two_components(0.5, 0.04, 4, item_variance=0.04)
    assert with_items != narrower
    only_items = two_components(0.0, 0.0, 4, item_variance=0.01)
    assert only_items[1] == pytest.approx(0.1959964, rel=1e-6)


def test_item_variance_is_paired_and_macro_averaged():
    ours, theirs = [[1.0, 0.0, 1.0, 1.0]], [[0.0, 0.0, 1.0, 0.0]]
    single = np.var([1, 0, 0, 1], ddof=1) / 4
    assert item_variance([ours], [theirs]) == pytest.approx(single)
    assert item_variance([ours, ours], [theirs, theirs]) == pytest.approx(single / 2)
