"""docs/sweep-files.md explains every key of the schema, and no key that is not there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sweeps.load import load_sweep
from sweeps.schema import SweepFile

TEXT = (Path(__file__).parents[2] / "docs" / "sweep-files.md").read_text(encoding="utf-8")

SHORTHAND = {"include", "presets.*", "seeds.first", "stages.*.seeds.first"}
"""Keys that are acted on while a file is loaded, so that the typed file has them no more."""


def keys(schema: dict[str, Any], root: dict[str, Any], prefix: str = "") -> Iterator[str]:
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    for name, value in schema.get("properties", {}).items():
        yield prefix + name
        yield from keys(value, root, f"{prefix}{name}.")
    for option in schema.get("anyOf", []):
        yield from keys(option, root, prefix)
    for inner in (schema.get("additionalProperties"), *schema.get("patternProperties", {}).values()):
        if isinstance(inner, dict):
            yield from keys(inner, root, prefix + "*.")
    if isinstance(schema.get("items"), dict):
        yield from keys(schema["items"], root, prefix.removesuffix(".") + "[].")


KEYS = set(keys(SweepFile.model_json_schema(), SweepFile.model_json_schema())) | SHORTHAND


def test_every_key_is_documented() -> None:
    assert {"stages.*.needs.*[].match", "cells[].resources.gpus", "factors.*.path", "analysis.looks"} <= KEYS
    missing = sorted(key for key in KEYS if f"`{key}`" not in TEXT)
    assert not missing


def test_no_documented_key_is_made_up() -> None:
    rows = [line.split("|")[1] for line in TEXT.splitlines() if line.startswith("| `")]
    documented = {key for row in rows for key in re.findall(r"`([^`]+)`", row)}
    assert documented <= KEYS
    assert len(rows) > 50


def test_the_example_is_a_sweep_file(tmp_path: Path) -> None:
    example = re.search(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    assert example is not None
    path = tmp_path / "widths.yaml"
    path.write_text(example[1], encoding="utf-8")
    assert load_sweep(path).file.pack.max == 16


def test_choices_named_in_the_documentation_are_the_schema_s() -> None:
    analysis = SweepFile.model_json_schema()["$defs"]["Analysis"]["properties"]
    for key in ("test", "correction", "family", "goal"):
        row = next(line for line in TEXT.splitlines() if line.startswith(f"| `analysis.{key}`"))
        assert all(f"`{choice}`" in row for choice in analysis[key].get("enum") or [analysis[key]["const"]]), key
