"""YAML text -> a plain tree with the line of every node. Knows YAML, knows nothing of sweeps.

The scalars are read by OmegaConf's loader (``1e-4`` is a number, a date is text). Keys are always the text that was
written, so that a level called ``1e-4`` or ``on`` stays what its author called it. Doubled keys are mistakes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import yaml
from omegaconf import OmegaConf

from sweeps.errors import Problem
from sweeps.tree import Origin, Origins, Path, Tree, dotted


def read_tree(text: str, file: str, problems: list[Problem]) -> tuple[Tree, Origins]:
    """The document's tree and origins; what is wrong is added to ``problems`` and left out of the tree."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        reader = _Reader(text, file, problems)
        if root is not None and not isinstance(root, yaml.MappingNode):
            problems.append(Problem("", "a sweep file is a mapping of keys", file, root.start_mark.line + 1))
            return {}, {}
        tree = {} if root is None else reader.node(root, ())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problems.append(
            Problem("", f"not YAML: {error.problem or error.context}", file, mark.line + 1 if mark else None)
        )
        return {}, {}
    except yaml.YAMLError as error:
        problems.append(Problem("", f"not YAML: {error}", file))
        return {}, {}
    reader.origins.setdefault((), Origin(file, 1))
    return tree, reader.origins


@lru_cache(maxsize=4096)
def read_scalar(text: str) -> Any:
    """What OmegaConf makes of an unquoted scalar: None, a bool, an int, a float or the text itself."""
    if "${" in text:
        return text
    return OmegaConf.to_container(OmegaConf.create(f"- {text}"), resolve=False)[0]  # type: ignore[index]


class _Reader:
    def __init__(self, text: str, file: str, problems: list[Problem]) -> None:
        self.text = text
        self.file = file
        self.problems = problems
        self.origins: Origins = {}
        self.open: set[int] = set()

    def node(self, node: yaml.Node, path: Path) -> Any:
        line = node.start_mark.line + 1
        if isinstance(node, yaml.ScalarNode):
            self.origins[path] = Origin(self.file, line, node.value if node.style is None else None)
            if self.text[node.start_mark.index : node.start_mark.index + 1] == "!":
                self.problem(node, path, f"a value of YAML type {node.tag!r} cannot be part of a sweep")
                return None
            return node.value if node.style is not None else read_scalar(node.value)
        self.origins[path] = Origin(self.file, line)
        if id(node) in self.open:
            self.problem(node, path, "an alias that contains itself")
            return None
        self.open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                return [self.node(item, (*path, i)) for i, item in enumerate(node.value)]
            assert isinstance(node, yaml.MappingNode)
            return self.mapping(node, path)
        finally:
            self.open.discard(id(node))

    def mapping(self, node: yaml.MappingNode, path: Path) -> Tree:
        tree: Tree = {}
        first: dict[str, int] = {}
        for key_node, value_node in _pairs(node):
            if not isinstance(key_node, yaml.ScalarNode):
                self.problem(key_node, path, "a key must be a word or a number")
                continue
            key, line = str(key_node.value), key_node.start_mark.line + 1
            if key in first:
                self.problem(key_node, (*path, key), f"this key stands here twice (first on line {first[key]})")
                continue
            first[key] = line
            tree[key] = self.node(value_node, (*path, key))
            # The key's line, not its value's: an error is shown where the reader finds the word.
            origin = self.origins[(*path, key)]
            self.origins[(*path, key)] = Origin(origin.file, line, origin.text)
        for merged in _merged(node):
            for key_node, value_node in _pairs(merged):
                if (key := str(key_node.value)) not in tree:
                    tree[key] = self.node(value_node, (*path, key))
        return tree

    def problem(self, node: yaml.Node, path: Path, message: str) -> None:
        self.problems.append(Problem(dotted(path), message, self.file, node.start_mark.line + 1))


def _pairs(node: yaml.MappingNode) -> list[tuple[yaml.Node, yaml.Node]]:
    return [pair for pair in node.value if pair[0].tag != "tag:yaml.org,2002:merge"]


def _merged(node: yaml.MappingNode) -> list[yaml.MappingNode]:
    """Mappings that ``<<`` brings in; the first has precedence."""
    found: list[yaml.MappingNode] = []
    for key, value in node.value:
        if key.tag == "tag:yaml.org,2002:merge":
            items = value.value if isinstance(value, yaml.SequenceNode) else [value]
            for item in items:
                if isinstance(item, yaml.MappingNode):
                    found += [item, *_merged(item)]
    return found
