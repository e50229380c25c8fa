"""What can be wrong with a description."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self


class ModelError(ValueError):
    """A description that cannot be built; the message says what is wrong and what the valid choices are."""


class ConfigError(ValueError):
    """Values of a description that do not go together. ``keys``: where they stand, as dotted paths below it."""

    def __init__(self, message: str, *keys: str) -> None:
        super().__init__(message)
        self.keys = keys

    @classmethod
    def below(cls, block: str, found: Iterable[Mapping[str, Any]]) -> Self:
        """What pydantic found (``ValidationError.errors()``) in what was made from ``block`` of a description."""
        told: list[str] = []
        keys: list[str] = []
        for detail in found:
            where = ".".join(str(part) for part in detail["loc"])
            told.append(f"{where}: {detail['msg']}" if where else str(detail["msg"]).removeprefix("Value error, "))
            own = getattr(detail.get("ctx", {}).get("error"), "keys", ())
            keys += [f"{block}.{key}" for key in (own or ([where] if where else []))]
        return cls(f"{block}: {'; '.join(told)}", *keys)
