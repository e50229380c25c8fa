"""COPY: a string of symbols, a separator, the string again, an end marker.

Tokens, for S symbols: symbols 0..S-1, separator S, end S+1, pad S+2. Scored from the separator through the last
symbol, so the targets are the string and the end marker. The paper does not say how it writes the task; this
format is ours.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobs.tasks.base import SPLINE_SHARE, Bools, Examples, Split, holdout, token_dtype
from jobs.tasks.config_base import LISTED_STRATUM
from jobs.tasks.counter_rng import Words, integers, words
from jobs.tasks.stream import Rows, StreamTask


class Copying(StreamTask):
    """Strata are lengths, each as frequent as the next, in training and (over more of them) in the test."""

    def strata(self, keys: Words, split: Split) -> NDArray[np.int64]:
        low = self.config.min_length
        high = {
            "train": self.config.max_length,
            "spline": self.config.spline_max_length or self.config.max_length,
        }.get(split, self.config.test_max_length)
        return low + integers(words(keys, 0), high - low + 1)

    def draw(self, keys: Words, strata: NDArray[np.int64]) -> Rows:
        symbols = words(keys[:, None], np.arange(int(strata.max())))
        return self.encode(integers(symbols, self.config.symbols), strata)

    def encode(self, symbols: NDArray[np.int64], lengths: NDArray[np.int64]) -> Rows:
        """Sequences from symbols (int [n, at least the longest]) and lengths (int [n]): tokens [n, L]."""
        separator = self.config.symbols
        tokens = np.full((len(lengths), self.config.length), separator + 2, dtype=token_dtype(self.config.vocab))
        row, column = np.nonzero(np.arange(symbols.shape[1]) < lengths[:, None])
        tokens[row, column] = symbols[row, column]
        tokens[row, lengths[row] + 1 + column] = symbols[row, column]
        rows = np.arange(len(lengths))
        tokens[rows, lengths] = separator
        tokens[rows, 2 * lengths + 1] = separator + 1
        return tokens

    def members(self, stratum: int) -> Rows | None:
        size = self.config.symbols**stratum
        if size > LISTED_STRATUM:
            return None
        places = self.config.symbols ** np.arange(stratum)
        symbols = np.arange(size)[:, None] // places % self.config.symbols
        return self.encode(symbols, np.full(size, stratum))

    def klass(self, strata: NDArray[np.int64]) -> NDArray[Any]:
        return (strata - self.config.min_length).astype(token_dtype(len(self.config.classes)))

    def scored(self, tokens: Rows) -> Bools:
        separator = self.config.symbols
        started = np.maximum.accumulate(tokens[:, :-1] == separator, axis=1)
        return started & (tokens[:, :-1] <= separator)

    def stage_one(self, data_seed: int, share: float = SPLINE_SHARE) -> tuple[Examples, Examples]:
        """As for other tasks; with ``spline_max_length`` the splines get strings of their own, up to that length.

        None of them is in the weights part, and there are as many as would have been held out.
        """
        weights, spline = holdout(self.dataset("train", data_seed), share)
        if self.config.spline_max_length is None:
            return weights, spline
        seen = np.unique(_joined(weights.tokens))
        fresh = self.accepted(
            "spline", data_seed, len(spline), lambda rows: ~np.isin(_joined(rows), seen, assume_unique=False)
        )
        return weights, fresh


def _joined(rows: Rows) -> NDArray[Any]:
    """Each row as one value of raw bytes, so that rows can be compared as wholes."""
    rows = np.ascontiguousarray(rows)
    return rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
