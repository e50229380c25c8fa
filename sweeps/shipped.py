"""Sweep files that come with the project, found by name."""

from __future__ import annotations

from pathlib import Path

from sweeps.errors import Problem, SweepError

FOLDER = Path(__file__).parent / "recipes"
SUFFIX = ".yaml"
PARTS = ("tasks-", "rates-")
"""Files that others include start so; they are no sweeps of their own."""


def names() -> tuple[str, ...]:
    """Recipes that can be run, without the tables and parts they include."""
    return tuple(sorted(path.name for path in FOLDER.glob(f"*{SUFFIX}") if not path.name.startswith(PARTS)))


def locate(source: str | Path) -> Path:
    """The file at ``source``, or the shipped recipe of that name (``compat.yaml`` or ``compat``).

    Raises:
        SweepError: neither exists; it lists the recipes.
    """
    path = Path(source)
    if path.is_file():
        return path
    if len(path.parts) == 1:
        shipped = FOLDER / (path.name if path.suffix == SUFFIX else path.name + SUFFIX)
        if shipped.is_file():
            return shipped
    what = "is a directory" if path.is_dir() else "no such file or recipe"
    raise SweepError([Problem("", what, value=str(source), choices=names())])


def beside(name: str, folder: Path) -> Path:
    """The file that an ``include`` in ``folder`` means: the one there, else the shipped one of that name."""
    path = folder / name
    return FOLDER / name if not path.is_file() and (FOLDER / name).is_file() else path


def shown(path: Path) -> str:
    """How a message names a file: a shipped recipe by its name, another as it was given."""
    return str(path.relative_to(FOLDER)) if path.is_relative_to(FOLDER) else str(path)


def presets_of(source: str | Path) -> tuple[str, ...]:
    """Names of the presets a sweep file offers."""
    from sweeps.reading import read_tree

    path = locate(source)
    tree, _ = read_tree(path.read_text(encoding="utf-8"), shown(path), [])
    presets = tree.get("presets")
    return tuple(presets) if isinstance(presets, dict) else ()
