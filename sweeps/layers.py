"""Laying one part of a sweep file over another: as ``merge``, but rules about combinations add up.

``exclude`` and ``cells`` are lists of rules that each stand for themselves: a preset or an including file that has some
of its own means them besides those that are there. ``null`` takes back what lies below.
"""

from __future__ import annotations

from typing import Any

from sweeps.tree import Origins, Path, Tree, merge

RULES = ("exclude", "cells")


def layered(below: Tree, below_origins: Origins, above: Tree, above_origins: Origins) -> tuple[Tree, Origins]:
    """``above`` over ``below``, and where each node of the result was written. Neither is changed."""
    tree, origins = merge(below, above), {**below_origins, **above_origins}
    for path in _lists(below, above):
        under, over = _at(below, path), _at(above, path)
        if isinstance(under, list) and isinstance(over, list):
            tree = _with(tree, path, [*under, *over])
            kept = {key: origin for key, origin in below_origins.items() if key[: len(path)] == path}
            moved = {_moved(key, path, len(under)): o for key, o in above_origins.items() if key[: len(path)] == path}
            origins = {key: o for key, o in origins.items() if key[: len(path)] != path} | kept | moved
    return tree, origins


def _lists(below: Tree, above: Tree) -> list[Path]:
    """Where both have rules: at the top, and in presets of one name."""
    presets = [tree.get("presets") for tree in (below, above)]
    names = set.intersection(*(set(p) for p in presets if isinstance(p, dict))) if all(presets) else set()
    bodies = [("presets", name) for name in names]
    return [(*place, rule) for place in ((), *bodies) for rule in RULES]


def _at(tree: Any, path: Path) -> Any:
    for key in path:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def _with(tree: Tree, path: Path, value: Any) -> Tree:
    return value if not path else {**tree, path[0]: _with(tree[path[0]], path[1:], value)}  # type: ignore[index]


def _moved(key: Path, path: Path, by: int) -> Path:
    """The key of an item of a list, once ``by`` others stand before it."""
    if len(key) <= len(path) or not isinstance(key[len(path)], int):
        return key
    return (*path, int(key[len(path)]) + by, *key[len(path) + 1 :])
