"""A sweep file -> a checked, resolved ``Sweep``.

In this order: includes, preset, overrides, tables of pilots, interpolation, curves from files, schema.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sweeps import mistakes, pilots, shipped
from sweeps.curve_files import read_curves
from sweeps.errors import Problem, SweepError
from sweeps.interpolation import resolve
from sweeps.layers import layered
from sweeps.overrides import read_override
from sweeps.reading import read_tree
from sweeps.schema import SweepFile
from sweeps.tree import Origin, Origins, Tree, dotted, leaves, merge, origin_of, replaced


@dataclass(frozen=True)
class Sweep:
    """A loaded file.

    Attributes:
        file: its typed content.
        settings: the same as plain, resolved JSON, as the author wrote it (no include, no presets).
        source: path, preset and overrides it came from.
        origins: path in ``settings`` -> where it was written.
        assumed: pilots that have not chosen yet: their values are good for prices only.
    """

    file: SweepFile
    settings: Mapping[str, Any]
    source: Mapping[str, Any]
    origins: Mapping[tuple[str | int, ...], Origin] = field(repr=False)
    assumed: tuple[str, ...] = ()


def load_sweep(
    source: str | Path,
    overrides: Sequence[str] = (),
    preset: str | None = None,
    tables: Mapping[str, Path] | None = None,
) -> Sweep:
    """Read ``source`` (a path, or the name of a shipped recipe).

    Args:
        source: a path, or a name such as ``compat.yaml`` or ``compat``.
        overrides: ``key=value`` in OmegaConf's dot-list syntax; ``preset=NAME`` among them chooses a preset.
        preset: name of the preset to lay over the file.
        tables: name of a pilot -> the table that the rule made; without one its values are assumed.

    Raises:
        SweepError: with every mistake that was found, each with its line.
    """
    path = shipped.locate(source)
    problems: list[Problem] = []
    tree, origins = _read_file(path, problems, ())
    chosen, kept = _chosen_preset(overrides, preset, problems)
    presets = tree.pop("presets", None) or {}
    if chosen is not None:
        body, found = _read_preset(presets, chosen, path, origins, problems)
        tree, origins = layered(tree, origins, body, found)
    for number, text in enumerate(overrides, 1):
        if text in kept:
            overlay, found = read_override(text, number, problems)
            tree, origins = merge(tree, overlay), {**origins, **found}
    if problems and not tree:
        raise SweepError(problems)  # nothing could be read: what its keys lack is no news
    tree.setdefault("name", path.stem)
    known = len(problems)
    tree, origins = _over_tables(tree, origins, tables or {}, problems)
    if len(problems) > known:
        raise SweepError(in_order(problems))  # that what it chooses is missing is no news
    tree = read_curves(resolve(tree, origins, problems), origins, problems)
    tree = _within_json(tree, origins, problems)
    file, tree = _checked(tree, origins, problems)
    provenance = {"file": shipped.shown(path), "preset": chosen, "overrides": list(kept)}
    assumed = (
        () if file is None else tuple(n for n, p in file.pilots.items() if p is not None and n not in (tables or {}))
    )
    sweep = None if file is None else Sweep(file, tree, provenance, origins, assumed)
    if problems or sweep is None:
        raise SweepError(in_order(problems), sweep)
    return sweep


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """By file and line, those of the command line last."""
    return sorted(problems, key=lambda p: (p.file.startswith("override"), p.file, p.line or 0))


def _read_file(path: Path, problems: list[Problem], inside: tuple[Path, ...]) -> tuple[Tree, Origins]:
    """One file over the files it includes."""
    name = shipped.shown(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"not UTF-8 ({error.reason} at byte {error.start})"
        problems.append(Problem("", f"cannot be read: {reason}", name))
        return {}, {}
    tree, origins = read_tree(text, name, problems)
    _settle_presets(tree, path.parent)
    pilots.settle(tree, path.parent)
    return _with_includes(tree, origins, path, problems, (*inside, path.resolve()))


def _settle_presets(tree: Tree, folder: Path) -> None:
    """What presets include lies beside the file they stand in, whichever file is laid over it later."""
    presets = tree.get("presets")
    for body in presets.values() if isinstance(presets, dict) else ():
        pilots.settle(body, folder)
        wanted = body.get("include") if isinstance(body, dict) else None
        if isinstance(wanted, str):
            body["include"] = str(shipped.beside(wanted, folder))
        elif isinstance(wanted, list):
            body["include"] = [str(shipped.beside(n, folder)) if isinstance(n, str) else n for n in wanted]


def _with_includes(
    tree: Tree, origins: Origins, path: Path, problems: list[Problem], inside: tuple[Path, ...]
) -> tuple[Tree, Origins]:
    """``tree`` over what its ``include`` names: files beside ``path``, or shipped recipes."""
    wanted = tree.pop("include", None)
    below: Tree = {}
    found: Origins = {}
    for name in wanted if isinstance(wanted, list) else [] if wanted is None else [wanted]:
        _, origin = origin_of(origins, ("include",))
        file = shipped.beside(str(name), path.parent)
        if not isinstance(name, str) or not file.is_file():
            near = tuple(sorted(other.name for other in file.parent.glob("*.yaml") if other != path))
            problems.append(Problem("include", "no such file", origin.file, origin.line, name, near))
        elif file.resolve() in inside:
            problems.append(Problem("include", "a file includes itself", origin.file, origin.line, name))
        else:
            part, part_origins = _read_file(file, problems, inside)
            below, found = layered(below, found, part, part_origins)
    return layered(below, found, tree, origins)


def _over_tables(
    tree: Tree, origins: Origins, tables: Mapping[str, Path], problems: list[Problem]
) -> tuple[Tree, Origins]:
    """``tree`` over what pilots have chosen for it, or over what is assumed until they have."""
    below = pilots.assumed_values(tree, origins, problems)
    found: Origins = {}
    for path in tables.values():
        part, part_origins = _read_file(path, problems, ())
        below, found = merge(below, part), {**found, **part_origins}
    return merge(below, tree), {**found, **origins}


def _chosen_preset(
    overrides: Sequence[str], preset: str | None, problems: list[Problem]
) -> tuple[str | None, tuple[str, ...]]:
    """(the preset asked for, the overrides that are left)."""
    asked = [text.partition("=")[2].strip() for text in overrides if text.partition("=")[0].strip() == "preset"]
    kept = tuple(text for text in overrides if text.partition("=")[0].strip() != "preset")
    names: list[str] = []
    for name in [*([] if preset is None else [preset]), *asked]:
        if name not in names:
            names.append(name)
    if len(names) > 1:
        problems.append(Problem("preset", "only one preset can be used", "command line", value=" and ".join(names)))
    return (names[0] if names else None), kept


def _read_preset(
    presets: Any, chosen: str, path: Path, origins: Origins, problems: list[Problem]
) -> tuple[Tree, Origins]:
    if not isinstance(presets, dict) or chosen not in presets:
        names = tuple(presets) if isinstance(presets, dict) else ()
        message = "no such preset" if names else f"{shipped.shown(path)} has no presets"
        problems.append(Problem("preset", message, "command line", value=chosen, choices=names))
        return {}, {}
    body = presets[chosen]
    if not isinstance(body, dict):
        _, origin = origin_of(origins, ("presets", chosen))
        problems.append(Problem(f"presets.{chosen}", "a preset is a mapping of keys", origin.file, origin.line, body))
        return {}, {}
    prefix = ("presets", chosen)
    inner = {key[2:]: origin for key, origin in origins.items() if key[:2] == prefix and len(key) > 2}
    return _with_includes(dict(body), inner, path, problems, (path.resolve(),))


def _checked(tree: Tree, origins: Origins, problems: list[Problem]) -> tuple[SweepFile | None, Tree]:
    """The typed file; text that YAML took for a number is put back where the schema wants text.

    Where there are mistakes, what is left without them, or None.
    """
    try:
        file = SweepFile.model_validate(tree)
    except ValidationError as error:
        for path, text in mistakes.retyped(error, tree, origins.get).items():
            tree = replaced(tree, path, text)
        try:
            file = SweepFile.model_validate(tree)
        except ValidationError as remaining:
            problems.extend(mistakes.problems(remaining, SweepFile, tree, lambda path: origin_of(origins, path)))
            tree = mistakes.without(remaining, tree)
            try:
                file = SweepFile.model_validate(tree)
            except ValidationError:
                file = None
    return file, tree


def _within_json(tree: Tree, origins: Origins, problems: list[Problem]) -> Tree:
    """Numbers that JSON cannot hold become the text they were written as (``3e563`` is an id, not infinity); infinities
    and NaN that were meant are mistakes, because a run is identified by its JSON."""
    for path, value in leaves(tree):
        if isinstance(value, float) and not math.isfinite(value):
            meant = None
        elif isinstance(value, int) and not -(2**63) <= value < 2**64:
            meant = str(value)
        else:
            continue
        written, origin = origin_of(origins, path)
        text = origin.text if written == path and origin.text and "${" not in origin.text else meant
        if text is not None and not text.lower().lstrip("+-").startswith((".inf", ".nan")):
            tree = replaced(tree, path, text)
        else:
            problems.append(Problem(dotted(path), "must be a finite number", origin.file, origin.line, value))
            tree = replaced(tree, path, None)
    return tree
