"""Random words as a pure function of seed, stream, index and draw."""

from __future__ import annotations

import numpy as np
import pytest

from jobs.tasks.counter_rng import fingerprints, geometric, integers, item_keys, mix, stream_key, words


def test_mixing_is_the_finaliser_of_splitmix64():
    # First outputs of splitmix64 from state 0: the state is a multiple of the golden gamma.
    golden = np.array([0x9E3779B97F4A7C15], dtype=np.uint64)
    states = golden * np.arange(1, 4, dtype=np.uint64)
    assert [hex(int(w)) for w in mix(states)] == ["0xe220a8397b1dcdaf", "0x6e789e6aa1b965f4", "0x6c45d188009454f"]


def test_an_item_does_not_depend_on_the_others():
    key = stream_key(3, "copy", "train")
    alone = words(item_keys(key, np.array([70])), 5)
    among = words(item_keys(key, np.arange(100)), 5)
    assert alone[0] == among[70]
    assert words(item_keys(key, np.arange(100))[:, None], np.arange(9))[70, 5] == alone[0]


def test_seed_stream_index_and_draw_all_matter():
    seen = {
        int(words(item_keys(stream_key(seed, name), np.array([index])), draw)[0])
        for seed in range(4)
        for name in ("a", "b", "ab")
        for index in range(4)
        for draw in range(4)
    }
    assert len(seen) == 4 * 3 * 4 * 4


def test_labels_are_not_run_together():
    assert stream_key(1, "ab", "c") != stream_key(1, "a", "bc")


def test_a_negative_seed_is_refused_by_value():
    with pytest.raises(ValueError, match="data seed -1"):
        stream_key(-1, "x")


@pytest.mark.parametrize("bound", [1, 3, 10, 199])
def test_integers_are_uniform_and_in_range(bound):
    drawn = integers(words(item_keys(stream_key(0, "u"), np.arange(100_000)), 0), bound)
    counts = np.bincount(drawn, minlength=bound)
    assert len(counts) == bound
    expected = 100_000 / bound
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    assert chi_square <= (bound - 1) + 5 * np.sqrt(2 * (bound - 1))


def test_integers_take_a_bound_for_each_word():
    bounds = np.tile([1, 2, 7], 1000)
    drawn = integers(words(item_keys(stream_key(0, "v"), np.arange(3000)), 0), bounds)
    assert (drawn < bounds).all()
    assert drawn[bounds == 7].max() == 6


def test_geometric_halves():
    drawn = geometric(words(item_keys(stream_key(0, "g"), np.arange(100_000)), 0))
    for value in range(1, 6):
        assert (drawn == value).mean() == pytest.approx(0.5**value, abs=0.008)
    assert geometric(np.array([0], dtype=np.uint64))[0] == 65  # the rarest word is still finite


def test_fingerprints_follow_content_and_key():
    rows = np.array([[1, 2, 3], [3, 2, 1], [1, 2, 3], [1, 2, 0]], dtype=np.uint8)
    prints = fingerprints(rows, np.uint64(9))
    assert prints[0] == prints[2]
    assert len(set(prints.tolist())) == 3
    assert (fingerprints(rows.astype(np.int16), np.uint64(9)) == prints).all()
    assert (fingerprints(rows, np.uint64(10)) != prints).all()
