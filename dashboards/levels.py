"""What a column's accuracies are read against: chance, a rule that does not solve the task, the ceiling, T."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from jobs.tasks.config import TaskConfig

_TASK: TypeAdapter[Any] = TypeAdapter(TaskConfig)


@dataclass(frozen=True)
class Levels:
    """Levels of one column, in the metric's own unit.

    Attributes:
        metric: what is measured ("accuracy", "sequence accuracy", ...).
        t_task: the fixed step T at which architectures are compared, or None.
        chance: the best guess that does not read the prompt, or None where nobody said.
        trivial: a known rule that does not solve the task, or None.
        ceiling: the best value within reach.
        steps: length of a run.
        lr: the baseline's rate.
    """

    metric: str = "value"
    t_task: int | None = None
    chance: float | None = None
    trivial: float | None = None
    ceiling: float = 1.0
    steps: int | None = None
    lr: float | None = None


def column_levels(config: Mapping[str, Any], block: Mapping[str, Any], column: str) -> Levels:
    """Levels of a column, from the config of one of its runs; the analysis block may give ``chance`` and ``ceiling``,
    as one number or by column."""
    levels = {"chance": _given(block, "chance", column), "ceiling": _given(block, "ceiling", column)}
    found: dict[str, Any] = {k: v for k, v in levels.items() if v is not None}
    if (task := _task(config.get("task"))) is not None:
        known = {"chance": task.chance, "ceiling": task.ceiling, "trivial": task.trivial, "metric": task.metric}
        found = {k: v for k, v in known.items() if v is not None} | found
    optimizer = config.get("optimizer")
    lr = optimizer.get("lr") if isinstance(optimizer, Mapping) else None
    return Levels(t_task=config.get("t_task"), steps=config.get("steps"), lr=lr, **found)


def _given(block: Mapping[str, Any], name: str, column: str) -> float | None:
    value = block.get(name)
    return value.get(column) if isinstance(value, Mapping) else value


def _task(config: Any) -> Any:
    """The task's typed description, or None where a run's config holds no task of ours."""
    if not isinstance(config, Mapping) or "name" not in config:
        return None
    try:
        return _TASK.validate_python(dict(config))
    except ValidationError:
        return None
