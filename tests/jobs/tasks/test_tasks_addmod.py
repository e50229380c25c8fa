"""ADDMOD: all pairs once, no mirror of a test pair in training; the original split as an option."""

from __future__ import annotations

import numpy as np
import pytest

from jobs.tasks.build import make_task
from jobs.tasks.config import AddmodConfig

SETS = ("train", "validation", "test")


def triples(config, split, seed=0) -> list[tuple[int, ...]]:
    return [tuple(row) for row in make_task(config).dataset(split, seed).tokens.tolist()]


def test_sums_are_right_and_the_worked_examples_occur():
    config = AddmodConfig(p=7, validation=8, test=8)
    found = [row for split in SETS for row in triples(config, split)]
    assert all(c == (a + b) % 7 for a, b, c in found)
    assert len(set(found)) == len(found) == 47  # two mirrors may belong to nobody
    everything = set(triples(AddmodConfig(p=7, split="ordered", validation=8, test=8), "train"))
    for split in ("validation", "test"):
        everything |= set(triples(AddmodConfig(p=7, split="ordered", validation=8, test=8), split))
    assert {(3, 5, 1), (6, 6, 5)} <= everything
    assert len(everything) == 49


@pytest.mark.parametrize("p", [23, 199])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("odd", [0, 1])
def test_no_mirror_leaks(p, seed, odd):
    config = AddmodConfig(p=p, validation=60 + odd, test=100 + odd)
    unordered = {split: {frozenset(row[:2]) for row in triples(config, split, seed)} for split in SETS}
    assert not unordered["train"] & unordered["test"]
    assert not unordered["train"] & unordered["validation"]
    assert not unordered["validation"] & unordered["test"]


def test_the_original_split_leaks_and_has_its_sizes():
    # 95:5 of 39,601 ordered pairs; there is no validation set in the original, so one pair stands in for it.
    config = AddmodConfig(split="ordered", validation=1, test=1980)
    train, test = triples(config, "train"), triples(config, "test")
    assert len(train) == int(0.95 * 199**2) == 37_620
    assert len(test) + config.validation == 1_981
    mirrored = {(b, a, c) for a, b, c in train}
    assert np.mean([row in mirrored for row in test]) == pytest.approx(0.95, abs=0.02)


def test_only_the_sum_is_scored():
    examples = make_task(AddmodConfig(p=23, validation=10, test=10)).dataset("test", 0)
    assert examples.scored.tolist() == [[False, True]] * 10
