"""What is inside a run's identity, and what is not."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

from jobs.runners import normalise
from jobs.spec import InputRef, RunSpec, pack_id

SPEC = RunSpec("toy", {"steps": 3}, 1, {"activation": InputRef("r1", "shape")})


def test_everything_in_it_decides() -> None:
    variants = [
        SPEC,
        replace(SPEC, runner="train"),
        replace(SPEC, config={"steps": 4}),
        replace(SPEC, seed=2),
        replace(SPEC, inputs={}),
        replace(SPEC, inputs={"activation": InputRef("r2", "shape")}),
        replace(SPEC, inputs={"activation": InputRef("r1", "other")}),
        replace(SPEC, inputs={"attention": InputRef("r1", "shape")}),
    ]
    assert len({spec.id for spec in variants}) == len(variants)


def test_5_01_three_spellings_are_one_run() -> None:
    spellings = ["1e-4", 1.0e-4, "0.0001"]
    assert len({RunSpec("toy", normalise("toy", {"noise": value}), 0).id for value in spellings}) == 1


def test_defaults_written_out_are_the_same_run() -> None:
    written = normalise("toy", {"steps": 10, "level": 0.8, "faults": {"children": 0}})
    assert RunSpec("toy", written, 0).id == RunSpec("toy", normalise("toy", {}), 0).id


def test_a_packs_id_is_its_members_in_order() -> None:
    assert pack_id(["r1", "r2"]) == pack_id(("r1", "r2"))
    assert pack_id(["r1", "r2"]) != pack_id(["r2", "r1"])
    assert pack_id(["r1"]).startswith("p")


@pytest.mark.parametrize(
    "value", [None, "null", "None", True, "true", [], [2, 2], "${x}", 'a"b\\c', {"b": [0.9, 0.95]}]
)
def test_5_08_5_09_values_reach_the_node_as_they_are(value: object) -> None:
    """The config travels as typed JSON, never as argv."""
    config = orjson.loads(orjson.dumps(RunSpec("toy", {"v": value}, 0).payload()))["config"]
    assert config == {"v": value}
    assert type(config["v"]) is type(value)
