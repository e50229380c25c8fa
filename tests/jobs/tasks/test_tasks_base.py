"""Holding out a share, and scoring."""

from __future__ import annotations

import numpy as np
import pytest

from jobs.tasks.base import Examples, holdout, score


def examples(tokens, scored, klass=None) -> Examples:
    klass = np.zeros(len(tokens)) if klass is None else klass
    return Examples(np.array(tokens, dtype=np.uint8), np.array(scored, dtype=bool), np.array(klass, dtype=np.uint8))


def test_holdout_keeps_equal_sequences_together_and_order():
    numbers = np.arange(1000) % 100
    whole = examples(np.stack([numbers, numbers // 7], axis=1), np.ones((1000, 1)), numbers)
    weights, spline = holdout(whole, 0.2)
    assert (len(weights), len(spline)) == (800, 200)
    assert len(set(weights.klass.tolist()) & set(spline.klass.tolist())) <= 1
    together = np.sort(np.concatenate([weights.klass, spline.klass]))
    assert (together == np.sort(whole.klass)).all()
    again = holdout(whole, 0.2)[1]
    assert (again.tokens == spline.tokens).all()


@pytest.mark.parametrize("share", [0.0, 1.0, 0.01])
def test_holdout_refuses_an_empty_part(share):
    with pytest.raises(ValueError, match="leaves one part empty"):
        holdout(examples([[1, 2]] * 10, [[1]] * 10), share)


THREE = examples(
    [[0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3]],
    [[0, 1, 1], [0, 1, 1], [1, 1, 1]],
    [0, 0, 2],
)
RIGHT = np.array([[0, 1, 1], [1, 1, 0], [1, 0, 0]], dtype=bool)


def test_accuracy_pools_over_scored_tokens():
    scores = score(RIGHT, THREE, "accuracy", ("a", "b", "c"))
    # 2 + 1 + 1 right of 2 + 2 + 3; what is right but not scored counts nowhere; class b has no example.
    assert scores == {"accuracy": 4 / 7, "accuracy/a": 3 / 4, "accuracy/c": 1 / 3}


def test_sequence_accuracy_wants_every_scored_token():
    scores = score(RIGHT, THREE, "sequence accuracy", ("a", "b", "c"))
    assert scores == {"accuracy": 1 / 3, "accuracy/a": 1 / 2, "accuracy/c": 0.0}


def test_score_refuses_what_it_cannot_average():
    with pytest.raises(ValueError, match="must agree"):
        score(RIGHT[:2], THREE, "accuracy")
    with pytest.raises(ValueError, match="no scored token"):
        score(RIGHT[:, :1], examples([[1, 2]] * 3, [[0]] * 3), "accuracy")


def test_targets_are_aligned_with_the_mask():
    assert THREE.targets[0][THREE.scored[0]].tolist() == [2, 3]
    assert len(THREE.take(np.array([2, 0]))) == 2
