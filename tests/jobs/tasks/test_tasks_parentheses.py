"""PARENTHESES: format, the statistics of the stream, and the level of counting."""

from __future__ import annotations

import numpy as np
import pytest

from jobs.tasks import levels
from jobs.tasks.build import make_task
from jobs.tasks.config import ParenthesesConfig
from jobs.tasks.counter_rng import fingerprints, item_keys, stream_key
from jobs.tasks.parentheses import QUESTION, _balanced_strings, balanced, draw_brackets, encode, kind


def brackets(*texts: str, width: int):
    signs = np.zeros((len(texts), width), dtype=np.int8)
    for row, text in enumerate(texts):
        signs[row, : len(text)] = [1 if c == "(" else -1 for c in text]
    return signs, np.array([len(text) for text in texts])


def test_worked_examples():
    tokens = encode(*brackets("(())", "(()", width=6))
    assert tokens.tolist() == [[1, 1, 2, 2, 3, 2, 0, 0, 0], [1, 1, 2, 3, 1, 0, 0, 0, 0]]


def test_longest_string_leaves_a_pad():
    tokens = encode(*brackets("((()))", width=6))
    assert tokens.tolist() == [[1, 1, 1, 2, 2, 2, 3, 2, 0]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("()", 2), ("(())()", 2), (")(", 1), ("())(", 1), ("(", 0), ("((", 0), ("())", 0)],
)
def test_balance_and_kind(text, expected):
    signs, lengths = brackets(text, width=6)
    assert bool(balanced(signs)[0]) == (expected == 2)
    assert kind(encode(signs, lengths)).tolist() == [expected]


def test_the_grammar_makes_balanced_strings_of_the_size_asked_for():
    pairs = 1 + np.arange(3000) % 8
    signs = _balanced_strings(item_keys(stream_key(0, "grammar"), np.arange(3000)), pairs, 8)
    assert balanced(signs).all()
    assert ((signs != 0).sum(axis=1) == 2 * pairs).all()
    assert (np.cumsum(signs != 0, axis=1)[np.arange(3000), 2 * pairs - 1] == 2 * pairs).all()  # no holes
    # Two pairs: a pair around one with 1/2, else side by side. Three: all five strings occur.
    two = signs[pairs == 2]
    assert (two[:, 1] == 1).mean() == pytest.approx(0.5, abs=0.08)
    three = {tuple(row[:6]) for row in signs[pairs == 3].tolist()}
    assert len(three) == 5


def test_statistics_of_the_stream():
    signs, lengths = draw_brackets(item_keys(stream_key(1, "statistics"), np.arange(200_000)), 30)
    right, equal = balanced(signs), signs.sum(axis=1) == 0
    assert right.mean() == pytest.approx(0.526, abs=0.005)
    assert (right == equal).mean() == pytest.approx(0.931, abs=0.003)
    assert (right == (lengths % 2 == 0)).mean() == pytest.approx(0.692, abs=0.005)
    assert lengths.mean() == pytest.approx(30.8, abs=0.15)
    assert (lengths <= 6).mean() == pytest.approx(0.100, abs=0.003)
    distinct = len(np.unique(fingerprints(encode(signs, lengths), np.uint64(0)))) / 200_000
    assert distinct == pytest.approx(0.779, abs=0.005)


def test_published_levels():
    config = ParenthesesConfig()
    assert config.trivial == pytest.approx(0.931, abs=0.001)
    assert config.chance == pytest.approx(0.526, abs=0.001)


@pytest.mark.parametrize("pairs", sorted(levels.MEASURED))
def test_table_of_levels_agrees_with_a_simulation(pairs):
    simulated, listed = levels.simulate_parentheses(pairs), levels.MEASURED[pairs]
    assert simulated.majority == pytest.approx(listed.majority, abs=0.005)
    assert simulated.counting == pytest.approx(listed.counting, abs=0.003)


def test_levels_of_another_size_are_simulated_once():
    config = ParenthesesConfig(max_pairs=8)
    assert config.trivial == pytest.approx(0.8988, abs=0.004)  # by two million draws
    assert levels.parentheses(8) is levels.parentheses(8)


@pytest.mark.parametrize("pairs", [6, 30])
def test_each_set_has_the_levels_of_the_stream(pairs):
    # Seed by seed, within four standard errors: with a split blind to kinds, the short strings that a test set
    # happens to own move its share of balanced ones by 12 points (standard deviation, six pairs).
    config = ParenthesesConfig(max_pairs=pairs, train=2000, validation=700, test=700)
    task = make_task(config)
    for split, n in config.sizes.items():
        for seed in range(5):
            kinds = kind(task.dataset(split, seed).tokens)
            counting = ((kinds == 2) == (kinds >= 1)).mean()
            assert (kinds == 2).mean() == pytest.approx(config.chance, abs=4 * np.sqrt(0.25 / n))
            assert counting == pytest.approx(config.trivial, abs=4 * np.sqrt(0.1 * 0.9 / n))


def test_only_the_answer_is_scored():
    examples = make_task(ParenthesesConfig(max_pairs=6, train=500)).dataset("train", 0)
    assert (examples.scored.sum(axis=1) == 1).all()
    assert (examples.tokens[:, :-1][examples.scored] == QUESTION).all()
    assert set(examples.targets[examples.scored].tolist()) == {1, 2}


def test_the_shortest_strings_stay_in_training():
    config = ParenthesesConfig(max_pairs=6, train=3000, validation=300, test=300)
    lengths = {split: (make_task(config).dataset(split, 0).tokens == QUESTION).argmax(axis=1) for split in config.sizes}
    assert lengths["test"].min() > 4
    assert lengths["validation"].min() > 4
    assert lengths["train"].min() == 1
