"""Factors and zip groups -> the points of a stage's grid, each with the pieces of config it is made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from sweeps.labels import agrees, typed_key
from sweeps.load import Sweep
from sweeps.overrides import spell
from sweeps.schema import Factor, Stage
from sweeps.tree import Path, Tree, at, merge, nested


@dataclass(frozen=True, slots=True)
class Piece:
    """A fragment of config and where it stands in the settings.

    The node at config path ``p`` of ``tree`` was written at settings path ``root + p[strip:]``.
    """

    tree: Tree
    root: Path
    strip: int = 0

    def written(self, path: Path) -> Path | None:
        """Settings path of the node at config path ``path``, None if this piece does not set it."""
        try:
            at(self.tree, path)
        except KeyError:
            return None
        return self.root + path[self.strip :]


@dataclass(frozen=True, slots=True)
class Level:
    value: Any
    """The label."""
    piece: Piece


@dataclass(frozen=True, slots=True)
class Point:
    """One combination of levels; later pieces are laid over earlier ones."""

    labels: dict[str, Any]
    pieces: tuple[Piece, ...]

    def config(self) -> Tree:
        config: Tree = {}
        for piece in self.pieces:
            config = merge(config, piece.tree)
        return config

    def written(self, path: Path) -> Path:
        """Settings path of the node at config path ``path``, or of its nearest ancestor that somebody wrote."""
        for end in range(len(path), 0, -1):
            for piece in reversed(self.pieces):
                if (found := piece.written(path[:end])) is not None:
                    return found
        return ()


def levels(sweep: Sweep, name: str) -> list[Level]:
    """The different levels of a factor, in the order of the file."""
    factor: Factor = sweep.file.factors[name]
    root: Path = ("factors", name)
    written = sweep.settings["factors"][name]
    if factor.levels is not None:
        root = (*root, "levels") if "levels" in written and isinstance(written, dict) else root
        return [Level(label, Piece(tree, (*root, label))) for label, tree in factor.levels.items()]
    root = root if isinstance(written, list) else (*root, "values")
    path = factor.path or name
    found: dict[Any, Level] = {}
    for index, value in enumerate(factor.values or ()):
        label = spell(value) if isinstance(value, dict | list) else value
        level = Level(label, Piece(nested(path, value), (*root, index), len(path.split("."))))
        found.setdefault(typed_key(label), level)
    return list(found.values())


def repeated(sweep: Sweep) -> Iterator[str]:
    """A notice for each factor that lists one value twice."""
    for name, factor in sweep.file.factors.items():
        listed = len(factor.values or ())
        different = len(levels(sweep, name)) if factor.values else 0
        if listed > different:
            yield f"factors.{name} lists {listed} values, {different} of them different: equal values are one run"


def groups(sweep: Sweep, stage: Stage) -> list[tuple[str, ...]]:
    """The stage's factors, those that walk together in one group."""
    wanted = [name for name in factor_names(sweep, stage) if name in sweep.file.factors]
    found: list[tuple[str, ...]] = []
    for name in wanted:
        together = next((group for group in sweep.file.zip if name in group), (name,))
        members = tuple(other for other in wanted if other in together)
        if members not in found:
            found.append(members)
    return found


def factor_names(sweep: Sweep, stage: Stage) -> tuple[str, ...]:
    return tuple(sweep.file.factors) if stage.factors is None else stage.factors


def points(sweep: Sweep, name: str, stage: Stage) -> Iterator[Point]:
    """Points of the stage's grid, the last factor fastest, without those that ``only`` leaves out.

    Pieces: ``config`` of the file, of the stage, of the levels in the order of the factors, of matching ``cells``.
    """
    file = sweep.file
    stage_root: Path = () if file.runner is not None else ("stages", name)
    base = (Piece(dict(file.config), ("config",)), Piece(dict(stage.config), (*stage_root, "config")))
    axes = []
    for group in groups(sweep, stage):
        columns = [levels(sweep, factor) for factor in group]
        axes.append([list(zip(group, row, strict=True)) for row in zip(*columns, strict=False)])
    wanted = factor_names(sweep, stage)
    for combination in product(*axes):
        chosen = {factor: level for axis in combination for factor, level in axis}
        labels = {factor: chosen[factor].value for factor in wanted if factor in chosen}
        only = {label: choices for label, choices in file.only.items() if label in labels}
        if not agrees(only, labels):
            continue
        own = tuple(chosen[factor].piece for factor in labels)
        rules = tuple(
            Piece(dict(rule.config), ("cells", index, "config"))
            for index, rule in enumerate(file.cells)
            if rule.config and agrees(rule.when, {**labels, "stage": name})
        )
        yield Point(labels, tuple(piece for piece in (*base, *own, *rules) if piece.tree))
