"""Tasks whose examples come from an endless generator, divided by strings: each belongs to one set, for good.

Which set a string belongs to is decided by a hash of it (keyed by the data seed), within its stratum (its length
in COPY, its number of operations in MANO ...). The stratum of item i is drawn first, then strings of that stratum
until one belongs to the set. So the sets are disjoint whatever their sizes, they have equal mixtures of strata,
and over 80 % of the strings of each stratum stay in training. Skipping the members of a ready-made test set, as
the original did, would take nearly all short strings out of training instead.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobs.tasks.base import SPLINE_SHARE, Bools, Examples, Split, holdout
from jobs.tasks.config_base import HELD_OUT_SHARE, LISTED_STRATUM, held_out
from jobs.tasks.counter_rng import Words, fingerprints, item_keys, stream_key, words

_MOST_ATTEMPTS = 5000
_ATTEMPTS_AT_ONCE = {"train": 1, "spline": 4, "validation": 8, "test": 8}
_ROWS_AT_ONCE = 4096  # few pending items try more draws at once: the first good one counts, so none depends on it

Rows = NDArray[Any]
Accept = Callable[[Rows], Bools]


class StreamTask(ABC):
    """The part that all drawn tasks share; a task says how to draw a string and what to score."""

    splits_batch = False

    def __init__(self, config: Any) -> None:
        self.config = config

    @abstractmethod
    def draw(self, keys: Words, strata: NDArray[np.int64]) -> Rows:
        """One padded sequence for each key (uint64 [n]) from the stratum beside it: tokens [n, L]."""

    @abstractmethod
    def scored(self, tokens: Rows) -> Bools:
        """The mask of predictions that count, bool [n, L-1]."""

    def strata(self, keys: Words, split: Split) -> NDArray[np.int64]:
        """The stratum of each item of a set, drawn from word 0 of its key."""
        return np.zeros(len(keys), dtype=np.int64)

    def in_stratum(self, tokens: Rows, strata: NDArray[np.int64]) -> Bools:
        """Whether each sequence is of the stratum it was drawn for; where ``draw`` sees to that, always."""
        return np.ones(len(tokens), dtype=bool)

    def members(self, stratum: int) -> Rows | None:
        """All sequences of a stratum, or None where they are too many to list (above ``LISTED_STRATUM``)."""
        return None

    def always_trained(self, tokens: Rows) -> Bools | None:
        """Sequences that are never held out (None: there are none)."""
        return None

    def klass(self, strata: NDArray[np.int64]) -> NDArray[Any]:
        """The class of each item, an index into ``config.classes``."""
        return np.zeros(len(strata), dtype=np.uint8)

    def dataset(self, split: Split, data_seed: int) -> Examples:
        if split == "spline":
            return self.stage_one(data_seed)[1]
        return self.accepted(split, data_seed, self.config.sizes[split])

    def stage_one(self, data_seed: int, share: float = SPLINE_SHARE) -> tuple[Examples, Examples]:
        return holdout(self.dataset("train", data_seed), share)

    def accepted(self, split: Split, data_seed: int, size: int, accept: Accept | None = None) -> Examples:
        """The first ``size`` items of a set: for each index, the first draw that belongs to the set.

        Args:
            split: the set; "spline" draws from the strings of training, on a stream of its own.
            data_seed: 0 or more.
            size: number of items.
            accept: a further condition on the sequences, or None.

        Raises:
            RuntimeError: when a stratum has no acceptable string left.
        """
        name = self.config.name
        base = item_keys(stream_key(data_seed, name, split), np.arange(size))
        strata = self.strata(base, split)
        divide = _Division(self, stream_key(data_seed, name, "strings"), np.unique(strata))
        tokens: Rows | None = None
        pending, attempt = np.arange(size), 1
        while attempt < _MOST_ATTEMPTS:
            block = max(_ATTEMPTS_AT_ONCE[split], min(_ROWS_AT_ONCE // len(pending), 128))
            draws = np.arange(attempt, attempt + block)
            attempt += block
            stratum = np.repeat(strata[pending], block)
            rows = self.draw(words(base[pending, None], draws).ravel(), stratum)
            good = divide.belongs(rows, stratum, split) & self.in_stratum(rows, stratum)
            if accept is not None:
                good &= accept(rows)
            good = good.reshape(-1, block)
            found, first = good.any(axis=1), good.argmax(axis=1)
            if tokens is None:
                tokens = np.zeros((size, rows.shape[1]), dtype=rows.dtype)
            tokens[pending[found]] = rows[np.flatnonzero(found) * block + first[found]]
            pending = pending[~found]
            if not len(pending):
                return Examples(tokens, self.scored(tokens), self.klass(strata))
        raise RuntimeError(
            f"{name}: no string for the {split} set in {_MOST_ATTEMPTS} draws (stratum {strata[pending[0]]}, data "
            f"seed {data_seed}); make the task larger"
        )


class _Division:
    """Which set each string of a task belongs to, under one key."""

    def __init__(self, task: StreamTask, key: np.uint64, strata: NDArray[np.int64]) -> None:
        self._task = task
        self._key = key
        # Hashes below the first bound belong to the test set, those below the second to validation.
        self._bounds = np.zeros((2, int(strata.max()) + 1), dtype=np.uint64)
        for stratum in strata.tolist():
            self._bounds[:, stratum] = self._thresholds(task.members(stratum))

    def _thresholds(self, members: Rows | None) -> tuple[int, int]:
        if members is None or len(members) > LISTED_STRATUM:
            return int(HELD_OUT_SHARE * 2**64), int(2 * HELD_OUT_SHARE * 2**64)
        hashes = np.sort(fingerprints(members, self._key))
        share = held_out(len(members))
        return int(hashes[share]), int(hashes[2 * share])

    def belongs(self, rows: Rows, strata: NDArray[np.int64], split: Split) -> Bools:
        hashes = fingerprints(rows, self._key)
        in_test = hashes < self._bounds[0, strata]
        held = hashes < self._bounds[1, strata]
        kept = self._task.always_trained(rows)
        if kept is not None:
            in_test &= ~kept
            held &= ~kept
        if split == "test":
            return in_test
        return held & ~in_test if split == "validation" else ~held
