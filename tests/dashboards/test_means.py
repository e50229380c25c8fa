"""A sweep that names no baseline gets a plain page, never an error and never a verdict."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from dashboards.report import report_content, write_report
from jobs.workspace import Workspace
from orchestrator.gather.parquet import gather
from sweeps.analysis.errors import AnalysisError


@pytest.fixture
def pilot(tmp_path: Path, synthetic: ModuleType) -> Path:
    made = [
        synthetic.Made({"lr": lr, "task": task}, seed=seed, summary={"validation/accuracy": base + 0.01 * seed})
        for lr, base in (("0.01", 0.5), ("0.1", 0.7))
        for task in ("copy", "add")
        for seed in (1, 2, 3)
    ]
    made.append(synthetic.Made({"lr": "1", "task": "copy"}, seed=1, failure="out_of_memory"))
    synthetic.write_plain(tmp_path, made, {"metric": "validation/accuracy", "arm": "lr", "column": "task"})
    gather(Workspace(tmp_path), "plain")
    return tmp_path


def test_a_sweep_without_a_baseline_gets_means_and_no_verdicts(pilot: Path) -> None:
    written = write_report(pilot, "plain")
    records = {(r["arm"], r["column"]): r for r in written.content["records"]}
    assert len(records) == 6
    assert records["0.1", "copy"]["mean"] == pytest.approx(0.72)
    assert records["0.1", "copy"]["low"] < 0.72 < records["0.1", "copy"]["high"]
    assert "out of memory" in records["1", "copy"]["reason"]
    assert records["1", "add"]["reason"] == "no run"
    assert written.content["without_number"] == 2
    text = written.page.read_text()
    assert "No verdicts." in text
    assert "baseline: {lr: level}" in text
    assert " better than " not in text.replace("called better or worse than another", "")
    assert {path.suffix for path in written.files} == {".svg", ".png", ".csv", ".parquet", ".json", ".tex"}
    assert written.content == report_content(pilot, "plain")


def test_a_kind_that_needs_a_baseline_says_so(pilot: Path) -> None:
    with pytest.raises(AnalysisError, match="needs one"):
        report_content(pilot, "plain", "audit")
    terms = {r["term"]: r for r in report_content(pilot, "plain", "factorial")["records"]}
    assert terms["lr = 0.1"]["effect"] == pytest.approx(0.2)
    assert report_content(pilot, "plain", "audit", baseline={"lr": "0.01"})["baseline"] == "0.01"


def test_naming_a_baseline_gives_verdicts(pilot: Path) -> None:
    content = report_content(pilot, "plain", baseline={"lr": "0.01"})
    assert {cell["verdict"] for cell in content["cells"]} == {"better", "not run"}


def test_a_sweep_of_seeds_alone_is_one_line(tmp_path: Path, synthetic: ModuleType) -> None:
    made = [synthetic.Made({}, seed=seed, summary={"test/accuracy": 0.1 * seed}) for seed in (1, 2, 3)]
    synthetic.write_plain(tmp_path, made, {})
    gather(Workspace(tmp_path), "plain")
    content = report_content(tmp_path, "plain")
    assert [(r["n"], r["mean"]) for r in content["records"]] == [(3, pytest.approx(0.2))]
