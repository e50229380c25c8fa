"""The examples of a pack in tensors: generated once for each (task, data seed), drawn from by (seed, step) alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from jobs.tasks.base import Examples, Split, Task
from jobs.tasks.counter_rng import integers, stream_key, words

UNSCORED = -100
"""Target of a padding entry of ``Batch.positions``; cross-entropy passes over it."""


@dataclass(frozen=True)
class Batch:
    """Sequences for all members of a pack.

    Attributes:
        tokens: int64 ``[P, B, L]``.
        positions: int64 ``[P, B, S]``, where something is predicted; padded with 0.
        targets: int64 ``[P, B, S]``, the tokens to be predicted there; UNSCORED in padding.
    """

    tokens: Tensor
    positions: Tensor
    targets: Tensor

    def part(self, rows: slice) -> Batch:
        """Some of every member's sequences."""
        return Batch(self.tokens[:, rows], self.positions[:, rows], self.targets[:, rows])


class PackExamples:
    """Example sets of the members of a pack, one after another; members that name the same set share it.

    Tokens behind the last scored position decide nothing in a causal model and are cut off.
    """

    def __init__(self, sets: Sequence[Examples], uses: Sequence[int]) -> None:
        """``uses``: for each member the set it draws from. ``length`` is that of the sequences left."""
        starts = np.cumsum([0] + [len(s) for s in sets])
        self.sizes = np.array([len(sets[u]) for u in uses])
        self.starts = torch.from_numpy(starts[list(uses)])
        width = max(_last_scored(s) for s in sets) + 1
        most = max(int(s.scored.sum(axis=1).max()) for s in sets)
        laid = [_lay_out(s, width, most) for s in sets]
        self._tokens = torch.from_numpy(np.concatenate([part[0] for part in laid]))
        self._positions = torch.from_numpy(np.concatenate([part[1] for part in laid]))
        self._targets = torch.from_numpy(np.concatenate([part[2] for part in laid]))
        self.klass = torch.from_numpy(np.concatenate([s.klass for s in sets]).astype(np.int64))
        self.length = width

    def batch(self, indices: Tensor) -> Batch:
        """``indices``: int64 ``[P, B]``, each member's places in its own set."""
        rows = self.rows(indices)
        shape, flat = (*rows.shape, -1), rows.reshape(-1)
        tokens, positions, targets = (
            part.index_select(0, flat).long().view(shape) for part in (self._tokens, self._positions, self._targets)
        )
        return Batch(tokens, positions, targets)

    def rows(self, indices: Tensor) -> Tensor:
        """Places in the members' sets as rows of the whole."""
        return indices + self.starts.unsqueeze(1)


class Order:
    """Which examples a member sees at a step: uniform draws with replacement, a pure function of (seed, step).

    Equal seeds give equal draws whoever the other members are, so arms are paired, and a resumed run needs no more
    than its step.
    """

    def __init__(self, seeds: Sequence[int], label: str, count: int) -> None:
        """``count``: draws of one member in one step; ``label`` names the stream."""
        distinct = sorted(set(seeds))
        self._streams = np.array([stream_key(seed, "order", label) for seed in distinct], dtype=np.uint64)
        self._uses = np.array([distinct.index(seed) for seed in seeds])
        self._draws = np.arange(count)

    def at(self, step: int, sizes: np.ndarray) -> Tensor:
        """int64 ``[P, count]``, each below its member's entry of ``sizes [P]``."""
        drawn = words(words(self._streams, step)[:, None], self._draws)
        return torch.from_numpy(integers(drawn[self._uses], sizes[:, None]))


def derived_seed(seed: int, *labels: str) -> int:
    """A data seed of a stream of its own, so that a search never meets the data of the runs that use it."""
    return int(stream_key(seed, *labels) >> np.uint64(33))


def one_set(task: Task, split: Split, seeds: Sequence[int]) -> PackExamples:
    """A split for members with these data seeds; each seed's set is generated once."""
    distinct = sorted(set(seeds))
    return PackExamples([task.dataset(split, s) for s in distinct], [distinct.index(s) for s in seeds])


def two_parts(task: Task, seeds: Sequence[int], shares: Sequence[float]) -> tuple[PackExamples, PackExamples]:
    """(weights part, shape part) of stage I for members with these data seeds and hold-out shares."""
    wanted = list(zip(seeds, shares, strict=True))
    distinct = sorted(set(wanted))
    parts = [task.stage_one(seed, share) for seed, share in distinct]
    uses = [distinct.index(w) for w in wanted]
    return PackExamples([p[0] for p in parts], uses), PackExamples([p[1] for p in parts], uses)


def _last_scored(examples: Examples) -> int:
    return int(np.flatnonzero(examples.scored.any(axis=0)).max())


def _lay_out(examples: Examples, width: int, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tokens ``[n, width]``, scored positions ``[n, most]`` in ascending order, and their targets."""
    scored = examples.scored[:, :width]
    positions = np.argsort(~scored, axis=1, kind="stable")[:, :most]
    real = np.take_along_axis(scored, positions, axis=1)
    targets = np.take_along_axis(examples.targets[:, :width], positions, axis=1).astype(np.int16)
    return (
        examples.tokens[:, :width],
        np.where(real, positions, 0).astype(np.int16),
        np.where(real, targets, UNSCORED).astype(np.int16),
    )
