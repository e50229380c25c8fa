"""pydantic's complaints -> problems with a line, the value and the valid choices."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from sweeps.errors import ABSENT, Problem
from sweeps.tree import Origin, Path, dotted

Locate = Callable[[Path], tuple[Path, Origin]]
"""Path in the validated tree -> (path in the sweep file, where it was written), of the nearest node that was."""

_TEXT_WANTED = {"string_type", "literal_error", "enum"}


def retyped(error: ValidationError, tree: Any, locate: Callable[[Path], Origin | None]) -> dict[Path, str]:
    """Scalars that YAML guessed to be numbers or booleans where the schema wants text: path -> the text as written.

    ``1E234`` as a tag is text, because the schema says so, whatever it looks like.
    """
    texts: dict[Path, str] = {}
    for detail in error.errors(include_url=False, include_context=False):
        value = detail["input"]
        if detail["type"] not in _TEXT_WANTED or not isinstance(value, bool | int | float):
            continue
        path = _existing(detail["loc"], tree)
        origin = locate(path)
        if origin is not None and origin.text is not None and "${" not in origin.text:
            texts[path] = origin.text
    return texts


def problems(error: ValidationError, model: type[BaseModel], tree: Any, locate: Locate) -> Iterator[Problem]:
    """One problem for each mistake. ``where`` is a path of the sweep file."""
    schema = _schema(model)
    seen: set[tuple[Any, ...]] = set()
    for detail in error.errors(include_url=False):
        tag = detail["type"] == "union_tag_invalid"
        path = _existing((*detail["loc"], _discriminator(detail)) if tag else detail["loc"], tree)
        path = _telling([_existing((*path, *key.split(".")), tree) for key in _keys(detail)], locate) or path
        wanted: Path = (*path, detail["loc"][-1]) if detail["type"] == "missing" else path
        written, origin = locate(path)
        where = dotted((*written, *wanted[len(path) :]) if detail["type"] == "missing" else written)
        shown = detail["type"] not in ("missing", "extra_forbidden") and not _is_block(detail["input"])
        value = detail.get("ctx", {})["tag"] if tag else detail["input"] if shown else ABSENT
        if detail["type"] == "extra_forbidden" and written[-1:] != path[-1:]:
            value = path[-1]  # a value of a factor, whose `path` names the key
            if "values" in written:
                where = dotted((*written[: written.index("values")], "path"))
        message, choices = _message(detail), tuple(_choices(detail, schema))
        if detail["type"] == "extra_forbidden" and len(path) == 1 and (block := _block_with(path[0], tree)):
            message, choices = f"unknown key; write {block}.{where}", ()
        found = Problem(where, message, origin.file, origin.line, value, choices)
        key = (found.where, found.message, found.line)
        if key not in seen:
            seen.add(key)
            yield found


def without(error: ValidationError, tree: Any) -> Any:
    """A copy of ``tree`` without the nodes that pydantic complains of."""
    for path in {_existing(detail["loc"], tree) for detail in error.errors(include_url=False)}:
        tree = _dropped(tree, path)
    return tree


def _dropped(tree: Any, path: Path) -> Any:
    if not path or not isinstance(tree, dict) or path[0] not in tree:
        return tree
    if len(path) == 1:
        return {key: value for key, value in tree.items() if key != path[0]}
    return {**tree, path[0]: _dropped(tree[path[0]], path[1:])}


@lru_cache(maxsize=32)
def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema()


def _message(detail: ErrorDetails) -> str:
    context = detail.get("ctx", {})
    match detail["type"]:
        case "extra_forbidden":
            return "unknown key"
        case "missing":
            return "this key is missing"
        case "value_error":
            return str(context["error"])
        case "literal_error" | "union_tag_invalid" | "enum":
            return "not one of the choices"
        case "union_tag_not_found":
            return f"the key {context['discriminator']} is missing: it says which kind this is"
        case "tuple_type":
            return "must be a list, such as [1, 2]"
        case "string_pattern_mismatch":
            return f"must match {context['pattern']}"
        case _:
            return detail["msg"][:1].lower() + detail["msg"][1:]


def _discriminator(detail: ErrorDetails) -> str:
    """Name of the key that says which member of a union is meant."""
    return str(detail.get("ctx", {}).get("discriminator", "")).strip("'")


def _block_with(key: str | int, tree: Any) -> str | None:
    """The block where a key that was written at the top is at home: ``lr`` in ``factors``, ``steps`` in ``config``."""
    return next((b for b in ("factors", "config", "stages") if isinstance(tree.get(b), dict) and key in tree[b]), None)


def _keys(detail: ErrorDetails) -> Sequence[str]:
    """Dotted keys, below the location, of values that do not go together (``models.errors.ConfigError``)."""
    return getattr(detail.get("ctx", {}).get("error"), "keys", ())


def _telling(paths: Sequence[Path], locate: Locate) -> Path | None:
    """Of several values the one that a level, a rule or an override has set; else the first that is written."""
    longest = max(map(len, paths), default=0)
    written = [path for path in paths if len(path) == longest]
    return next((path for path in written if locate(path)[0][:1] != ("config",)), written[0] if written else None)


def _is_block(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list | tuple) and len(value) > 4)


def _existing(loc: Iterable[str | int], tree: Any) -> Path:
    """The part of pydantic's location that is a path in ``tree``; tags of unions and names of validators are not."""
    path: list[str | int] = []
    for key in loc:
        try:
            tree = tree[key]
        except (KeyError, IndexError, TypeError):
            continue
        path.append(key)
    return tuple(path)


def _choices(detail: ErrorDetails, schema: dict[str, Any]) -> list[str]:
    context = detail.get("ctx", {})
    match detail["type"]:
        case "extra_forbidden":
            options = _options(schema, detail["loc"][:-1])
            return sorted({key for option in options for key in option.get("properties", {})})
        case "literal_error" | "enum":
            return re.findall(r"'([^']*)'", str(context["expected"])) or [str(context["expected"])]
        case "union_tag_invalid":
            return re.findall(r"'([^']*)'", str(context["expected_tags"]))
        case "union_tag_not_found":
            options = _options(schema, detail["loc"])
            return [tag for option in options for tag in option.get("discriminator", {}).get("mapping", {})]
        case _:
            return []


def _options(schema: dict[str, Any], loc: Iterable[str | int]) -> list[dict[str, Any]]:
    """Sub-schemas that may describe the value at ``loc`` (one, or the members of a union)."""
    options = [schema]
    for key in loc:
        flat = [option for each in options for option in _flat(each, schema)]
        options = [step for option in flat for step in _step(option, key, schema)] or options
    return [option for each in options for option in _flat(each, schema)]


def _flat(option: dict[str, Any], root: dict[str, Any]) -> list[dict[str, Any]]:
    if "$ref" in option:
        return _flat(root["$defs"][option["$ref"].rpartition("/")[2]], root)
    members = option.get("anyOf") or option.get("oneOf") or option.get("allOf")
    if not members:
        return [option]
    return [*([option] if "discriminator" in option else []), *(flat for m in members for flat in _flat(m, root))]


def _step(option: dict[str, Any], key: str | int, root: dict[str, Any]) -> list[dict[str, Any]]:
    if key in option.get("properties", {}):
        return [option["properties"][key]]
    mapping = option.get("discriminator", {}).get("mapping", {})
    if key in mapping:
        return _flat({"$ref": mapping[key]}, root)
    for pattern, value in option.get("patternProperties", {}).items():
        if isinstance(key, str) and re.search(pattern, key):
            return [value]
    more = option.get("items") if isinstance(key, int) else option.get("additionalProperties")
    return [more] if isinstance(more, dict) else []
