"""From the description of a task to its generator; only the module of the task asked for is imported."""

from __future__ import annotations

from importlib import import_module

from jobs.tasks.base import Task
from jobs.tasks.config import TaskConfig

TASKS = {
    "memorize": "jobs.tasks.memorize:Memorize",
    "parentheses": "jobs.tasks.parentheses:Parentheses",
    "addmod": "jobs.tasks.addmod:Addmod",
    "haystack": "jobs.tasks.haystack:Haystack",
    "add": "jobs.tasks.addition:Addition",
    "addreversed": "jobs.tasks.addition:Addition",
    "copy": "jobs.tasks.copying:Copying",
    "mano": "jobs.tasks.mano:Mano",
}
"""Name of a task -> "module:class"."""


def make_task(config: TaskConfig) -> Task:
    """The generator that a config describes; makes no data yet."""
    module, attribute = TASKS[config.name].split(":")
    return getattr(import_module(module), attribute)(config)
