"""ADD and ADDREVERSED: two numbers of d decimal digits and their sum, written forward or units first.

Tokens: digits 0-9, "+" 10, "=" 11, pad 12, digits of the result 20-29, stop 30. Length 3d + 4: exactly filled when
the sum has d + 1 digits, one pad otherwise. The layout is that of Zhong and Andreas (2024); see ``answer_mask``
for where scoring departs from theirs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from jobs.tasks.base import Bools
from jobs.tasks.counter_rng import Words, integers, words
from jobs.tasks.stream import Rows, StreamTask

PLUS, EQUALS, PAD, RESULT, STOP = 10, 11, 12, 20, 30


def draw_sums(keys: Words, digits: int, reverse: bool) -> Rows:
    """One sum for each key, operands uniform among the numbers of ``digits`` digits: uint8 [n, 3d + 4]."""
    drawn = words(keys[:, None], np.arange(2 * digits))
    units_first = integers(drawn, 10).reshape(-1, 2, digits)
    leading = integers(drawn.reshape(-1, 2, digits)[:, :, -1], 9)
    units_first[:, :, -1] = 1 + leading
    return encode(units_first[:, 0], units_first[:, 1], reverse)


def encode(a: NDArray[np.int64], b: NDArray[np.int64], reverse: bool) -> Rows:
    """Operands as digits, units first ([n, d] each), with their sum as sequences: uint8 [n, 3d + 4]."""
    n, digits = a.shape
    total = np.zeros((n, digits + 1), dtype=np.int64)
    for place in range(digits):
        column = a[:, place] + b[:, place] + total[:, place]
        total[:, place] = column % 10
        total[:, place + 1] = column // 10
    tokens = np.full((n, 3 * digits + 4), PAD, dtype=np.uint8)
    tokens[:, digits], tokens[:, 2 * digits + 1] = PLUS, EQUALS
    order = slice(None) if reverse else slice(None, None, -1)
    tokens[:, :digits], tokens[:, digits + 1 : 2 * digits + 1] = a[:, order], b[:, order]
    start = 2 * digits + 2
    carried = total[:, -1] > 0
    for rows, size in ((carried, digits + 1), (~carried, digits)):
        tokens[rows, start : start + size] = RESULT + total[rows, :size][:, order]
        tokens[rows, start + size] = STOP
    return tokens


def answer_mask(tokens: Rows, z_mask: bool = False) -> Bools:
    """Which predictions count: those made at "=" up to the last digit of the result (stop in, pad out).

    ``z_mask`` gives the original's: those made at a token of the result or at stop. It leaves out the first digit,
    which in ADD is the hardest (it needs the whole carry chain), and counts the pad after a stop.
    """
    inputs = tokens[:, :-1]
    if z_mask:
        return inputs >= RESULT
    return (inputs == EQUALS) | ((inputs >= RESULT) & (inputs < STOP))


class Addition(StreamTask):
    """Both tasks; the name of the config says in which order digits are written."""

    def draw(self, keys: Words, strata: NDArray[np.int64]) -> Rows:
        return draw_sums(keys, self.config.digits, self.config.name == "addreversed")

    def scored(self, tokens: Rows) -> Bools:
        return answer_mask(tokens, self.config.z_mask)
