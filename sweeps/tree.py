"""Plain trees of dicts, lists and scalars, and where each of their nodes was written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Path = tuple[str | int, ...]
Tree = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a node was written. ``text`` is a plain scalar as it stands in the source (``1E234``), else None."""

    file: str
    line: int | None
    text: str | None = None


Origins = dict[Path, Origin]


def origin_of(origins: Mapping[Path, Origin], path: Path) -> tuple[Path, Origin]:
    """The node at ``path`` or its nearest ancestor that was written somewhere."""
    for end in range(len(path), -1, -1):
        if path[:end] in origins:
            return path[:end], origins[path[:end]]
    return (), Origin("", None)


def merge(below: Any, above: Any) -> Any:
    """``above`` laid over ``below``: mappings merge key by key, anything else replaces. Neither is changed.

    A mapping whose keys are all indices of a list, as dotted overrides make them (``looks.0=0.5``), changes items.
    """
    if isinstance(below, list) and isinstance(above, dict) and above and all(_is_index(k, below) for k in above):
        items = list(below)
        for key, value in above.items():
            items[int(key)] = merge(items[int(key)], value)
        return items
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    merged = dict(below)
    for key, value in above.items():
        merged[key] = merge(merged[key], value) if key in merged else value
    return merged


def at(tree: Any, path: Path) -> Any:
    """The node at ``path``. Raises KeyError where there is none."""
    for key in path:
        try:
            tree = tree[int(key)] if isinstance(tree, list) else tree[key]
        except (IndexError, TypeError, ValueError) as error:
            raise KeyError(path) from error
    return tree


def replaced(tree: Any, path: Path, value: Any) -> Any:
    """A copy of ``tree`` with ``value`` at ``path``, which must exist."""
    if not path:
        return value
    if isinstance(tree, list):
        index = int(path[0])
        return [*tree[:index], replaced(tree[index], path[1:], value), *tree[index + 1 :]]
    return {**tree, path[0]: replaced(tree[path[0]], path[1:], value)}


def leaves(tree: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """(path, scalar) of every leaf; empty containers have none."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else None
    if items is None:
        yield path, tree
        return
    for key, value in items:
        yield from leaves(value, (*path, key))


def dotted(path: Path) -> str:
    return ".".join(str(key) for key in path)


def nested(path: str, value: Any) -> Tree:
    """``nested("optimizer.lr", 1)`` is ``{"optimizer": {"lr": 1}}``."""
    for key in reversed(path.split(".")):
        value = {key: value}
    return value


def _is_index(key: str, items: list[Any]) -> bool:
    return key.isdigit() and int(key) < len(items)
