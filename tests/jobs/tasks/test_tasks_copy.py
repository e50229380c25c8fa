"""COPY: format, strict split of each length, whole-sequence metric, longer strings for the splines."""

from __future__ import annotations

import numpy as np
import pytest

from jobs.tasks.base import score
from jobs.tasks.build import make_task
from jobs.tasks.config import CopyConfig
from jobs.tasks.copying import Copying


def test_worked_examples():
    task = Copying(CopyConfig())
    tokens = task.encode(np.array([[3, 1, 4], [7, 7, 0]]), np.array([3, 2]))
    assert tokens[0, :9].tolist() == [3, 1, 4, 10, 3, 1, 4, 11, 12]
    assert tokens[1, :7].tolist() == [7, 7, 10, 7, 7, 11, 12]
    assert (tokens[0, 8:] == 12).all()
    scored = task.scored(tokens)
    assert tokens[0, 1:][scored[0]].tolist() == [3, 1, 4, 11]
    assert tokens[1, 1:][scored[1]].tolist() == [7, 7, 11]


def lengths(examples) -> np.ndarray:
    return examples.scored.sum(axis=1) - 1


def test_training_is_short_and_the_test_is_long():
    config = CopyConfig(train=5000, validation=3000, test=3000)
    task = make_task(config)
    for split, longest in (("train", 10), ("validation", 30), ("test", 30)):
        found = lengths(task.dataset(split, 0))
        counts = np.bincount(found, minlength=longest + 1)[2:]
        expected = len(found) / (longest - 1)
        assert len(counts) == longest - 1
        assert float(((counts - expected) ** 2 / expected).sum()) < (longest - 2) + 5 * np.sqrt(2 * (longest - 2))


def test_classes_are_lengths():
    config = CopyConfig(train=500, validation=500, test=500)
    examples = make_task(config).dataset("test", 0)
    assert [config.classes[k] for k in examples.klass] == [f"length_{n}" for n in lengths(examples)]


@pytest.mark.parametrize(
    ("symbols", "length", "expected"),
    [
        (10, 2, {"train": 80, "validation": 10, "test": 10}),
        (8, 2, {"train": 52, "validation": 6, "test": 6}),
        (10, 3, {"train": 800, "validation": 100, "test": 100}),
    ],
)
def test_a_length_is_divided_by_counting(symbols, length, expected):
    sizes = {split: min(n, 8) if split != "train" else 20 * n for split, n in expected.items()}
    config = CopyConfig(symbols=symbols, min_length=length, max_length=length, test_max_length=length, **sizes)
    many = config.model_copy(update={"validation": 2000, "test": 2000})
    for seed in (0, 1):
        found = {split: len(np.unique(make_task(many).dataset(split, seed).tokens, axis=0)) for split in expected}
        assert found == expected


def test_a_long_length_keeps_four_fifths_for_training():
    config = CopyConfig(min_length=5, max_length=5, test_max_length=5, train=400_000)
    trained = len(np.unique(make_task(config).dataset("train", 0).tokens, axis=0))
    assert trained >= 0.98 * 0.8 * 10**5  # 400,000 draws find all but e ** -4.9 of the strings


def test_a_sequence_counts_only_whole():
    config = CopyConfig(symbols=8, max_length=5, test_max_length=5, validation=50, test=50, train=50)
    examples = make_task(config).dataset("test", 0)
    correct = np.ones_like(examples.scored)
    correct[0, examples.scored[0].argmax()] = False
    scores = score(correct, examples, config.metric, config.classes)
    assert scores["accuracy"] == pytest.approx(49 / 50)
    mine = config.classes[examples.klass[0]]
    peers = int((examples.klass == examples.klass[0]).sum())
    assert scores[f"accuracy/{mine}"] == pytest.approx(1 - 1 / peers)


def test_splines_can_see_longer_strings_than_the_weights():
    config = CopyConfig(train=3000, spline_max_length=15)
    weights, spline = make_task(config).stage_one(0)
    assert lengths(weights).max() == 10
    assert set(lengths(spline)) == set(range(2, 16))
    assert (len(weights), len(spline)) == (2400, 600)
    assert not set(map(bytes, weights.tokens)) & set(map(bytes, spline.tokens))
    weights, spline = make_task(config).stage_one(0, 0.5)
    assert (len(weights), len(spline)) == (1500, 1500)
    assert lengths(spline).max() == 15


def test_chance():
    config = CopyConfig(symbols=8, max_length=3, test_max_length=3, validation=50, test=50)
    assert config.chance == pytest.approx((8**-2 + 8**-3) / 2)
