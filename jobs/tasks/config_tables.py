"""Descriptions of the tasks whose examples are the rows of one finite table: MEMORIZE and ADDMOD."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from jobs.tasks.config_base import Metric, Size, SplitTask, TaskBase


class MemorizeConfig(TaskBase, frozen=True):
    """Pairs of a key (``digits`` tokens, base ``values``) and a random value; all pairs are trained.

    A random table says nothing about unseen keys, so validation and test are trained pairs too.
    """

    name: Literal["memorize"] = "memorize"
    values: Annotated[int, Field(ge=2, le=4096)] = 512
    digits: Annotated[int, Field(ge=1, le=8)] = 2
    pairs: Size | None = None
    """Size of the table; None: one pair for each of the ``values ** digits`` keys."""
    validation: Size | None = None
    """None: 1000 of the pairs, or all where there are fewer; the same for ``test``."""
    test: Size | None = None

    metric: ClassVar[Metric] = "recall of trained pairs"

    @model_validator(mode="after")
    def _check(self) -> MemorizeConfig:
        keys = self.values**self.digits
        if keys > 10_000_000:
            raise ValueError(
                f"memorize: values={self.values} with digits={self.digits} makes {keys} keys, more than the 10,000,000 "
                f"there is room for; lower values or digits"
            )
        if self.table > keys:
            raise ValueError(
                f"memorize: pairs={self.table} is more than the {keys} keys there are (values ** digits); "
                f"lower pairs to {keys} or less, or raise values or digits"
            )
        for field in ("validation", "test"):
            size = getattr(self, field)
            if size is not None and size > self.table:
                raise ValueError(
                    f"memorize: {field}={size} is more than the {self.table} pairs of the table; "
                    f"lower {field} to {self.table} or less, or raise pairs"
                )
        return self

    @property
    def table(self) -> int:
        """Number of pairs, all of them trained."""
        return self.values**self.digits if self.pairs is None else self.pairs

    @property
    def sizes(self) -> dict[str, int]:
        few = min(1000, self.table)
        return {
            "train": self.table,
            "validation": few if self.validation is None else self.validation,
            "test": few if self.test is None else self.test,
        }

    @property
    def vocab(self) -> int:
        return self.values * self.digits

    @property
    def length(self) -> int:
        return self.digits + 1

    @property
    def chance(self) -> float:
        return 1 / self.values


class AddmodConfig(SplitTask, frozen=True):
    """a, b, (a + b) mod p. Both orders of a pair lie in one set, so that no test sum is a trained one mirrored.

    ``split="ordered"`` splits ordered pairs, as the original did (37,620 and 1,981 at p = 199), and leaks.
    """

    name: Literal["addmod"] = "addmod"
    p: Annotated[int, Field(ge=5, le=1024)] = 199
    split: Literal["unordered", "ordered"] = "unordered"
    train: Size | None = None
    """None: all pairs that validation and test leave (see ``sizes``)."""

    @model_validator(mode="after")
    def _check(self) -> AddmodConfig:
        left = self._left
        if left < 1 or (self.train is not None and self.train > left):
            named = "test" if left < 1 else "train"
            raise ValueError(
                f"addmod: {named}={getattr(self, named)} does not fit: p={self.p} has {self.p**2} pairs, and "
                f"validation={self.validation} and test={self.test} leave {max(left, 0)} for training; "
                f"lower {'validation or test' if left < 1 else f'train to {left} or less'}, or raise p"
            )
        return self

    @property
    def _left(self) -> int:
        # Cutting a set to its exact size can drop one mirrored pair for validation and one for test.
        dropped = 2 if self.split == "unordered" else 0
        return self.p**2 - self.validation - self.test - dropped

    @property
    def sizes(self) -> dict[str, int]:
        train = self._left if self.train is None else self.train
        return {"train": train, "validation": self.validation, "test": self.test}

    @property
    def vocab(self) -> int:
        return self.p

    @property
    def length(self) -> int:
        return 3

    @property
    def chance(self) -> float:
        return 1 / self.p
