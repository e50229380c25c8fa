"""MANO: an expression in prefix order over the residues of a modulus, and its value, with no steps in between.

Tokens, for modulus N and up to M operations: residues 0..N-1; operators N (+), N+1 (-), N+2 (x); begin N+3;
"k operations" N+3+k; answer mark N+4+M; pad N+5+M. A sequence is begin, "k operations", the expression, the mark,
the answer. The task is Allen-Zhu's (2025), shrunk as in the paper; the ids are ours.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobs.tasks.base import Bools, Split, token_dtype
from jobs.tasks.config_base import LISTED_STRATUM
from jobs.tasks.counter_rng import Words, integers, words
from jobs.tasks.levels import mano_expressions
from jobs.tasks.stream import Rows, StreamTask


class Mano(StreamTask):
    """Strata and classes are numbers of operations, 1..M with equal probability."""

    def strata(self, keys: Words, split: Split) -> NDArray[np.int64]:
        return 1 + integers(words(keys, 0), self.config.max_operations)

    def draw(self, keys: Words, strata: NDArray[np.int64]) -> Rows:
        """Top-down: an operator, then a uniform share of the remaining operations to its left operand."""
        n, modulus = len(keys), self.config.modulus
        longest = 2 * int(strata.max()) + 1
        expressions = np.full((n, longest), -1)
        # Operations still to be placed, per pending operand; an operand without any is a residue.
        stack = np.zeros((n, longest + 2), dtype=np.int64)
        stack[:, 0] = strata
        depth = np.ones(n, dtype=np.int64)
        active = np.arange(n)
        for place in range(longest):
            active = active[depth[active] > 0]
            top = depth[active] - 1
            left_over = stack[active, top]
            word = words(keys[active], place)
            operator = left_over > 0
            expressions[active, place] = np.where(operator, modulus, 0) + integers(word, np.where(operator, 3, modulus))
            left = integers(word << np.uint64(32), np.maximum(left_over, 1))
            stack[active, top] = left_over - 1 - left
            stack[active, top + 1] = left
            depth[active] = top + 2 * operator
        return self.encode(expressions, strata)

    def encode(self, expressions: NDArray[np.int64], operations: NDArray[np.int64]) -> Rows:
        """Sequences from expressions (int [n, w], padded at the end) of so many operations (int [n])."""
        n, first = len(operations), self.config.modulus + 3
        mark = first + 1 + self.config.max_operations
        tokens = np.full((n, self.config.length), mark + 1, dtype=token_dtype(self.config.vocab))
        tokens[:, 0], tokens[:, 1] = first, first + operations
        ends = 2 * operations + 1
        row, column = np.nonzero(np.arange(expressions.shape[1]) < ends[:, None])
        tokens[row, 2 + column] = expressions[row, column]
        rows = np.arange(n)
        tokens[rows, 2 + ends] = mark
        tokens[rows, 3 + ends] = self.value(expressions, operations)
        return tokens

    def value(self, expressions: NDArray[np.int64], operations: NDArray[np.int64]) -> NDArray[np.int64]:
        """The residue that each expression (int [n, w], prefix order) comes to: int64 [n]."""
        n, modulus = len(operations), self.config.modulus
        stack = np.zeros((n, expressions.shape[1] + 2), dtype=np.int64)
        depth = np.zeros(n, dtype=np.int64)
        # From the right, an operator finds its left operand on top of the stack and the right one below it.
        for place in range(expressions.shape[1] - 1, -1, -1):
            rows = np.flatnonzero(place <= 2 * operations)
            token, top = expressions[rows, place], depth[rows]
            left, right = stack[rows, top - 1], stack[rows, top - 2]
            results = np.select(
                [token < modulus, token == modulus, token == modulus + 1],
                [token, left + right, left - right],
                left * right,
            )
            top = np.where(token < modulus, top, top - 2)
            stack[rows, top] = results % modulus
            depth[rows] = top + 1
        return stack[:, 0]

    def members(self, stratum: int) -> Rows | None:
        if mano_expressions(self.config.modulus, stratum)[-1] > LISTED_STRATUM:
            return None
        expressions = all_expressions(self.config.modulus, stratum)
        return self.encode(expressions, np.full(len(expressions), stratum))

    def klass(self, strata: NDArray[np.int64]) -> NDArray[Any]:
        return (strata - 1).astype(np.uint8)

    def scored(self, tokens: Rows) -> Bools:
        return tokens[:, :-1] == self.config.modulus + 4 + self.config.max_operations


def all_expressions(modulus: int, operations: int) -> NDArray[np.int64]:
    """Every expression with so many operations, each once: int64 [count, 2 * operations + 1]."""
    if operations == 0:
        return np.arange(modulus)[:, None]
    tables = []
    for count in range(operations):
        left, right = all_expressions(modulus, count), all_expressions(modulus, operations - 1 - count)
        for operator in range(modulus, modulus + 3):
            both = np.hstack([np.repeat(left, len(right), axis=0), np.tile(right, (len(left), 1))])
            tables.append(np.hstack([np.full((len(both), 1), operator), both]))
    return np.vstack(tables)
