"""The product of a search, as JSON: the function's numbers, where its inputs lay, and how far it has moved."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from jobs.errors import JobError
from jobs.shape_fit import Given, misfit
from models.config import TransformerConfig
from models.curves import initial_shape

VERSION = 1


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Visits(_Part):
    """Inputs of the function in all models and layers at the end of the search.

    ``counts`` is a histogram of equal bins from ``low`` to ``high``; ``below`` and ``above`` count what lies outside.
    """

    minimum: float
    maximum: float
    low: float
    high: float
    counts: tuple[int, ...]
    below: int
    above: int


class Slot(_Part):
    """The function of one place (``mlp``, ``attention``).

    ``values`` has a row for each layer, or one row for all: knot values of a spline on ``knots`` uniform points from
    ``low`` to ``high``, or (a, b) of a scaled GeLU (then ``low``, ``high`` and ``knots`` are None).
    """

    kind: Literal["learned", "scaled_gelu"]
    low: float | None = None
    high: float | None = None
    knots: int | None = None
    values: tuple[tuple[float, ...], ...]
    start: tuple[float, ...]
    moved_rms: float
    moved_max: float
    visits: Visits | None = None


class ShapeProduct(_Part):
    """All that a search leaves. ``models`` have come to the end, of ``members`` that began."""

    version: Literal[1] = VERSION
    steps: int
    members: int
    models: int
    slots: dict[str, Slot]


def starting_curves(config: TransformerConfig) -> dict[str, list[list[float]]]:
    """What a search would begin with, in the form of ``read_curves``: for members that are masked and never trained."""
    return {slot: [initial_shape(wanted).tolist()] for slot, wanted in config.searched().items()}


def read_curves(path: Path | None, config: TransformerConfig) -> dict[str, list[list[float]]]:
    """Curves for a network's searched slots, slot -> ``[layers or 1][size]``, as ``models.build.Member`` takes them.

    Raises:
        JobError: the network needs a product and there is none, or it does not fit.
    """
    searched = config.searched()
    if not searched:
        return {}
    if path is None:
        raise JobError(f"slots {', '.join(sorted(searched))} are 'learned': the run needs the input 'activation'")
    try:
        product = ShapeProduct.model_validate(orjson.loads(path.read_bytes()))
    except (OSError, ValueError, ValidationError) as error:
        raise JobError(f"{path.name} is not the product of a search: {error}") from error
    curves: dict[str, list[list[float]]] = {}
    for name, wanted in searched.items():
        slot = product.slots.get(name)
        given = None if slot is None else Given(slot.kind, slot.low, slot.high, slot.knots, len(slot.values))
        if reason := misfit(name, wanted, config, given, ", ".join(product.slots)):
            raise JobError(reason)
        assert slot is not None, "a misfit otherwise"
        curves[name] = [list(row) for row in slot.values]
    return curves
