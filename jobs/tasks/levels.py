"""Levels to read an accuracy against, where they need more than one line: exact for MANO, else simulated.

Simulations have a fixed seed, so a level is a constant of its task; they load numpy and the generators only
when asked for.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import NamedTuple

DRAWS = 100_000
"""Simulated examples: a share of 1/2 is known to 0.0016 (one standard error)."""


class ParenthesesLevels(NamedTuple):
    """Accuracies of two rules on strings of the stream, and so on those of each set."""

    majority: float  # always the more frequent answer
    counting: float  # balanced where the numbers of "(" and ")" agree


MEASURED = {6: ParenthesesLevels(0.5343, 0.8920), 30: ParenthesesLevels(0.5262, 0.9306)}
"""Levels of PARENTHESES by two million draws, for the sizes of the shipped recipes: planning needs no numpy."""


@lru_cache
def parentheses(max_pairs: int) -> ParenthesesLevels:
    """Levels of PARENTHESES: from the table, or simulated for another number of pairs."""
    return MEASURED.get(max_pairs) or simulate_parentheses(max_pairs)


def simulate_parentheses(max_pairs: int) -> ParenthesesLevels:
    """Levels of PARENTHESES from ``DRAWS`` strings of the stream."""
    import numpy as np

    from jobs.tasks import parentheses as task
    from jobs.tasks.counter_rng import item_keys, stream_key

    keys = item_keys(stream_key(0, "levels", "parentheses"), np.arange(DRAWS))
    brackets, _ = task.draw_brackets(keys, max_pairs)
    right = task.balanced(brackets)
    equal_counts = brackets.sum(axis=1) == 0
    share = float(right.mean())
    return ParenthesesLevels(max(share, 1 - share), float((right == equal_counts).mean()))


@lru_cache
def addition(digits: int, reverse: bool, z_mask: bool) -> float:
    """Best accuracy of a guess that knows only which token after "=" is asked for."""
    import numpy as np

    from jobs.tasks import addition as task
    from jobs.tasks.counter_rng import item_keys, stream_key

    keys = item_keys(stream_key(0, "levels", "addition"), np.arange(DRAWS // 5))
    tokens = task.draw_sums(keys, digits, reverse)
    scored = task.answer_mask(tokens, z_mask)
    right = 0
    for position in np.flatnonzero(scored.any(axis=0)):
        targets = tokens[scored[:, position], position + 1]
        right += Counter(targets.tolist()).most_common(1)[0][1]
    return right / int(scored.sum())


@lru_cache
def mano_expressions(modulus: int, max_operations: int) -> tuple[int, ...]:
    """Number of different expressions with 0, 1 ... ``max_operations`` operations: 7, 147, 6174, 324135 at 7."""
    counts = [modulus]
    for operations in range(1, max_operations + 1):
        pairs = sum(counts[left] * counts[operations - 1 - left] for left in range(operations))
        counts.append(3 * pairs)
    return tuple(counts)


@lru_cache
def mano_majority(modulus: int, max_operations: int) -> float:
    """Share of the most frequent answer when the number of operations is uniform, exact.

    The distribution of a value follows from those of its two operands, which are independent.
    """
    shares = [[1 / modulus] * modulus]
    for operations in range(1, max_operations + 1):
        total = [0.0] * modulus
        for left in range(operations):
            for a, p in enumerate(shares[left]):
                for b, q in enumerate(shares[operations - 1 - left]):
                    for value in (a + b, a - b, a * b):
                        total[value % modulus] += p * q / (3 * operations)
        shares.append(total)
    return max(sum(column) / max_operations for column in zip(*shares[1:], strict=True))
