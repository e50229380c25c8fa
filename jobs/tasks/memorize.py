"""MEMORIZE: a key of d tokens and the value that a random table has for it. Only the value counts.

Token j of a key is its base-n digit j, least significant first, plus j * n; values are ids 0..n-1, shared with digit 0.
Each data seed has a table of its own, so a stage that brings new seeds has something new to memorise.
"""

from __future__ import annotations

import numpy as np

from jobs.tasks.base import SPLINE_SHARE, Examples, Split, token_dtype
from jobs.tasks.config import MemorizeConfig
from jobs.tasks.counter_rng import integers, stream_key, words


class Memorize:
    """Training holds every pair; the test is the first of them, validation the last, as many as asked for."""

    splits_batch = True

    def __init__(self, config: MemorizeConfig) -> None:
        self.config = config

    def dataset(self, split: Split, data_seed: int) -> Examples:
        n, digits, table = self.config.values, self.config.digits, self.config.table
        every = np.arange(n**digits)
        order = np.argsort(words(np.array([stream_key(data_seed, "memorize", "keys")]), every), kind="stable")
        size = self.config.sizes["train" if split == "spline" else split]
        keys = order[table - size : table] if split == "validation" else order[:size]
        places = np.arange(digits)
        tokens = np.empty((size, digits + 1), dtype=token_dtype(self.config.vocab))
        tokens[:, :-1] = keys[:, None] // n**places % n + n * places
        tokens[:, -1] = integers(words(np.array([stream_key(data_seed, "memorize", "values")]), keys), n)
        scored = np.zeros((size, digits), dtype=bool)
        scored[:, -1] = True
        return Examples(tokens, scored, np.zeros(size, dtype=np.uint8))

    def stage_one(self, data_seed: int, share: float = SPLINE_SHARE) -> tuple[Examples, Examples]:
        """Twice the whole table, whatever the share: see ``splits_batch``."""
        everything = self.dataset("train", data_seed)
        return everything, everything
