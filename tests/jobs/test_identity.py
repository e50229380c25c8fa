"""Canonical JSON and ids."""

from __future__ import annotations

import re

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.identity import canonical_json, content_id

scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    scalars | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(values)
def test_what_is_read_back_hashes_the_same(value: object) -> None:
    assert canonical_json(orjson.loads(canonical_json(value))) == canonical_json(value)
    assert content_id("r", orjson.loads(canonical_json(value))) == content_id("r", value)


@given(st.dictionaries(st.text(), scalars, min_size=2, max_size=6))
def test_the_order_of_keys_is_nothing(value: dict[str, object]) -> None:
    assert content_id("r", dict(reversed(value.items()))) == content_id("r", value)


@pytest.mark.parametrize(
    ("one", "other"),
    [(None, "null"), (True, "true"), (True, 1), (1, 1.0), (0.0, -0.0), ([], {}), (["a"], "a"), ("", None), ("1", 1)],
)
def test_different_values_have_different_ids(one: object, other: object) -> None:
    assert content_id("r", {"v": one}) != content_id("r", {"v": other})


def test_known_ids() -> None:
    assert canonical_json({"b": [1, 0.1], "a": "é"}) == '{"a":"é","b":[1,0.1]}'.encode()
    assert content_id("r", {"a": 1}) == "r015abd7f5cc57a2"


def test_5_03_no_id_looks_like_a_number() -> None:
    pattern = re.compile(r"[rp][0-9a-f]{15}")
    for n in range(10_000):
        found = content_id("r", n)
        assert pattern.fullmatch(found)
        with pytest.raises(ValueError, match="could not convert"):
            float(found)
