"""``key=value`` on the command line (OmegaConf's dot-list), and the way back: a value as it can be typed there."""

from __future__ import annotations

import math
import re
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from sweeps.errors import Problem
from sweeps.tree import Origin, Origins, Tree

_INTERPOLATION = re.compile(r"(\\*)\$\{")


def read_override(text: str, number: int, problems: list[Problem]) -> tuple[Tree, Origins]:
    """The tree that one override lays over the file. ``number`` counts from 1 and names it in messages."""
    file = f"override {number}"
    key, equals, written = text.partition("=")
    if not equals or not key.strip():
        problems.append(Problem("", "an override is key=value", file, value=text))
        return {}, {}
    if not written.strip():
        # An empty shell variable, mostly; as YAML it would quietly be null and take the key away.
        problems.append(Problem(key.strip(), "has no value; write null to take a key away", file))
        return {}, {}
    try:
        overlay = OmegaConf.to_container(OmegaConf.from_dotlist([text]), resolve=False)
    except (OmegaConfBaseException, yaml.YAMLError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        problems.append(Problem(key, f"cannot be read: {reason}", file, value=written))
        return {}, {}
    tree = _text_keys(overlay)
    origins: Origins = {}
    _note_origins(tree, (), Origin(file, None), written.strip(), origins)
    return tree, origins


def spell(value: Any) -> str:
    """A value as YAML of one line that reads back as exactly this value, in a file or behind ``key=``.

    ``???`` alone, OmegaConf's mark for a value that must still be given, has no other spelling.
    """
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, float):
        if math.isfinite(value):
            return repr(value)
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return _quoted(value) if _needs_quotes(value) else value
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_quoted(str(k), key=True)}: {spell(v)}" for k, v in value.items()) + "}"
    return "[" + ", ".join(spell(item) for item in value) + "]"


def _needs_quotes(text: str) -> bool:
    return re.fullmatch(r"[A-Za-z_][A-Za-z0-9_./-]*", text) is None or _means_something(text)


def _means_something(text: str) -> bool:
    """Whether YAML reads the bare word as anything but itself (``true``, ``null``, ``1e3``)."""
    word = OmegaConf.to_container(OmegaConf.from_dotlist([f"x={text}"]), resolve=False)
    return word != {"x": text}


def _quoted(text: str, *, key: bool = False) -> str:
    # A literal "${" is "\${" to OmegaConf, and every backslash that stands right before it is doubled.
    if not key:
        text = _INTERPOLATION.sub(lambda found: found[1] * 2 + "\\${", text)
    return yaml.safe_dump(text, default_style='"', allow_unicode=False, width=math.inf).removesuffix("\n")


def _text_keys(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {str(key): _text_keys(value) for key, value in tree.items()}
    return [_text_keys(item) for item in tree] if isinstance(tree, list) else tree


def _note_origins(tree: Any, path: tuple[str | int, ...], origin: Origin, written: str, into: Origins) -> None:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    if isinstance(tree, dict | list):
        into[path] = origin
    else:
        into[path] = Origin(origin.file, None, None if written[:1] in "[{" else written)
    for key, value in items:
        _note_origins(value, (*path, key), origin, written, into)
