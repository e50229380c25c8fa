"""MANO: format, values, sizes of the classes, label skew, split of each class."""

from __future__ import annotations

import numpy as np
import pytest

from jobs.tasks import levels
from jobs.tasks.build import make_task
from jobs.tasks.config import ManoConfig
from jobs.tasks.mano import Mano, all_expressions

IDS = {"+": 7, "-": 8, "x": 9}


def expression(text: str) -> tuple[np.ndarray, np.ndarray]:
    ids = [IDS.get(part) if part in IDS else int(part) for part in text.split()]
    row = np.full((1, 7), -1)
    row[0, : len(ids)] = ids
    return row, np.array([len(ids) // 2])


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("x 5 2", [10, 11, 9, 5, 2, 14, 3, 15, 15, 15, 15]),
        ("+ 2 - 3 x 4 1", [10, 13, 7, 2, 8, 3, 9, 4, 1, 14, 1]),
    ],
)
def test_worked_sequences(text, tokens):
    task = Mano(ManoConfig())
    row = task.encode(*expression(text))
    assert row[0].tolist() == tokens
    assert row[0, 1:][task.scored(row)[0]].tolist() == [tokens[tokens.index(14) + 1]]


@pytest.mark.parametrize(
    ("text", "value"),
    [("x 5 2", 3), ("+ 2 - 3 x 4 1", 1), ("x 6 - 5 0", 2), ("+ + - 6 6 3 1", 4), ("- 0 1", 6), ("- - 0 1 1", 5)],
)
def test_worked_values(text, value):
    assert Mano(ManoConfig()).value(*expression(text)).tolist() == [value]


def test_sizes_of_the_classes():
    assert levels.mano_expressions(7, 3) == (7, 147, 6174, 324_135)
    for operations, count in enumerate((7, 147, 6174, 324_135)):
        table = all_expressions(7, operations)
        # Rows as numbers in base 10: unique, so that every expression is listed once.
        codes = table @ 10 ** np.arange(2 * operations + 1)
        assert len(np.unique(codes)) == len(table) == count


@pytest.fixture(scope="module")
def published():
    return make_task(ManoConfig()).dataset("train", 0)


def test_label_skew(published):
    answers = published.targets[published.scored]
    shares = np.bincount(answers, minlength=7) / len(answers)
    assert shares[0] == pytest.approx(0.195, abs=0.005)
    assert shares[1:] == pytest.approx(np.full(6, 0.134), abs=0.005)
    assert ManoConfig().chance == pytest.approx(0.195, abs=0.005)
    assert shares[0] == pytest.approx(ManoConfig().chance, abs=0.005)


def test_exact_majority_agrees_with_all_expressions_of_one_operation():
    table = all_expressions(5, 1)
    values = Mano(ManoConfig(modulus=5, max_operations=1, validation=7, test=7)).value(table, np.full(len(table), 1))
    assert levels.mano_majority(5, 1) == pytest.approx((values == 0).mean())


def test_training_holds_four_fifths_of_each_class(published):
    distinct = [len(np.unique(published.tokens[published.klass == k], axis=0)) for k in range(3)]
    # 14 and 617 expressions are held out twice over; of 81 % of 324,135, a third of 100,000 draws finds about a tenth.
    assert distinct[0] == 147 - 2 * 14
    assert 0.98 * (6174 - 2 * 617) <= distinct[1] <= 6174 - 2 * 617
    assert distinct[2] > 25_000


def test_classes_are_equally_frequent_in_each_set(published):
    config = ManoConfig()
    for split in ("validation", "test"):
        examples = make_task(config).dataset(split, 0)
        assert np.bincount(examples.klass) / 1000 == pytest.approx(np.full(3, 1 / 3), abs=0.06)
        assert (examples.tokens[:, 1] == 11 + examples.klass).all()
    assert np.bincount(published.klass) / 100_000 == pytest.approx(np.full(3, 1 / 3), abs=0.006)


def test_left_operands_take_a_uniform_share(published):
    # Of two further operations the left operand takes 0, 1 or 2; with none it is a residue right after the operator.
    three = published.tokens[published.klass == 2]
    assert (three[:, 3] < 7).mean() == pytest.approx(1 / 3, abs=0.012)
    operators = np.bincount(three[:, 2], minlength=10)[7:] / len(three)
    assert operators == pytest.approx(np.full(3, 1 / 3), abs=0.012)
