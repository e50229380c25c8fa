"""When two label values are the same, and whether labels agree with a ``when``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from sweeps.reading import read_scalar

Key = tuple[bool, Any]
_WORD = re.compile(r"[-+.]?[A-Za-z0-9][-+.\w]*")


def typed_key(value: Any) -> Key:
    """Equal for equal values of equal type; ``1`` and ``1.0`` are one number, a boolean or a text is none."""
    return isinstance(value, bool), value


def key(value: Any) -> Key:
    """As ``typed_key``, and equal for ``64`` and a level whose name is ``64``, ``0.0001`` and ``1e-4``."""
    if isinstance(value, str) and _WORD.fullmatch(value):
        value = read_scalar(value)
    return typed_key(value)


def contains(choices: Iterable[Any], value: Any) -> bool:
    wanted = key(value)
    return any(key(choice) == wanted for choice in choices)


def agrees(when: Mapping[str, Iterable[Any]], labels: Mapping[str, Any]) -> bool:
    """Every label that ``when`` names is there and has one of the values."""
    return all(name in labels and contains(choices, labels[name]) for name, choices in when.items())
