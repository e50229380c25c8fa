"""RunSpec: all that decides a result, frozen. Its hash is the run id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from jobs.identity import content_id

SCHEMA = 1
"""Version of the identity recipe. A new field with a neutral default keeps it; a changed default raises it."""


@dataclass(frozen=True)
class InputRef:
    """Another run's product, by that run's id and the product's name: never by its content, so that a plan is
    complete before anything has run."""

    run: str
    product: str

    def payload(self) -> dict[str, str]:
        return {"run": self.run, "product": self.product}


@dataclass(frozen=True)
class RunSpec:
    """One run.

    Attributes:
        runner: who carries it out, a name in ``jobs.runners.RUNNERS``.
        config: the runner's typed, resolved config with defaulted fields left out (``jobs.runners.normalise``).
        seed: of initial weights, data and order; the runner derives all its randomness from (seed, step).
        inputs: name of the input -> the product it is.
    """

    runner: str
    config: Mapping[str, Any]
    seed: int
    inputs: Mapping[str, InputRef] = field(default_factory=dict)

    def payload(self) -> dict[str, Any]:
        """The JSON that is hashed."""
        payload: dict[str, Any] = {
            "schema": SCHEMA,
            "runner": self.runner,
            "config": self.config,
            "seed": self.seed,
        }
        if self.inputs:
            payload["inputs"] = {name: ref.payload() for name, ref in self.inputs.items()}
        return payload

    @cached_property
    def id(self) -> str:
        """``r`` and 15 hex digits."""
        return content_id("r", self.payload())


def pack_id(run_ids: list[str] | tuple[str, ...]) -> str:
    """Id of runs carried together by one process: ``p`` and 15 hex digits over the ordered run ids."""
    return content_id("p", list(run_ids))
