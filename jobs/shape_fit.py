"""Does what a search learns fit the network that trains with it? Asked of the configs before anything runs, and of the
product itself on the node; torch-free."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jobs.train_config import ACTIVATION_INPUT, SearchConfig, TrainConfig
from models.config import LearnedActivation, SearchedActivation, TransformerConfig


@dataclass(frozen=True)
class Given:
    """The function of one slot as a search leaves it. ``rows``: one for each layer, or 1."""

    kind: str
    low: float | None
    high: float | None
    knots: int | None
    rows: int


def misfit(slot: str, wanted: SearchedActivation, network: TransformerConfig, given: Given | None, learnt: str) -> str:
    """Why the function does not fit a slot, in words that say what to change; "" where it does.

    Args:
        given: None where the search has nothing for this slot.
        learnt: the slots that the search has something for.
    """
    if given is None:
        return f"slot {slot!r} is 'learned', but the search learnt {learnt}; search with where: {slot} or both"
    grid = wanted.grid if isinstance(wanted, LearnedActivation) else None
    asked = (wanted.kind, None, None, None) if grid is None else (wanted.kind, grid.low, grid.high, grid.knots)
    has = (given.kind, given.low, given.high, given.knots)
    if has != asked:
        return f"slot {slot!r} asks for (kind, low, high, knots) = {asked}, the search learnt {has}"
    per_layer = network.share_activation == "per_layer"
    if given.rows > 1 and not per_layer:
        return (
            f"the search learnt a function for each of {given.rows} layers (search.share: per_layer), but "
            f"slot {slot!r} has one for all; set model.share: per_layer"
        )
    if per_layer and given.rows != network.layers:
        said = "one function for all layers" if given.rows == 1 else f"a function for each of {given.rows} layers"
        fix = "set model.share: shared, or search.share: per_layer" if given.rows == 1 else "give both as many layers"
        return f"slot {slot!r} has a function for each of {network.layers} layers, but the search learnt {said}; {fix}"
    return ""


def fits(config: TrainConfig, name: str, producer: Any) -> str:
    """Why the product of a run does not fit the input of another; "" where it does.

    Args:
        config: of the run that consumes. name: of its input. producer: config of the run that leaves the product.
    """
    if name != ACTIVATION_INPUT or not isinstance(producer, SearchConfig):
        return "" if isinstance(producer, SearchConfig) else f"the input {name!r} is what a search leaves"
    network, searched = config.transformer(), producer.transformer()
    left = {slot: _given(activation, searched) for slot, activation in searched.searched().items()}
    reasons = (
        misfit(slot, wanted, network, left.get(slot), ", ".join(left)) for slot, wanted in network.searched().items()
    )
    return next((reason for reason in reasons if reason), "")


def _given(activation: SearchedActivation, network: TransformerConfig) -> Given:
    rows = network.layers if network.share_activation == "per_layer" else 1
    if isinstance(activation, LearnedActivation):
        grid = activation.grid
        return Given(activation.kind, grid.low, grid.high, grid.knots, rows)
    return Given(activation.kind, None, None, None, rows)
