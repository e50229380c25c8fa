"""Which values runs of the runners ``train`` and ``search`` can leave, from their configs alone; torch-free."""

from __future__ import annotations

from jobs import metrics
from jobs.train_config import SearchConfig, TrainConfig


def train_metrics(config: TrainConfig) -> frozenset[str]:
    """Names of all curves and summary values of a run. Classes that no held-out example belongs to, and the loss at the
    first positions where a task has none apart, stay empty."""
    names = {metrics.TRAIN_LOSS, metrics.TRAIN_ACCURACY, metrics.GRADIENT_NORM, "steps", "lr", "t_task", "parameters"}
    for split in config.evaluate.splits:
        names |= {metrics.loss(split), metrics.first_loss(split, config.evaluate.first_positions)}
        names |= {metrics.accuracy(split, klass) for klass in (None, *config.task.classes)}
        names |= {metrics.at_landmark(split, landmark) for landmark in config.landmarks()}
    return frozenset(names)


def search_metrics(config: SearchConfig) -> frozenset[str]:
    """As ``train_metrics``, and what a search tells of its shape and models."""
    shape = {metrics.SHAPE_LOSS, metrics.SHAPE_MOVED, metrics.SHAPE_MOVED_MAX}
    return train_metrics(config) | shape | {"models", "models_survived"}
