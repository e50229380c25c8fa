"""HAYSTACK: format, distinct keys, and what a guess from the context reaches."""

from __future__ import annotations

import numpy as np
import pytest

from jobs.tasks.build import make_task
from jobs.tasks.config import HaystackConfig
from jobs.tasks.counter_rng import integers, item_keys, stream_key, words
from jobs.tasks.haystack import Haystack


def test_worked_examples():
    task = Haystack(HaystackConfig(max_keys=4, values=15))
    # Keys 16-19, queries 20-23; places are 0-based, and unused ones are ignored.
    tokens = task.encode(
        np.array([[2, 0, 1, 3], [1, 3, 0, 2]]),
        np.array([[13, 9, 9, 9], [11, 7, 9, 9]]),
        np.array([1, 2]),
        np.array([0, 1]),
    )
    assert tokens.tolist() == [[18, 13, 22, 13, 0, 0, 0, 0, 0, 0, 0], [17, 11, 19, 7, 23, 7, 0, 0, 0, 0, 0]]


@pytest.fixture(scope="module")
def published():
    return make_task(HaystackConfig(train=40_000)).dataset("train", 0)


def test_ids_and_answer(published):
    for row, mask in zip(published.tokens[:300].tolist(), published.scored[:300], strict=True):
        k = int(mask.argmax()) // 2
        keys, values = row[0 : 2 * k : 2], row[1 : 2 * k : 2]
        assert mask.sum() == 1
        assert len(set(keys)) == k
        assert set(keys) <= set(range(128, 158))
        assert set(values) <= set(range(1, 128))
        assert row[2 * k + 1] == values[keys.index(row[2 * k] - 30)]
        assert row[2 * k + 2 :] == [0] * (63 - 2 * k - 2)


def test_numbers_of_keys_are_uniform(published):
    counts = np.bincount(published.scored.argmax(axis=1) // 2, minlength=31)[1:]
    assert len(counts) == 30
    expected = len(published) / 30
    assert float(((counts - expected) ** 2 / expected).sum()) < 29 + 5 * np.sqrt(58)


def test_guess_from_the_context(published):
    k = published.scored.argmax(axis=1) // 2
    rows = np.arange(len(k))
    guess = integers(words(item_keys(stream_key(0, "guess"), rows), 0), k)
    asked = published.tokens[rows, 2 * k] - 30
    answer = published.tokens[rows, 2 * k + 1]
    assert (published.tokens[rows, 2 * guess] == asked).mean() == pytest.approx(0.133, abs=0.006)
    hit = (published.tokens[rows, 2 * guess + 1] == answer).mean()
    assert hit == pytest.approx(HaystackConfig().trivial, abs=0.006)
    last = (published.tokens[rows, 2 * k - 1] == answer).mean()
    assert last == pytest.approx(0.137, abs=0.006)


def test_strings_of_one_key_are_divided_by_counting():
    config = HaystackConfig(max_keys=3, values=7, train=6000, validation=250, test=250)
    one_key = {}
    for split in config.sizes:
        examples = make_task(config).dataset(split, 0)
        one_key[split] = {bytes(row) for row in examples.tokens[examples.scored.argmax(axis=1) == 2]}
    assert {split: len(found) for split, found in one_key.items()} == {"train": 17, "validation": 2, "test": 2}
