"""HAYSTACK: key value key value ... query answer, where the query names one of the keys.

Tokens, for V values and up to m keys: pad 0, values 1..V, keys V+1..V+m, queries V+m+1..V+2m (query = key + m).
Length 2m + 3. At V = 127 and m = 30 these are the ids of Zhong and Andreas (2024). Keys differ from each other,
values may repeat. Only the prediction at the query counts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from jobs.tasks.base import Bools, Split, token_dtype
from jobs.tasks.config_base import LISTED_STRATUM
from jobs.tasks.counter_rng import Words, integers, words
from jobs.tasks.stream import Rows, StreamTask


class Haystack(StreamTask):
    """Strata are numbers of keys, 1..m with equal probability."""

    def strata(self, keys: Words, split: Split) -> NDArray[np.int64]:
        return 1 + integers(words(keys, 0), self.config.max_keys)

    def draw(self, keys: Words, strata: NDArray[np.int64]) -> Rows:
        m = self.config.max_keys
        # The order of random words is a random permutation; its first k entries are k different keys.
        chosen = np.argsort(words(keys[:, None], 1 + np.arange(m)), axis=1)
        values = 1 + integers(words(keys[:, None], 1 + m + np.arange(m)), self.config.values)
        return self.encode(chosen, values, strata, integers(words(keys, 0), strata))

    def encode(
        self,
        chosen: NDArray[np.int64],
        values: NDArray[np.int64],
        counts: NDArray[np.int64],
        asked: NDArray[np.int64],
    ) -> Rows:
        """Sequences from keys (0..m-1) and values (1..V), of which the first ``counts`` are used.

        Args:
            chosen: int [n, m], different keys in a row.
            values: int [n, m].
            counts: int [n], 1..m.
            asked: int [n], the place of the key that is asked for, below ``counts``.

        Returns:
            tokens [n, 2m + 3].
        """
        m, first_key = self.config.max_keys, self.config.values + 1
        n = len(counts)
        tokens = np.zeros((n, 2 * m + 3), dtype=token_dtype(self.config.vocab))
        used = np.arange(m) < counts[:, None]
        tokens[:, 0 : 2 * m : 2] = np.where(used, chosen + first_key, 0)
        tokens[:, 1 : 2 * m : 2] = np.where(used, values, 0)
        rows = np.arange(n)
        tokens[rows, 2 * counts] = chosen[rows, asked] + first_key + m
        tokens[rows, 2 * counts + 1] = values[rows, asked]
        return tokens

    def members(self, stratum: int) -> Rows | None:
        """The strings of one key, the only stratum that can be so small that chance must not divide it."""
        m, size = self.config.max_keys, self.config.max_keys * self.config.values
        if stratum > 1 or size > LISTED_STRATUM:
            return None
        key, value = np.divmod(np.arange(size), self.config.values)
        chosen, values = np.zeros((2, size, m), dtype=np.int64)
        chosen[:, 0], values[:, 0] = key, value + 1
        return self.encode(chosen, values, np.ones(size, dtype=np.int64), np.zeros(size, dtype=np.int64))

    def scored(self, tokens: Rows) -> Bools:
        return tokens[:, :-1] > self.config.values + self.config.max_keys
