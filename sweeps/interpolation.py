"""``${...}`` in a tree -> its value, by OmegaConf; every one that cannot be resolved is reported."""

from __future__ import annotations

from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from sweeps.errors import Problem
from sweeps.tree import Origins, Path, Tree, dotted, leaves, origin_of, replaced

MISSING = "???"
"""OmegaConf's mark for a value that the user must give."""


def resolve(tree: Tree, origins: Origins, problems: list[Problem]) -> Tree:
    """A copy of ``tree`` without interpolations; what is wrong is added to ``problems`` and becomes None."""
    wanted = [
        (path, text) for path, text in leaves(tree) if isinstance(text, str) and ("${" in text or text == MISSING)
    ]
    if not wanted:
        return tree
    readable = tree
    broken: set[Path] = set()
    for path, text in wanted:
        message = _unreadable(text)
        if message is not None:
            broken.add(path)
            problems.append(_problem(path, origins, message, text))
            readable = replaced(readable, path, None)
    root = OmegaConf.create(readable)
    for path, text in wanted:
        value = None
        if path not in broken:
            try:
                value = _plain(_accessed(root, path))
            except (OmegaConfBaseException, RecursionError, ValueError) as error:
                problems.append(_problem(path, origins, _reason(error, tree), text))
        tree = replaced(tree, path, value)
    return tree


def _unreadable(text: str) -> str | None:
    if text == MISSING:
        return "a value must be given here (key=value)"
    try:
        OmegaConf.create({"x": text})
    except OmegaConfBaseException as error:
        return f"not an interpolation: {str(error).splitlines()[0]} (a literal ${{ is written \\${{)"
    return None


def _accessed(root: Any, path: Path) -> Any:
    for key in path:
        root = root[key]
    return root


def _plain(value: Any) -> Any:
    if isinstance(value, DictConfig | ListConfig):
        value = OmegaConf.to_container(value, resolve=True, throw_on_missing=True)
    return value


def _reason(error: Exception, tree: Tree) -> str:
    if isinstance(error, RecursionError):
        return "the interpolation leads back to itself"
    reason = str(error).strip().splitlines()[0]
    return reason.removeprefix("Interpolation key ").replace("KeyError raised while resolving interpolation: ", "")


def _problem(path: Path, origins: Origins, message: str, text: str) -> Problem:
    _, origin = origin_of(origins, path)
    choices: tuple[str, ...] = ()
    return Problem(dotted(path), message, origin.file, origin.line, text, choices)
