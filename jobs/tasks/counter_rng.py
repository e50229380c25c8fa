"""Random numbers as a pure function of (seed, stream, index, draw): no state, no order of use.

An item of a data set never depends on how many items are made, in which order, or by which process. The
mixing function is the finaliser of splitmix64 (Steele, Lea and Flood, OOPSLA 2014, "Fast splittable
pseudorandom number generators"), which passes BigCrush when it is fed a counter.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # odd, close to 2**64 / golden ratio: the step of the counter
_HALF = np.uint64(32)


def mix(words: Words) -> Words:
    """Scramble 64-bit words, one to one; the input is left as it is. Any shape but (), uint64."""
    z = words ^ (words >> np.uint64(30))
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


def stream_key(seed: int, *labels: str) -> np.uint64:
    """The key of one named stream of one data seed, e.g. ``stream_key(7, "mano", "test")``.

    Hashed by BLAKE2b, so neighbouring seeds and similar names give unrelated streams.

    Raises:
        ValueError: when the seed is negative.
    """
    if seed < 0:
        raise ValueError(f"data seed {seed} is negative; use an integer from 0 up")
    text = "\x1f".join((str(seed), *labels)).encode()
    return np.uint64(int.from_bytes(blake2b(text, digest_size=8).digest(), "little"))


def item_keys(stream: np.uint64, indices: NDArray[np.integer]) -> Words:
    """One key for each index of a stream (uint64 [n]); key i depends on the stream and on i only."""
    return mix(mix(indices.astype(np.uint64) * _GOLDEN + _GOLDEN) ^ stream)


def words(keys: Words, draws: int | NDArray[np.integer]) -> Words:
    """The random word number ``draws`` of each key; the two broadcast against each other."""
    counter = (np.atleast_1d(np.asarray(draws)).astype(np.uint64) + np.uint64(1)) * _GOLDEN
    return mix(keys + counter)


def integers(random: Words, bound: int | NDArray[np.integer]) -> NDArray[np.int64]:
    """Words as integers in 0..bound-1 (int64), by multiply and shift of the upper 32 bits.

    The bound (a number, or an array that broadcasts) must lie in 1..2**31; the bias is below bound / 2**32.
    """
    limit = np.asarray(bound).astype(np.uint64)
    return ((random >> _HALF) * limit >> _HALF).astype(np.int64)


def geometric(random: Words) -> NDArray[np.int64]:
    """Words as the number of fair coin tosses up to the first head: 1 with 1/2, 2 with 1/4 ... (65 at most)."""
    lowest_bit = random & (~random + np.uint64(1))
    return 1 + np.bitwise_count(lowest_bit - np.uint64(1)).astype(np.int64)


def fingerprints(rows: NDArray[np.integer], key: np.uint64) -> Words:
    """A keyed 64-bit hash of each row (uint64 [n]): equal rows, equal hash, whatever surrounds them.

    Trailing zeros count, so compare only rows of one width. Values must lie in 0..2**31.
    """
    weights = mix(np.arange(1, rows.shape[1] + 1, dtype=np.uint64) * _GOLDEN) | np.uint64(1)
    folded = (rows.astype(np.uint64) + np.uint64(1)) @ weights
    return mix(mix(folded) ^ key)
