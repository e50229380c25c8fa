"""A run as a tracking store takes it."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

from jobs.workspace import Workspace
from orchestrator.gather.mlflow_content import (
    MAX_CURVES,
    MAX_PARAMS,
    MAX_POINTS,
    MAX_VALUE,
    RUN_TAG,
    Content,
    contents,
    cut,
    flat,
    store_name,
    thinned,
)
from orchestrator.gather.parquet import gather
from sweeps.tables import read_runs


def content(tmp_path: Path, synthetic: ModuleType, **made: Any) -> Content:
    one = synthetic.Made({"arm": "a"}, **({"summary": {"test/accuracy": 0.5}} | made))
    ids = synthetic.write_plain(tmp_path, [one], {})
    gather(Workspace(tmp_path), "plain")
    return contents(tmp_path, "plain", read_runs(tmp_path, "plain"), set(ids))[0]


def test_complaint_7_02_a_long_parameter_is_cut_with_a_marker(tmp_path: Path, synthetic: ModuleType) -> None:
    """mlflow/mlflow#1976 and others: 20 kB in the config end no export."""
    config = {"layers": list(range(5000)), "deep": {"lr": 0.01}}
    sent = dict(content(tmp_path, synthetic, config=config).params)
    assert len(sent["config.layers"]) == MAX_VALUE
    assert "[cut: " in sent["config.layers"]
    assert sent["config.deep.lr"] == "0.01"


def test_everything_fits_one_log_batch(tmp_path: Path, synthetic: ModuleType) -> None:
    """At most 1,000 metrics and 1,000 entities, 100 params, 100 tags; what was left out is said."""
    config = {f"key{i:03}": i for i in range(300)}
    rows = tuple({"step": step, **{f"test/m{i:02}": 0.5 for i in range(50)}} for step in range(200))
    sent = content(tmp_path, synthetic, config=config, points=(rows,))
    assert len(sent.params) == MAX_PARAMS
    assert len(sent.metrics) <= MAX_CURVES * MAX_POINTS
    assert len(sent.metrics) + len(sent.params) + 1 <= 1000
    assert len(sent.tags) <= 100
    left_out = dict(sent.tags)["orchestrate.not_exported"].split(", ")
    assert len({name for name, _, _ in sent.metrics}) + len(left_out) == 51


def test_complaint_7_04_what_is_not_finite_is_a_tag(tmp_path: Path, synthetic: ModuleType) -> None:
    rows = ({"step": 10, "train/loss": 1.0}, {"step": 20, "train/loss": "nan"}, {"step": 30, "train/loss": "inf"})
    sent = content(tmp_path, synthetic, summary={"test/accuracy": "inf"}, points=(rows,))
    assert sent.metrics == (("train/loss", 10, 1.0),)
    assert dict(sent.tags)["orchestrate.not_finite"] == "test/accuracy is inf; train/loss is nan at step 20 and 1 more"


def test_a_run_says_what_it_is(tmp_path: Path, synthetic: ModuleType) -> None:
    sent = content(tmp_path, synthetic, seed=7)
    assert sent.status == "FINISHED"
    assert (sent.end - sent.start) == 50_000
    assert dict(sent.params)["arm"] == "a"
    assert dict(sent.params)["seed"] == "7"
    assert dict(sent.tags)[RUN_TAG] == sent.run
    assert dict(sent.tags)["orchestrate.attempts"] == "1"
    assert sent.metrics == (("test/accuracy", 10, 0.5),)


def test_helpers() -> None:
    assert store_name("test/accuracy@T/2") == "test/accuracy at T/2"
    assert cut("short", 10) == "short"
    assert flat({"b": {"c": 1}, "a": "x"}) == [("a", "x"), ("b.c", "1")]
    points = [(step, 0.0) for step in range(100)]
    assert len(thinned(points)) == MAX_POINTS
    assert (thinned(points)[0], thinned(points)[-1]) == (points[0], points[-1])
