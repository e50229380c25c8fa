"""``{kind: spline_file, file: published.csv, curve: 0}`` -> the same with the curve's numbers written out.

A run is identified by the curve and not by a path, and a node never needs the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Any

from models.errors import ModelError
from models.spline_file import read_spline_csv
from sweeps.errors import Problem
from sweeps.tree import Origins, Path, Tree, dotted, origin_of, replaced

KIND = "spline_file"


def read_curves(tree: Tree, origins: Origins, problems: list[Problem]) -> Tree:
    """A copy of ``tree`` in which every published spline that names a file has become its values.

    A path is relative to the sweep file it stands in; one from the command line, to the working directory.
    """
    for path, node in list(_named(tree, ())):
        file, curve = node["file"], node.get("curve", 0)
        _, origin = origin_of(origins, (*path, "file"))
        written_in = FilePath(origin.file)
        problem = None
        if not isinstance(file, str) or not isinstance(curve, int) or isinstance(curve, bool):
            problem = "`file` is a path and `curve` the number of a curve in it, from 0"
        elif taken := sorted(node.keys() & {"low", "high", "values"}):
            problem = f"the file says {', '.join(taken)}: name the file or write the numbers out, not both"
        else:
            try:
                folder = written_in.parent if written_in.is_file() else FilePath()
                spline = read_spline_csv(folder / file, curve)
                rest = {key: value for key, value in node.items() if key not in ("file", "curve")}
                tree = replaced(tree, path, {**rest, **spline.model_dump(mode="json")})
            except OSError as error:
                problem = f"cannot be read: {error.strerror}"
            except (ModelError, UnicodeDecodeError) as error:
                problem = str(error)
        if problem is not None:
            problems.append(Problem(dotted((*path, "file")), problem, origin.file, origin.line, file))
    return tree


def _named(tree: Any, path: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    if isinstance(tree, dict) and tree.get("kind") == KIND and "file" in tree:
        yield path, tree
        return
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield from _named(value, (*path, key))
