"""ADD and ADDREVERSED: format, both masks, share of carried sums."""

from __future__ import annotations

import numpy as np
import pytest

from jobs.tasks.addition import EQUALS, PLUS, RESULT, STOP, answer_mask, encode
from jobs.tasks.build import make_task
from jobs.tasks.config import AddConfig, AddreversedConfig

WORKED = [
    (47, 85, True, "7 4 10 5 8 11 22 23 21 30", [22, 23, 21, 30], [23, 21, 30]),
    (47, 85, False, "4 7 10 8 5 11 21 23 22 30", [21, 23, 22, 30], [23, 22, 30]),
    (12, 35, True, "2 1 10 5 3 11 27 24 30 12", [27, 24, 30], [24, 30, 12]),
    (12, 35, False, "1 2 10 3 5 11 24 27 30 12", [24, 27, 30], [27, 30, 12]),
]


def units_first(number: int) -> np.ndarray:
    return np.array([[int(c) for c in reversed(str(number))]])


@pytest.mark.parametrize(("a", "b", "reverse", "tokens", "ours", "original"), WORKED)
def test_worked_examples(a, b, reverse, tokens, ours, original):
    row = encode(units_first(a), units_first(b), reverse)
    assert " ".join(map(str, row[0].tolist())) == tokens
    assert row[0, 1:][answer_mask(row)[0]].tolist() == ours
    assert row[0, 1:][answer_mask(row, z_mask=True)[0]].tolist() == original


def number(tokens, reverse: bool, base: int = 0) -> int:
    digits = [t - base for t in tokens]
    return int("".join(map(str, reversed(digits) if reverse else digits)))


@pytest.mark.parametrize(
    "config", [AddConfig(train=2000), AddreversedConfig(train=2000), AddConfig(digits=3, train=2000)]
)
def test_sums_are_right(config):
    reverse = config.name == "addreversed"
    d = config.digits
    for row in make_task(config).dataset("train", 0).tokens.tolist():
        assert row[d] == PLUS
        assert row[2 * d + 1] == EQUALS
        a, b = number(row[:d], reverse), number(row[d + 1 : 2 * d + 1], reverse)
        assert min(a, b) >= 10 ** (d - 1)
        stop = row.index(STOP)
        assert number(row[2 * d + 2 : stop], reverse, RESULT) == a + b
        assert stop + 1 >= len(row) - 1


def test_sums_of_eleven_digits():
    examples = make_task(AddreversedConfig()).dataset("train", 0)
    assert (examples.tokens[:, -1] == STOP).mean() == pytest.approx(49 / 81, abs=0.006)
    assert examples.scored.sum(axis=1).mean() == pytest.approx(11 + 49 / 81, abs=0.006)


def test_both_orders_read_the_same_mask_option():
    quirk = make_task(AddConfig(digits=3, train=100, validation=100, test=100, z_mask=True)).dataset("test", 0)
    ours = make_task(AddConfig(digits=3, train=100, validation=100, test=100)).dataset("test", 0)
    assert (quirk.tokens == ours.tokens).all()
    at_equals = ours.tokens[:, :-1] == EQUALS
    assert ours.scored[at_equals].all()
    assert not quirk.scored[at_equals].any()


def test_chance_is_that_of_the_best_guess_by_position():
    # Units first: nine digits at 1/10 each; then carry or stop at 49/81, stop again where there was a carry; the
    # tenth digit, a sum of two leading digits modulo 10, is most often 9 or 0 at about 1/9.
    config = AddreversedConfig()
    least = (9 * 0.1 + 0.1 + 2 * 49 / 81) / (11 + 49 / 81)
    assert least < config.chance < least + 0.01
    fixed = make_task(config.model_copy(update={"train": 20_000})).dataset("train", 1)
    modal = sum(np.bincount(fixed.targets[fixed.scored[:, t], t]).max() for t in range(33) if fixed.scored[:, t].any())
    assert modal / fixed.scored.sum() == pytest.approx(config.chance, abs=0.004)


def test_training_pairs_hardly_repeat():
    tokens = make_task(AddConfig(train=20_000)).dataset("train", 0).tokens
    assert len(np.unique(tokens, axis=0)) == 20_000
