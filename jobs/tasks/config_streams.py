"""Descriptions of the tasks whose examples are drawn from a generator without end."""

from __future__ import annotations

from math import perm
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from jobs.tasks import levels
from jobs.tasks.config_base import Metric, StreamedTask


class ParenthesesConfig(StreamedTask, frozen=True):
    """Is a string of up to ``2 * max_pairs`` brackets balanced? Half of the wrong ones are nearly right."""

    name: Literal["parentheses"] = "parentheses"
    max_pairs: Annotated[int, Field(ge=4, le=500)] = 30

    @property
    def vocab(self) -> int:
        return 4

    @property
    def length(self) -> int:
        return 2 * self.max_pairs + 3

    @property
    def chance(self) -> float:
        """Share of the more frequent answer (balanced, 0.52 at 30 pairs), by a simulation of fixed seed."""
        return levels.parentheses(self.max_pairs).majority

    @property
    def trivial(self) -> float:
        """Accuracy of comparing the numbers of "(" and ")" only (0.931 at 30 pairs), by simulation."""
        return levels.parentheses(self.max_pairs).counting


class HaystackConfig(StreamedTask, frozen=True):
    """Up to ``max_keys`` keys with values, then one of the keys as a query: its value is the answer."""

    name: Literal["haystack"] = "haystack"
    max_keys: Annotated[int, Field(ge=2, le=500)] = 30
    values: Annotated[int, Field(ge=2, le=8192)] = 127

    @model_validator(mode="after")
    def _check(self) -> HaystackConfig:
        m, v = self.max_keys, self.values
        if m * v < 10:
            raise ValueError(
                f"haystack: values={v} with max_keys={m} gives {m * v} strings of one key, and a strict split "
                f"needs 10; raise values to {-(-10 // m)} or more, or raise max_keys"
            )
        # k different keys in a row, k values, one of the k keys asked for
        strings = sum(perm(m, k) * v**k * k for k in range(1, m + 1))
        self.enough_held_out(strings, "strings", "raise values or max_keys")
        return self

    @property
    def vocab(self) -> int:
        """The original's half for padding and values, half for keys and queries; more where keys need it."""
        return self.values + 1 + max(self.values + 1, 2 * self.max_keys)

    @property
    def length(self) -> int:
        return 2 * self.max_keys + 3

    @property
    def chance(self) -> float:
        return 1 / self.values

    @property
    def trivial(self) -> float:
        """Accuracy of naming any value in sight: H_m / m (13.3 % at 30 keys) and a chance match otherwise."""
        found = sum(1 / k for k in range(1, self.max_keys + 1)) / self.max_keys
        return found + (1 - found) / self.values


class _Addition(StreamedTask, frozen=True):
    digits: Annotated[int, Field(ge=2, le=200)] = 10
    z_mask: bool = False
    """Score as the original did: never the first digit of the sum, and the pad after the stop token."""

    @model_validator(mode="after")
    def _check(self) -> _Addition:
        self.enough_held_out((9 * 10 ** (self.digits - 1)) ** 2, "pairs of numbers", "raise digits")
        return self

    @property
    def vocab(self) -> int:
        return 31

    @property
    def length(self) -> int:
        return 3 * self.digits + 4


class AddConfig(_Addition, frozen=True):
    """Sum of two numbers of ``digits`` digits, most significant digit first."""

    name: Literal["add"] = "add"

    @property
    def chance(self) -> float:
        """Most frequent token of each position of the answer, pooled over scored tokens, by simulation."""
        return levels.addition(self.digits, False, self.z_mask)


class AddreversedConfig(_Addition, frozen=True):
    """Sum of two numbers of ``digits`` digits, units first, so that carries run along the sequence."""

    name: Literal["addreversed"] = "addreversed"

    @property
    def chance(self) -> float:
        """Most frequent token of each position of the answer, pooled over scored tokens, by simulation."""
        return levels.addition(self.digits, True, self.z_mask)


class CopyConfig(StreamedTask, frozen=True):
    """Repeat a string of symbols. Right only if every symbol and the end marker are.

    Training has lengths ``min_length..max_length``; validation and test ``min_length..test_max_length``, each
    length equally often. ``spline_max_length`` lets the splines of stage I see longer strings than the weights.
    """

    name: Literal["copy"] = "copy"
    symbols: Annotated[int, Field(ge=2, le=8192)] = 10
    min_length: Annotated[int, Field(ge=1, le=500)] = 2
    max_length: Annotated[int, Field(ge=1, le=500)] = 10
    test_max_length: Annotated[int, Field(ge=1, le=500)] = 30
    spline_max_length: Annotated[int, Field(ge=1, le=500)] | None = None

    metric: ClassVar[Metric] = "sequence accuracy"

    @model_validator(mode="after")
    def _check(self) -> CopyConfig:
        for field, low in (("max_length", "min_length"), ("test_max_length", "max_length"),
                           ("spline_max_length", "max_length")):  # fmt: skip
            value, floor = getattr(self, field), getattr(self, low)
            if value is not None and value < floor:
                raise ValueError(f"copy: {field}={value} is below {low}={floor}; raise {field} or lower {low}")
        shortest = self.symbols**self.min_length
        if shortest < 10:
            raise ValueError(
                f"copy: min_length={self.min_length} with symbols={self.symbols} gives {shortest} strings, and a "
                f"strict split needs 10 of each length; raise min_length or symbols"
            )
        strings = sum(self.symbols**n for n in range(self.min_length, self.test_max_length + 1))
        self.enough_held_out(strings, "strings", "raise symbols or test_max_length")
        return self

    @property
    def longest(self) -> int:
        """The longest string in any set."""
        return max(self.test_max_length, self.spline_max_length or 0)

    @property
    def vocab(self) -> int:
        return self.symbols + 3

    @property
    def length(self) -> int:
        return 2 * self.longest + 2

    @property
    def chance(self) -> float:
        """Every symbol guessed, the end marker right: symbols ** -n, averaged over the lengths of the test."""
        lengths = range(self.min_length, self.test_max_length + 1)
        return sum(float(self.symbols) ** -n for n in lengths) / len(lengths)

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(f"length_{n}" for n in range(self.min_length, self.longest + 1))


class ManoConfig(StreamedTask, frozen=True):
    """Value of an expression in prefix order over the residues of ``modulus``, no steps in between."""

    name: Literal["mano"] = "mano"
    modulus: Annotated[int, Field(ge=2, le=256)] = 7
    max_operations: Annotated[int, Field(ge=1, le=16)] = 3

    @model_validator(mode="after")
    def _check(self) -> ManoConfig:
        counts = levels.mano_expressions(self.modulus, self.max_operations)
        self.enough_held_out(sum(counts[1:]), "expressions", "raise modulus or max_operations")
        return self

    @property
    def vocab(self) -> int:
        """Residues, three operators, begin, one question mark per number of operations, answer mark, pad."""
        return self.modulus + 3 + 1 + self.max_operations + 2

    @property
    def length(self) -> int:
        return 2 * self.max_operations + 5

    @property
    def chance(self) -> float:
        """Share of the most frequent answer (0; 19.5 % at modulus 7 and three operations), exact."""
        return levels.mano_majority(self.modulus, self.max_operations)

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(f"operations_{n}" for n in range(1, self.max_operations + 1))
