"""ADDMOD: a, b, (a + b) mod p as three tokens, for every ordered pair of residues. Only the sum counts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from jobs.tasks.base import SPLINE_SHARE, Examples, Split, holdout, token_dtype
from jobs.tasks.config import AddmodConfig
from jobs.tasks.counter_rng import stream_key, words


class Addmod:
    """All p * p pairs in a random order of the data seed: test first, then validation, training from the end."""

    splits_batch = False

    def __init__(self, config: AddmodConfig) -> None:
        self.config = config

    def _pairs(self, data_seed: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Pairs in random order, int64 [p * p, 2], and whether each is the mirror image of the one before."""
        p = self.config.p
        if self.config.split == "ordered":
            a, b = np.divmod(np.arange(p * p), p)
        else:
            a, b = np.triu_indices(p)
        key = stream_key(data_seed, "addmod", self.config.split)
        order = np.argsort(words(np.array([key]), np.arange(len(a))), kind="stable")
        pairs = np.stack([a[order], b[order]], axis=1)
        if self.config.split == "ordered":
            return pairs, np.zeros(len(pairs), dtype=bool)
        pairs = np.repeat(pairs, np.where(pairs[:, 0] == pairs[:, 1], 1, 2), axis=0)
        mirror = np.zeros(len(pairs), dtype=bool)
        mirror[1:] = (pairs[1:] == pairs[:-1]).all(axis=1)
        pairs[mirror] = pairs[mirror, ::-1]
        return pairs, mirror

    def dataset(self, split: Split, data_seed: int) -> Examples:
        if split == "spline":
            return self.stage_one(data_seed)[1]
        pairs, mirror = self._pairs(data_seed)
        size = self.config.sizes[split]
        if split == "train":
            chosen = pairs[::-1][:size]
        else:
            # A set that ends between a pair and its mirror leaves the mirror to nobody.
            start = self.config.sizes["test"] if split == "validation" else 0
            start += int(mirror[start])
            chosen = pairs[start : start + size]
        tokens = np.column_stack([chosen, chosen.sum(axis=1) % self.config.p])
        scored = np.zeros((size, 2), dtype=bool)
        scored[:, 1] = True
        return Examples(tokens.astype(token_dtype(self.config.vocab)), scored, np.zeros(size, dtype=np.uint8))

    def stage_one(self, data_seed: int, share: float = SPLINE_SHARE) -> tuple[Examples, Examples]:
        return holdout(self.dataset("train", data_seed), share)
