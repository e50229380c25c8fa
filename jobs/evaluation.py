"""Scoring predictions: losses and hits of a batch, accuracy of each member on a held-out set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from jobs.data import UNSCORED, PackExamples
from jobs.tasks.base import Task
from models.transformer import Transformer

_ROWS = 16_384  # tokens of all members in one forward pass; larger passes leave the cache and are slower


def _summed_losses(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy summed over each member's scored predictions, ``[P, B, S, V], [P, B, S] -> [P]``."""
    flat = functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), ignore_index=UNSCORED, reduction="none"
    )
    return flat.view(targets.shape[0], -1).sum(dim=1)


def member_losses(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy over each member's scored predictions, ``[P, B, S, V], [P, B, S] -> [P]``."""
    return _summed_losses(logits, targets) / (targets != UNSCORED).sum(dim=(1, 2))


@torch.no_grad()
def hits(logits: Tensor, targets: Tensor, *, by_sequence: bool) -> tuple[Tensor, Tensor]:
    """(right, counted) of each sequence, int64 ``[P, B]`` each: scored predictions, or the whole sequence (0 or 1)."""
    scored = (targets != UNSCORED).sum(dim=2)
    right = (logits.argmax(dim=-1) == targets).sum(dim=2)
    if by_sequence:
        return (right == scored).long(), torch.ones_like(scored)
    return right, scored


@dataclass(frozen=True)
class Scores:
    """One member on one set.

    Attributes:
        loss: mean cross-entropy in nats a scored prediction.
        accuracy: None -> over all, and class -> accuracy for the classes that occur.
    """

    loss: float
    accuracy: dict[str | None, float]


class HeldOut:
    """One held-out split, a set for each member (members of one data seed share it)."""

    def __init__(self, task: Task, examples: PackExamples) -> None:
        sizes = set(examples.sizes.tolist())
        if len(sizes) != 1:
            raise ValueError(f"held-out sets of one task differ in size: {sorted(sizes)}")
        self._examples, self._size = examples, sizes.pop()
        self._by_sequence = task.config.metric == "sequence accuracy"
        self._classes: Sequence[str] = task.config.classes

    @torch.no_grad()
    def scores(self, model: Transformer) -> list[Scores]:
        """Each member's scores on its set."""
        members = len(self._examples.sizes)
        places = torch.arange(self._size).expand(members, -1)
        right, counted = [], []
        losses, predictions = torch.zeros(members, dtype=torch.float64), torch.zeros(members, dtype=torch.int64)
        chunk = max(1, _ROWS // (members * self._examples.length))
        for start in range(0, self._size, chunk):
            batch = self._examples.batch(places[:, start : start + chunk])
            logits = model(batch.tokens, batch.positions)
            losses += _summed_losses(logits, batch.targets)
            predictions += (batch.targets != UNSCORED).sum(dim=(1, 2))
            found = hits(logits, batch.targets, by_sequence=self._by_sequence)
            right.append(found[0])
            counted.append(found[1])
        klass = self._examples.klass[self._examples.rows(places)].numpy()
        tables = self._tables(torch.cat(right, dim=1).numpy(), torch.cat(counted, dim=1).numpy(), klass)
        return [Scores(loss, table) for loss, table in zip((losses / predictions).tolist(), tables, strict=True)]

    def _tables(self, right: np.ndarray, counted: np.ndarray, klass: np.ndarray) -> list[dict[str | None, float]]:
        found: list[dict[str | None, float]] = []
        for r, c, k in zip(right, counted, klass, strict=True):
            table: dict[str | None, float] = {None: float(r.sum() / c.sum())}
            per_right = np.bincount(k, weights=r, minlength=len(self._classes))
            per_count = np.bincount(k, weights=c, minlength=len(self._classes))
            for index, name in enumerate(self._classes):
                if per_count[index]:
                    table[name] = float(per_right[index] / per_count[index])
            found.append(table)
        return found
