"""Names of the metrics that the trainers write; reports and tables read them by these names."""

from __future__ import annotations

TRAIN_LOSS = "train/loss"
"""Mean cross-entropy (nats a scored prediction) of the training batches since the previous evaluation."""

TRAIN_ACCURACY = "train/accuracy"
"""Accuracy on the same batches, scored as the task scores."""

GRADIENT_NORM = "train/gradient_norm"
"""Mean over the steps since the previous evaluation of the weights' gradient norm, before clipping."""

SHAPE_LOSS = "shape/loss"
"""Mean loss of the batches that moved the shape, since the previous evaluation."""

SHAPE_MOVED = "shape/moved"
"""Root mean square of theta - start."""

SHAPE_MOVED_MAX = "shape/moved_max"


def accuracy(split: str, klass: str | None = None) -> str:
    """``test/accuracy``, ``validation/accuracy/length_3``."""
    return f"{split}/accuracy" if klass is None else f"{split}/accuracy/{klass}"


def loss(split: str) -> str:
    """``validation/loss``: mean cross-entropy in nats a scored prediction."""
    return f"{split}/loss"


def first_loss(split: str, positions: int) -> str:
    """``validation/loss_first_128``: the same over the scored predictions at positions below ``positions``."""
    return f"{split}/loss_first_{positions}"


def at_landmark(split: str, landmark: str) -> str:
    """Key of a run's summary: accuracy at a step with a name, ``test/accuracy@T/2``."""
    return f"{split}/accuracy@{landmark}"
