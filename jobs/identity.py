"""What makes two runs the same run: canonical JSON, and the ids hashed from it."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson

HASH_DIGITS = 15


def canonical_json(value: Any) -> bytes:
    """Sorted keys, no white space, shortest round-trip floats; NaN and infinities are refused by type upstream."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def content_id(prefix: str, value: Any) -> str:
    """``prefix`` and 15 hex digits of sha256(canonical JSON). A letter comes first: an id must never look like a
    number (``3e563`` would be one)."""
    return prefix + hashlib.sha256(canonical_json(value)).hexdigest()[:HASH_DIGITS]
