"""PARENTHESES: "(" and ")" in a row, "?", and the answer: ")" where the string is balanced, else "(".

Tokens: 0 pad, 1 "(", 2 ")", 3 "?". Length 2m + 3 for up to m pairs. The distribution is that of the stream of
nearly balanced strings of Zhong and Andreas (2024): a third random, a third balanced, a third balanced and
then damaged by swaps, flips or both (or, now and then, by neither).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobs.tasks.base import Bools, Split
from jobs.tasks.counter_rng import Words, geometric, integers, words
from jobs.tasks.stream import Rows, StreamTask

OPEN, CLOSE, QUESTION = 1, 2, 3

ALWAYS_TRAINED = 4
"""Strings of up to four brackets stay in training: there are 30 of them, and each is drawn so often that its
set would decide how hard a test is."""

# Which words of an item's key are used for what; those with a range of their own start at round numbers.
_MUTATION, _KIND, _SIZE, _UNTOUCHED, _SWAPS, _FLIPS, _DOUBLED = range(7)
_SWAP, _FLIP, _BRACKETS, _GRAMMAR = 100, 200, 1000, 2000
_EXPANDED = -1  # on the stack of the grammar: a bracket still to be closed


def draw_brackets(keys: Words, max_pairs: int) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
    """One string of 1..2m brackets for each key.

    Returns:
        int8 [n, 2m] with 1 for "(", -1 for ")" and 0 after the end; and the lengths, int64 [n].
    """
    mutation = integers(words(keys, _MUTATION), 4)
    plain = integers(words(keys, _KIND), 3) == 0
    lengths = np.where(
        plain,
        1 + integers(words(keys, _SIZE), 2 * max_pairs),
        2 * (1 + integers(words(keys, _SIZE), max_pairs)),
    )
    untouched = ~plain & (integers(words(keys, _UNTOUCHED), 2) == 0)
    mutation[untouched] = 0

    brackets = np.zeros((len(keys), 2 * max_pairs), dtype=np.int8)
    brackets[plain] = _random_brackets(keys[plain], lengths[plain], 2 * max_pairs)
    nested = np.flatnonzero(~plain)
    brackets[nested] = _balanced_strings(keys[nested], lengths[nested] // 2, max_pairs)
    _swap(brackets, lengths, keys, np.flatnonzero(mutation & 1))
    _flip(brackets, lengths, keys, np.flatnonzero(mutation & 2))
    return brackets, lengths


def balanced(brackets: NDArray[np.int8]) -> Bools:
    """Whether each string (a row of 1, -1 and 0) closes all it opens and never closes too early."""
    depth = np.cumsum(brackets, axis=1, dtype=np.int16)
    return (depth.min(axis=1) >= 0) & (depth[:, -1] == 0)


def _random_brackets(keys: Words, lengths: NDArray[np.int64], width: int) -> NDArray[np.int8]:
    columns = np.arange(width)
    drawn = words(keys[:, None], _BRACKETS + np.arange(-(-width // 64)))
    bits = (drawn[:, columns // 64] >> (columns % 64).astype(np.uint64)) & np.uint64(1)
    signs = 2 * bits.astype(np.int8) - 1
    return np.where(columns < lengths[:, None], signs, 0).astype(np.int8)


def _balanced_strings(keys: Words, pairs: NDArray[np.int64], max_pairs: int) -> NDArray[np.int8]:
    """Strings from the grammar: one pair is "()"; k pairs are, with 1/2 each, a pair around k-1, or u and k-u.

    All strings take their next step together. Each has a stack of pending numbers of pairs and of brackets
    still to be closed; both together never exceed the number of its pairs.
    """
    n = len(keys)
    # One spare column at the end: rows that write nothing in a step write there.
    out = np.zeros((n, 2 * max_pairs + 1), dtype=np.int8)
    stack = np.zeros((n, max_pairs + 2), dtype=np.int16)
    stack[:, 0] = pairs
    written, depth = np.zeros(n, dtype=np.int64), np.ones(n, dtype=np.int64)
    active, step = np.arange(n), 0
    while len(active):
        at, top = written[active], depth[active] - 1
        item = stack[active, top].astype(np.int64)
        word = words(keys[active], _GRAMMAR + step)
        closing, leaf, larger = item == _EXPANDED, item == 1, item > 1
        wrapping = larger & ((word & np.uint64(1)) == 1)
        splitting = larger & ~wrapping
        out[active, np.where(splitting, -1, at)] = np.where(closing, -1, 1)
        out[active, np.where(leaf, at + 1, -1)] = -1
        written[active] = at + np.where(splitting, 0, 1) + leaf
        first = 1 + integers(word, np.maximum(item - 1, 1))
        stack[active, top] = np.where(wrapping, _EXPANDED, item - first)
        stack[active, top + 1] = np.where(wrapping, item - 1, first)
        depth[active] = top + 2 * larger
        active = active[depth[active] > 0]
        step += 1
    return out[:, :-1]


def _swap(brackets: NDArray[np.int8], lengths: NDArray[np.int64], keys: Words, which: NDArray[np.int64]) -> None:
    """Exchange two random characters where the first drawn lies left of the second, G times (G geometric)."""
    times = geometric(words(keys[which], _SWAPS))
    for turn in range(int(times.max(initial=0))):
        rows = which[times > turn]
        word = words(keys[rows], _SWAP + turn)
        p, q = integers(word, lengths[rows]), integers(word << np.uint64(32), lengths[rows])
        rows, p, q = rows[p < q], p[p < q], q[p < q]
        brackets[rows, p], brackets[rows, q] = brackets[rows, q], brackets[rows, p]


def _flip(brackets: NDArray[np.int8], lengths: NDArray[np.int64], keys: Words, which: NDArray[np.int64]) -> None:
    """Turn a random character round, G times, or 2 G times with probability 2/3 (G geometric)."""
    doubled = integers(words(keys[which], _DOUBLED), 3) > 0
    times = geometric(words(keys[which], _FLIPS)) * (1 + doubled)
    for turn in range(int(times.max(initial=0))):
        rows = which[times > turn]
        brackets[rows, integers(words(keys[rows], _FLIP + turn), lengths[rows])] *= -1


def encode(brackets: NDArray[np.int8], lengths: NDArray[np.int64]) -> Rows:
    """Strings as sequences with question and answer: uint8 [n, 2m + 3]."""
    n, width = brackets.shape
    tokens = np.zeros((n, width + 3), dtype=np.uint8)
    tokens[:, :width] = np.where(brackets > 0, OPEN, np.where(brackets < 0, CLOSE, 0))
    rows = np.arange(n)
    tokens[rows, lengths] = QUESTION
    tokens[rows, lengths + 1] = np.where(balanced(brackets), CLOSE, OPEN)
    return tokens


def kind(tokens: Rows) -> NDArray[np.int64]:
    """0: unequal numbers of "(" and ")"; 1: equal, yet not balanced; 2: balanced. int64 [n] for tokens [n, 2m + 3]."""
    answer = tokens[np.arange(len(tokens)), (tokens == QUESTION).argmax(axis=1) + 1]
    # The answer is itself a bracket and must not be counted.
    excess = (tokens == OPEN).sum(axis=1) - (tokens == CLOSE).sum(axis=1) - np.where(answer == OPEN, 1, -1)
    return np.where(answer == CLOSE, 2, np.where(excess == 0, 1, 0))


class Parentheses(StreamTask):
    """Only the prediction at "?" counts. ``config.trivial`` is what counting alone reaches.

    Strata are what the two answers and the counting rule tell apart, and item i is of the stratum that its first
    draw had. So in each set the share of balanced strings and the level of the rule are those of the stream;
    otherwise the few short strings that a set happens to own would move both by percents.
    """

    def strata(self, keys: Words, split: Split) -> NDArray[np.int64]:
        return kind(self.draw(words(keys, 1), np.zeros(len(keys), dtype=np.int64)))

    def in_stratum(self, tokens: Rows, strata: NDArray[np.int64]) -> Bools:
        return kind(tokens) == strata

    def draw(self, keys: Words, strata: NDArray[np.int64]) -> Rows:
        return encode(*draw_brackets(keys, self.config.max_pairs))

    def always_trained(self, tokens: Rows) -> Bools:
        return (tokens[:, : ALWAYS_TRAINED + 1] == QUESTION).any(axis=1)

    def scored(self, tokens: NDArray[Any]) -> Bools:
        return tokens[:, :-1] == QUESTION
