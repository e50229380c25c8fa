"""Points of the grid -> validated cells; the mistakes of all cells are collected, each once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, ValidationError

from jobs import runners
from jobs.errors import JobError
from jobs.identity import canonical_json
from jobs.runners import RunShape
from sweeps import mistakes
from sweeps.crossing import Point
from sweeps.design import Labels, cell_name
from sweeps.errors import Problem
from sweeps.labels import agrees
from sweeps.load import Sweep
from sweeps.schema import Stage
from sweeps.tree import Origin, Path, leaves, origin_of, replaced


@dataclass(frozen=True, slots=True)
class Checked:
    """What the runner says of a config: normalised, and its shape."""

    config: Mapping[str, Any]
    shape: RunShape
    texts: Mapping[Path, str]
    """Config path -> text that YAML had taken for a number or a boolean."""


class CellChecker:
    """Validates merged configs through their runner. Equal configs are looked at once."""

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        self._checked: dict[bytes, Checked | None] = {}
        self._found: dict[tuple[str, str, str, int | None], tuple[Problem, dict[str, None]]] = {}

    def check(self, stage_name: str, runner: str, point: Point) -> Checked | None:
        """None where the config is wrong; the reasons are among ``problems()``."""
        config = point.config()
        name = canonical_json([runner, config])
        if self._checked.get(name) is None:
            self._checked[name] = self._validated(stage_name, runner, point, config)
        return self._checked[name]

    def problems(self) -> list[Problem]:
        """Each mistake once, naming the cells it spoils."""
        listed = []
        for problem, found in self._found.values():
            names = list(found)
            cells = f"cell {names[0]}" if len(names) == 1 else f"{len(names)} cells, first {names[0]}"
            listed.append(replace(problem, where=f"{problem.where} ({cells})" if problem.where else cells))
        return listed

    def add(self, problem: Problem, cell: str) -> None:
        key = (problem.where, problem.message, problem.file, problem.line)
        self._found.setdefault(key, (problem, {}))[1][cell] = None

    def _validated(self, stage_name: str, runner: str, point: Point, config: dict[str, Any]) -> Checked | None:
        cell = cell_name(stage_name, point.labels)
        model: type[BaseModel] = runners.load(runners.runner(runner).config)

        def located(path: Path) -> tuple[Path, Origin]:
            written = point.written(path) or ("stages", stage_name)
            return origin_of(self.sweep.origins, written)

        def exact(path: Path) -> Origin | None:
            return self.sweep.origins.get(point.written(path))

        texts: dict[Path, str] = {}
        try:
            try:
                typed = model.model_validate(config)
            except ValidationError as error:
                texts = mistakes.retyped(error, config, exact)
                if not texts:
                    raise
                for path, text in texts.items():
                    config = replaced(config, path, text)
                typed = model.model_validate(config)
            normal = typed.model_dump(mode="json", exclude_defaults=True)
            shape: RunShape = runners.load(runners.runner(runner).describe)(typed)
        except ValidationError as error:
            for problem in mistakes.problems(error, model, config, located):
                self.add(problem, cell)
            return None
        except (JobError, ValueError) as error:
            written, origin = located(())
            self.add(Problem("", str(error), origin.file, origin.line), cell)
            return None
        for path, value in leaves(normal):
            if not _within_json(value):
                written, origin = located(path)
                message = "does not fit a JSON number"
                self.add(Problem(".".join(map(str, written)), message, origin.file, origin.line, value), cell)
                return None
        return Checked(normal, shape, texts)


def _within_json(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, int) or -(2**63) <= value < 2**64


def settings_of(sweep: Sweep, stage_name: str, stage: Stage, labels: Labels) -> tuple[dict[str, Any], dict[str, Any]]:
    """(resources, execution) of a cell: the file's, the stage's and those of matching ``cells``, the last one wins."""
    resources: dict[str, Any] = {}
    execution: dict[str, Any] = {}
    rules = [rule for rule in sweep.file.cells if agrees(rule.when, {**labels, "stage": stage_name})]
    for block in (sweep.file, stage, *rules):
        resources |= block.resources.model_dump(exclude_none=True)
        execution |= block.execution.model_dump(exclude_none=True)
    return resources, execution
