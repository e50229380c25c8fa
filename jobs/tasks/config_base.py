"""What the descriptions of all tasks have in common, and the rule by which their strings are divided."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, Field, SerializerFunctionWrapHandler, model_serializer

Metric = Literal["accuracy", "sequence accuracy", "recall of trained pairs"]
Size = Annotated[int, Field(ge=1, le=10_000_000)]

HELD_OUT_SHARE = 0.095
"""Share of all strings that belong to the test set, and again to the validation set: over 80 % stay in training."""

LISTED_STRATUM = 20_000
"""Strata of at most so many strings are split by counting (10 % each); larger ones by a threshold on a hash."""


def held_out(strings: int) -> int:
    """How many of ``strings`` different strings a strict split gives to the test set (and to validation)."""
    return strings // 10 if strings <= LISTED_STRATUM else int(strings * HELD_OUT_SHARE)


class TaskBase(BaseModel, frozen=True, extra="forbid", strict=True):
    """What all tasks have: a name, sizes of the three sets, and levels to read an accuracy against."""

    name: str

    metric: ClassVar[Metric] = "accuracy"
    ceiling: ClassVar[float] = 1.0
    """Best accuracy within reach: every scored token is decided by the tokens before it."""

    @model_serializer(mode="wrap")
    def _always_named(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """The tag is written even where defaults are left out, or the rest could not be read back."""
        return {"name": self.name, **write(self)}

    @property
    @abstractmethod
    def vocab(self) -> int:
        """Number of token ids, padding included."""
        raise NotImplementedError

    @property
    @abstractmethod
    def length(self) -> int:
        """L, the length that sequences are padded to (prompt, answer and pads)."""
        raise NotImplementedError

    @property
    @abstractmethod
    def sizes(self) -> dict[str, int]:
        """Number of examples of "train", "validation" and "test"."""
        raise NotImplementedError

    @property
    @abstractmethod
    def chance(self) -> float:
        """Accuracy of the best guess that looks at positions only, never at the tokens of the prompt."""
        raise NotImplementedError

    @property
    def trivial(self) -> float | None:
        """Accuracy of a known rule that does not solve the task, or None: below it nothing was learnt."""
        return None

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes that accuracy is broken down by; ``Examples.klass`` indexes them."""
        return ()


class SplitTask(TaskBase, frozen=True):
    """A task whose three sets are disjoint."""

    validation: Size = 1000
    test: Size = 1000

    def enough_held_out(self, strings: int, what: str, fix: str) -> None:
        """Refuse a validation or test set larger than the strings that a strict split leaves for it.

        Raises:
            ValueError: naming the field, its value and the fix.
        """
        left = held_out(strings)
        for field in ("validation", "test"):
            size: int = getattr(self, field)
            if size > left:
                raise ValueError(
                    f"{self.name}: {field}={size} is more than the {left} of {strings} {what} that a strict "
                    f"split leaves for it; lower {field} to {left} or less, or {fix}"
                )


class StreamedTask(SplitTask, frozen=True):
    """A task whose examples are drawn from a generator without end, each set from strings of its own."""

    train: Size = 100_000

    @property
    def sizes(self) -> dict[str, int]:
        return {"train": self.train, "validation": self.validation, "test": self.test}
