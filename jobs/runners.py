"""Who can carry out a run: name -> where its parts are. Nothing is imported to be listed.

A runner is three attributes of modules:

- ``config``: a frozen pydantic model of what may stand under ``config:`` in a sweep file (torch-free module);
- ``describe``: ``(config) -> RunShape`` (torch-free): what the planner packs and prices by;
- ``run``: ``(session) -> None``: carries out a pack with the ``jobs.session.Session`` it is given (may import torch).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from pydantic import BaseModel

from jobs.errors import JobError


@dataclass(frozen=True)
class Runner:
    config: str
    describe: str
    run: str


RUNNERS: dict[str, Runner] = {
    "train": Runner("jobs.train_config:TrainConfig", "jobs.train_config:describe_train", "jobs.trainer:run"),
    "search": Runner("jobs.train_config:SearchConfig", "jobs.train_config:describe_search", "jobs.searcher:run"),
    "toy": Runner("jobs.toy_config:ToyConfig", "jobs.toy_config:describe", "jobs.toy:run"),
}


@dataclass(frozen=True)
class RunShape:
    """What a run needs and what it can share a stacked program with.

    Attributes:
        stack_key: runs with equal keys may share a pack; members of one pack agree in it.
        parameters: trainable parameters of one model.
        flops_per_step: floating-point operations of one optimiser step (forward + backward), all inner models.
        steps: optimiser steps.
        models: models trained side by side inside the run (M of a search, else 1).
        checkpoint_bytes: of one checkpoint of this run.
        products: names of the products the run leaves.
        consumes: names of the inputs its config asks for.
    """

    stack_key: str
    parameters: int
    flops_per_step: float
    steps: int
    models: int = 1
    checkpoint_bytes: int = 0
    products: tuple[str, ...] = ()
    consumes: tuple[str, ...] = ()


def load(target: str) -> Any:
    """The object behind "module:attribute"."""
    module, _, attribute = target.partition(":")
    return getattr(import_module(module), attribute)


def runner(name: str) -> Runner:
    """Raises JobError naming the valid choices."""
    if name not in RUNNERS:
        raise JobError(f"unknown runner {name!r}; choose one of {', '.join(sorted(RUNNERS))}")
    return RUNNERS[name]


def validate_config(name: str, config: Mapping[str, Any]) -> BaseModel:
    """The typed config (pydantic.ValidationError where it is wrong)."""
    return load(runner(name).config).model_validate(config)


def normalise(name: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Typed values with defaulted fields left out: what the run id is hashed over. ``1e-4``, ``1.0e-4`` and ``0.0001``
    come out as one value."""
    return validate_config(name, config).model_dump(mode="json", exclude_defaults=True)


def describe(name: str, config: Mapping[str, Any]) -> RunShape:
    return load(runner(name).describe)(validate_config(name, config))
