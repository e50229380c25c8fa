"""Who can carry out a run: name -> where its parts are. Nothing is imported to be listed.

A runner is three attributes of modules, and three more where it can say so much:

- ``config``: a frozen pydantic model of what may stand under ``config:`` in a sweep file (torch-free module);
- ``describe``: ``(config) -> RunShape`` (torch-free): what the planner packs and prices by;
- ``metrics``: ``(config) -> frozenset[str]`` (torch-free): names of all values that a run can leave, so that a mistyped
  metric is found before anything runs; "" where nobody knows (a user's own command);
- ``fits``: ``(config, input, producer's config) -> str`` (torch-free): why the product of a run does not fit this one's
  input, "" where it does, so that it is found before the producer runs; "" where nobody can tell before;
- ``alone``: ``(config) -> str`` (torch-free): why a run is one process, so that several would refuse to train it; ""
  where several can;
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
    metrics: str = ""
    fits: str = ""
    alone: str = ""


RUNNERS: dict[str, Runner] = {
    "train": Runner(
        "jobs.train_config:TrainConfig",
        "jobs.train_config:describe_train",
        "jobs.trainer:run",
        "jobs.train_metrics:train_metrics",
        "jobs.shape_fit:fits",
        alone="jobs.ranks:alone",
    ),
    "search": Runner(
        "jobs.train_config:SearchConfig",
        "jobs.train_config:describe_search",
        "jobs.searcher:run",
        "jobs.train_metrics:search_metrics",
        alone="jobs.ranks:alone",
    ),
    "toy": Runner("jobs.toy_config:ToyConfig", "jobs.toy_config:describe", "jobs.toy:run", "jobs.toy_config:metrics"),
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


def metrics_of(name: str, config: Mapping[str, Any]) -> frozenset[str] | None:
    """Names of the values that a run of this config can leave; None where its runner does not say."""
    target = runner(name).metrics
    return load(target)(validate_config(name, config)) if target else None


def misfit(name: str, config: Mapping[str, Any], given: str, producer: str, theirs: Mapping[str, Any]) -> str:
    """Why what a run of ``producer`` leaves does not fit input ``given``; "" where it does or nobody can tell."""
    target = runner(name).fits
    return load(target)(validate_config(name, config), given, validate_config(producer, theirs)) if target else ""


def alone(name: str, config: Mapping[str, Any]) -> str:
    """Why a run of this config is one process; "" where several can carry it out, or nobody says."""
    target = runner(name).alone
    return load(target)(validate_config(name, config)) if target else ""


def describe(name: str, config: Mapping[str, Any]) -> RunShape:
    return load(runner(name).describe)(validate_config(name, config))
