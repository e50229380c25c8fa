"""What a task gives to a trainer: examples, how stage I divides them, and how predictions are scored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from jobs.tasks.config_base import Metric
from jobs.tasks.counter_rng import fingerprints, stream_key

Split = Literal["train", "validation", "test", "spline"]
Bools = NDArray[np.bool_]

SPLINE_SHARE = 0.2
"""Share of the training set whose loss moves the splines of stage I, not the weights."""


@dataclass(frozen=True)
class Examples:
    """n sequences of one set, for next-token prediction.

    Attributes:
        tokens: [n, L], uint8 where the vocabulary has at most 256 ids, else int16.
        scored: bool [n, L-1]; True at t where the prediction of token t+1, made from tokens 0..t, counts.
        klass: uint8 or int16 [n], index into ``config.classes``; zeros where a task has no classes.
    """

    tokens: NDArray[Any]
    scored: Bools
    klass: NDArray[Any]

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def targets(self) -> NDArray[Any]:
        """The tokens to be predicted, [n, L-1]: a view, aligned with ``scored``."""
        return self.tokens[:, 1:]

    def take(self, which: NDArray[Any] | slice) -> Examples:
        """Those of the sequences that a slice, an index array or a bool mask picks."""
        return Examples(self.tokens[which], self.scored[which], self.klass[which])


class Task(Protocol):
    """A deterministic generator: every example is a pure function of the data seed and its index.

    Item i of a set is the same whatever the size of that set. No sequence of the validation or test set is
    in another set, but for MEMORIZE, whose validation and test are trained pairs.
    """

    @property
    def config(self) -> Any:
        """The ``TaskConfig`` this task was made from."""
        ...

    @property
    def splits_batch(self) -> bool:
        """True where stage I trains on everything and halves each batch 80/20 between weights and splines."""
        ...

    def dataset(self, split: Split, data_seed: int) -> Examples:
        """One set of a data seed (0 or more). "spline" is the second part of ``stage_one``."""
        ...

    def stage_one(self, data_seed: int, share: float = SPLINE_SHARE) -> tuple[Examples, Examples]:
        """The examples for the weights and for the splines of stage I; ``share`` is that of the splines.

        Where ``splits_batch`` is true both are the whole training set, and the trainer divides each batch.
        """
        ...


def holdout(examples: Examples, share: float = SPLINE_SHARE) -> tuple[Examples, Examples]:
    """Divide a training set into (weights part, spline part), the same way each time.

    Equal sequences go to the same side (but for one group at the cut, as sizes are exact: the spline part
    has ``round(share * n)`` rows), or the splines would be judged on what the weights were trained on.

    Raises:
        ValueError: when the share leaves one part empty.
    """
    n, wanted = len(examples), round(share * len(examples))
    if not 0 < wanted < n:
        raise ValueError(f"a share of {share} of {n} examples leaves one part empty; use more examples")
    order = np.argsort(fingerprints(examples.tokens, stream_key(0, "holdout")), kind="stable")
    spline = np.zeros(n, dtype=bool)
    spline[order[:wanted]] = True
    return examples.take(~spline), examples.take(spline)


def score(correct: Bools, examples: Examples, metric: Metric, classes: Sequence[str] = ()) -> dict[str, float]:
    """Accuracy of predictions, overall and per class.

    "sequence accuracy" is the share of sequences whose scored tokens are all right (under teacher forcing,
    which for the most likely token equals greedy decoding). The others pool over scored tokens (micro average).

    Args:
        correct: bool [n, L-1], whether the prediction of token t+1 was right; looked at where scored only.
        examples: the n examples.
        metric: ``config.metric``.
        classes: ``config.classes``.

    Returns:
        ``{"accuracy": ...}`` and ``"accuracy/<class>"`` for each class that occurs. A class without examples
        is left out, so that no value is undefined.

    Raises:
        ValueError: when shapes differ, or there is nothing to score.
    """
    if correct.shape != examples.scored.shape:
        raise ValueError(f"correct has shape {correct.shape}, scored {examples.scored.shape}; they must agree")
    hits = correct & examples.scored
    if metric == "sequence accuracy":
        right = (hits == examples.scored).all(axis=1).astype(np.int64)
        total = np.ones(len(examples), dtype=np.int64)
    else:
        right, total = hits.sum(axis=1), examples.scored.sum(axis=1)
    if not total.sum():
        raise ValueError("no scored token among the examples; there is nothing to average")
    scores = {"accuracy": float(right.sum() / total.sum())}
    for index, name in enumerate(classes):
        mine = examples.klass == index
        if total[mine].sum():
            scores[f"accuracy/{name}"] = float(right[mine].sum() / total[mine].sum())
    return scores


def token_dtype(vocab: int) -> type[np.uint8] | type[np.int16]:
    """The smallest of the two token types that holds ids 0..vocab-1 (at most 32,768 of them)."""
    return np.uint8 if vocab <= 256 else np.int16
