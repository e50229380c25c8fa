"""The tables' columns are documented, and read back as plain values; results come out of them with reasons."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.workspace import Workspace
from sweeps.analysis.errors import AnalysisError
from sweeps.layout import Layout, column_name, find_layout, row_name
from sweeps.scores import load_results
from sweeps.tables import CELL_FIELDS, CURVE_FIELDS, PLAN_KEY, RUN_FIELDS, read_curves, read_runs, runs_schema

DOCS = (Path(__file__).parents[2] / "docs" / "tables.md").read_text()
WORDS = {pa.string(): "string", pa.int64(): "int64", pa.float64(): "double", pa.bool_(): "bool"}


def words(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"list of {words(kind.value_type)}"
    return WORDS[kind.value_type if pa.types.is_dictionary(kind) else kind]


@pytest.mark.parametrize(
    ("heading", "fields"),
    [("`runs.parquet`", RUN_FIELDS), ("`curves.parquet`", CURVE_FIELDS), ("`cells.parquet`", CELL_FIELDS)],
)
def test_every_column_is_documented_with_its_type(heading: str, fields: Any) -> None:
    section = DOCS.split(f"## {heading}", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| `([^`]+)` \| ([^|]+) \| (\S[^|]*) \|$", section, re.MULTILINE)
    documented = [(name, kind.strip()) for name, kind, _ in rows if "<" not in name]
    assert documented == [(name, words(kind)) for name, kind in fields]


def write(root: Path, rows: list[dict[str, Any]], plan: dict[str, Any]) -> None:
    """A runs table by hand: only what a test needs, the rest null."""
    labels = sorted({name for row in rows for name in row["labels"]})
    metrics = sorted({name for row in rows for name in row if "/" in name})
    schema = runs_schema(labels, [], metrics, [])
    columns: dict[str, list[Any]] = {name: [] for name in schema.names}
    for index, row in enumerate(rows):
        for name in columns:
            columns[name].append(row.get(name))
        columns["run"][-1] = f"r{index}"
        columns["labels"][-1] = orjson.dumps(row["labels"]).decode()
        for name, level in row["labels"].items():
            columns[f"label.{name}"][-1] = str(level)
        for name in metrics:
            columns[f"summary.{name}"][-1] = row.get(name)
    table = pa.table(columns, schema=schema).replace_schema_metadata({PLAN_KEY: orjson.dumps(plan)})
    path = Workspace(root).runs_table("s")
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)


def run(arm: str, task: str, seed: int = 1, state: str = "completed", **more: Any) -> dict[str, Any]:
    labels = {"architecture": arm, "task": task, "rate": more.pop("rate", "1"), **more.pop("labels", {})}
    return {"labels": labels, "seed": seed, "state": state, "stage": "retrain", "cell": 0, **more}


PLAN: dict[str, Any] = {"analysis": {"metric": "test/accuracy@T", "baseline": {"architecture": "gelu"}}}


def test_results_carry_values_searches_and_reasons(tmp_path: Path) -> None:
    rows = [
        {"labels": {"task": "copy", "search_seed": 1}, "stage": "search", "seed": 1, "state": "completed"},
        run("gelu", "copy", **{"test/accuracy@T": 0.5}),
        run("copy", "copy", labels={"search_seed": 7}, **{"test/accuracy@T": 0.75}),
        run("copy", "add", state="failed", reason="diverged at step 4", failure="diverged"),
        run("relu", "add", state="failed", reason="failed: hang", failure="hang", **{"test/accuracy@T": 0.1}),
        run("silu", "add", state="pending", reason="pending"),
        run("gelu", "add"),
        run("gelu", "copy", rate="1/3", **{"test/accuracy@T": 0.9}),
    ]
    skipped = [{"skipped": {"architecture": "add", "task": "copy"}, "reason": "too wide"}]
    write(tmp_path, rows, PLAN | {"skipped": skipped})
    found = {(r.arm, r.task): r for r in load_results(tmp_path, "s")}
    assert len(found) == 7
    assert (found["gelu", "copy"].value, found["gelu", "copy"].search) == (0.5, None)
    assert (found["copy", "copy"].value, found["copy", "copy"].search) == (0.75, 7)
    assert found["copy", "add"].diverged
    assert found["copy", "add"].reason == "diverged at step 4"
    assert (found["relu", "add"].value, found["relu", "add"].reason) == (None, "failed: hang")
    assert (found["silu", "add"].value, found["silu", "add"].reason) == (None, "pending")
    assert found["gelu", "add"].reason == "no test/accuracy@T recorded"
    assert found["add", "copy"].reason == "not planned: too wide"


def test_a_step_that_is_each_runs_own_t_is_the_summary_value(tmp_path: Path) -> None:
    step = {"metric": "test/accuracy", "baseline": {"architecture": "gelu"}, "step": {"copy": 100}}
    rows = [run("gelu", "copy", **{"test/accuracy": 0.9, "test/accuracy@T": 0.5})]
    write(tmp_path, rows, {"analysis": step, "cells": [{"index": 0, "config": {"t_task": 100}}]})
    assert load_results(tmp_path, "s")[0].value == 0.5


def test_any_other_step_is_read_off_the_curve(tmp_path: Path) -> None:
    analysis = {"metric": "test/accuracy", "baseline": {"architecture": "gelu"}, "step": 20}
    write(tmp_path, [run("gelu", "copy"), run("gelu", "copy", 2)], {"analysis": analysis, "cells": []})
    points = {"run": ["r0", "r0", "r1"], "step": [10, 20, 10], "split": ["test"] * 3, "metric": ["accuracy"] * 3}
    points |= {"value": [0.1, 0.2, 0.3], "flag": [None] * 3, "attempt": [1] * 3}
    pq.write_table(pa.table(points, schema=pa.schema(CURVE_FIELDS)), Workspace(tmp_path).curves_table("s"))
    assert [r.value for r in load_results(tmp_path, "s")] == [0.2, None]
    assert len(read_curves(tmp_path, "s", [("test", "accuracy")], ["r0"])) == 2


def test_a_factor_that_the_arm_decides_is_no_slice(tmp_path: Path) -> None:
    """Consumers inherit what their search learned; scaled_gelu's must not fall out of the comparison for it."""
    rows = [
        run("gelu", "copy"),
        run("copy", "copy", labels={"learns": "spline"}),
        run("scaled_gelu", "copy", labels={"learns": "scaled_gelu"}),
        run("gelu", "copy", rate="1/3"),
    ]
    write(tmp_path, rows, PLAN)
    layout = find_layout(read_runs(tmp_path, "s"))
    assert layout == Layout("gelu", "architecture", ("task",), None, {"rate": "1"}, "retrain")
    assert {r.arm for r in load_results(tmp_path, "s")} == {"gelu", "copy", "scaled_gelu"}


def test_other_factors_are_columns_where_there_is_no_task(tmp_path: Path) -> None:
    rows = [
        {"labels": {"optimizer": arm, "scale": scale, "depth": 2}, "seed": 1, "state": "completed", "stage": "x"}
        for arm in ("adam", "sgd")
        for scale in ("small", "large")
    ]
    write(tmp_path, rows, {"analysis": {"baseline": {"optimizer": "adam"}}})
    layout = find_layout(read_runs(tmp_path, "s"))
    assert (layout.arm, layout.columns) == ("optimizer", ("scale",))
    assert column_name(layout, {"scale": "small", "optimizer": "sgd"}) == "small"
    assert row_name(layout, {"optimizer": "sgd"}) == "sgd"
    assert column_name(Layout("a", "arm"), {"arm": "a"}) == "all"


@pytest.mark.parametrize("baseline", [None, {}, {"architecture": "swish"}, {"colour": "gelu"}, "swish"])
def test_a_baseline_that_is_not_there_is_refused_with_the_choices(tmp_path: Path, baseline: Any) -> None:
    write(tmp_path, [run("gelu", "copy")], {"analysis": {"baseline": baseline}})
    with pytest.raises(AnalysisError, match="architecture: gelu"):
        load_results(tmp_path, "s")


def test_a_table_that_is_not_there_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(AnalysisError, match="run `gather s`"):
        read_runs(tmp_path, "s")


def test_columns_read_as_plain_values(tmp_path: Path) -> None:
    write(tmp_path, [run("gelu", "copy", **{"test/accuracy@T": 0.5}), run("relu", "copy")], PLAN)
    table = read_runs(tmp_path, "s")
    assert table.values("summary.test/accuracy@T") == [0.5, None]
    assert table.values("no such column") == [None, None]
    assert table.floats("summary.test/accuracy@T")[0] == 0.5
    assert np.isnan(table.floats("summary.test/accuracy@T")[1])
    codes, names = table.codes("label.architecture")
    assert [names[code] for code in codes] == ["gelu", "relu"]
    assert table.factors == ["architecture", "rate", "task"]
    assert table.metrics == ["test/accuracy@T"]
