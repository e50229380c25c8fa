"""Scoring predictions: losses and hits of a batch, accuracy of each member on a held-out set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from jobs.data import UNSCORED, PackExamples
from jobs.ranks import Ranks
from jobs.tasks.base import Task
from models.transformer import Transformer

_ROWS = 16_384  # tokens of all members in one forward pass; larger passes leave the cache and are slower


def _losses(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of each prediction, 0 where it is not scored, ``[P, B, S, V], [P, B, S] -> [P, B * S]``."""
    flat = functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), ignore_index=UNSCORED, reduction="none"
    )
    return flat.view(targets.shape[0], -1)


def member_losses(logits: Tensor, targets: Tensor, whole: Tensor | None = None) -> Tensor:
    """Mean cross-entropy over each member's scored predictions, ``[P, B, S, V], [P, B, S] -> [P]``.

    Args:
        whole: targets of the whole batch, where ``targets`` are a part of it: the parts' values add up to the mean.
    """
    return _losses(logits, targets).sum(dim=1) / ((targets if whole is None else whole) != UNSCORED).sum(dim=(1, 2))


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
        first_loss: the loss at the first positions alone; None where all or none of the predictions lie there.
    """

    loss: float
    accuracy: dict[str | None, float]
    first_loss: float | None = None


class HeldOut:
    """One held-out split, a set for each member (members of one data seed share it)."""

    def __init__(self, task: Task, examples: PackExamples, first: Sequence[int]) -> None:
        """``first``: for each member, below which position ``Scores.first_loss`` looks."""
        sizes = set(examples.sizes.tolist())
        if len(sizes) != 1:
            raise ValueError(f"held-out sets of one task differ in size: {sorted(sizes)}")
        self._examples, self._size = examples, sizes.pop()
        self._first = torch.tensor(first).view(-1, 1, 1)
        self._by_sequence = task.config.metric == "sequence accuracy"
        self._classes: Sequence[str] = task.config.classes

    @torch.no_grad()
    def scores(self, model: Transformer, ranks: Ranks | None = None) -> list[Scores]:
        """Each member's scores on its set. Several processes share the passes out and add up as one would: the number
        of processes decides no bit of a score."""
        ranks = ranks or Ranks()
        members = len(self._examples.sizes)
        places = torch.arange(self._size).expand(members, -1)
        chunk = max(1, _ROWS // (members * self._examples.length))
        starts = range(0, self._size, chunk)
        found = torch.zeros(2, members, self._size, dtype=torch.int64)
        sums = torch.zeros(len(starts), 4, members, dtype=torch.float64)
        for number in range(ranks.rank, len(starts), ranks.size):
            these = slice(starts[number], starts[number] + chunk)
            batch = self._examples.batch(places[:, these])
            logits = model(batch.tokens, batch.positions)
            each, scored = _losses(logits, batch.targets), batch.targets != UNSCORED
            early = (scored & (batch.positions < self._first)).flatten(1)
            sums[number, 0] = each.sum(dim=1)
            sums[number, 1] = scored.sum(dim=(1, 2))
            sums[number, 2] = (each * early).sum(dim=1)
            sums[number, 3] = early.sum(dim=1)
            found[0, :, these], found[1, :, these] = hits(logits, batch.targets, by_sequence=self._by_sequence)
        ranks.sum(found)
        ranks.sum(sums)
        total = torch.zeros_like(sums[0])
        for one in sums:
            total += one
        losses, predictions, early_losses, early_predictions = total
        klass = self._examples.klass[self._examples.rows(places)].numpy()
        tables = self._tables(found[0].numpy(), found[1].numpy(), klass)
        apart = ((early_predictions > 0) & (early_predictions < predictions)).tolist()
        means, early_means = (losses / predictions).tolist(), (early_losses / early_predictions).tolist()
        return [
            Scores(loss, table, early if some else None)
            for loss, table, early, some in zip(means, tables, early_means, apart, strict=True)
        ]

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
