"""MEMORIZE: format, one fixed value per key, new tables for new seeds."""

from __future__ import annotations

import numpy as np

from jobs.tasks.build import make_task
from jobs.tasks.config import MemorizeConfig


def table(config, seed) -> dict[tuple[int, ...], int]:
    tokens = make_task(config).dataset("train", seed).tokens.tolist()
    return {tuple(row[:-1]): row[-1] for row in tokens}


def test_keys_are_digits_with_an_offset_per_slot():
    # n = 3, d = 2: key (0, 0) is written 0 3, key (1, 0) is 1 3.
    pairs = table(MemorizeConfig(values=3), 0)
    assert set(pairs) == {(a, 3 + b) for a in range(3) for b in range(3)}
    assert set(pairs.values()) <= {0, 1, 2}


def test_three_digits():
    assert set(table(MemorizeConfig(values=2, digits=3), 0)) == {
        (a, 2 + b, 4 + c) for a in range(2) for b in range(2) for c in range(2)
    }


def test_only_the_value_is_scored():
    examples = make_task(MemorizeConfig(values=4)).dataset("train", 0)
    assert examples.scored.tolist() == [[False, True]] * 16


def test_validation_and_test_are_trained_pairs():
    config = MemorizeConfig(values=16, pairs=200, validation=50, test=60)
    task = make_task(config)
    trained = set(map(bytes, task.dataset("train", 1).tokens))
    assert len(trained) == 200
    validation, test = (set(map(bytes, task.dataset(split, 1).tokens)) for split in ("validation", "test"))
    assert validation | test <= trained
    assert not validation & test  # as there is room for both


def test_each_seed_has_a_table_of_its_own():
    config = MemorizeConfig(values=16)
    one, other = table(config, 0), table(config, 1)
    agree = sum(one[key] == other[key] for key in one) / len(one)
    assert agree < 0.15  # 1/16 of unrelated values agree


def test_values_are_uniform():
    values = make_task(MemorizeConfig()).dataset("train", 0).tokens[:, -1]
    counts = np.bincount(values, minlength=512)
    assert len(counts) == 512
    chi_square = float(((counts - 512) ** 2 / 512).sum())
    assert abs(chi_square - 511) < 5 * np.sqrt(2 * 511)
