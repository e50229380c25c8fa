"""Ids of runs must not change under our hands: a changed id does finished work again.

``run_ids.json`` holds 20 runs: the config as a person writes it, what of it is inside the identity, and the id. When
this fails, a default or a name has changed its meaning: give the new field a neutral default, or raise
``jobs.spec.SCHEMA`` (every run is then another run) and add to the file, never edit it.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import orjson
import pytest

from jobs import spec
from jobs.runners import normalise
from jobs.spec import InputRef, RunSpec

GOLDEN = orjson.loads((Path(__file__).parent / "run_ids.json").read_bytes())
RUNS: list[dict[str, Any]] = GOLDEN["runs"]


def golden_spec(run: dict[str, Any], config: dict[str, Any]) -> RunSpec:
    inputs = {name: InputRef(**ref) for name, ref in run.get("inputs", {}).items()}
    return RunSpec(run["runner"], config, run["seed"], inputs)


def test_there_are_twenty_and_they_differ() -> None:
    assert len({run["id"] for run in RUNS}) == 20
    assert {run["runner"] for run in RUNS} == {"toy", "train", "search"}


@pytest.mark.parametrize("run", RUNS, ids=[run["id"] for run in RUNS])
def test_5_10_ids_are_what_they_were(run: dict[str, Any]) -> None:
    normalised = normalise(run["runner"], run["written"])
    assert normalised == run["identity"], "what is inside the identity has changed"
    assert golden_spec(run, normalised).id == run["id"]
    assert normalise(run["runner"], normalised) == normalised, "a normalised config is its own normal form"


def test_the_recipe_in_plain_words() -> None:
    """sha256 over sorted JSON without white space, first 15 hex digits, behind an ``r``: done here without our code."""
    run = RUNS[1]
    assert run["written"] == {}
    text = '{"config":{},"runner":"toy","schema":1,"seed":1}'
    assert run["id"] == "r" + hashlib.sha256(text.encode()).hexdigest()[:15]


def test_another_schema_is_another_run(monkeypatch: pytest.MonkeyPatch) -> None:
    assert GOLDEN["schema"] == spec.SCHEMA
    monkeypatch.setattr(spec, "SCHEMA", spec.SCHEMA + 1)
    for run in RUNS:
        assert golden_spec(run, run["identity"]).id != run["id"]
