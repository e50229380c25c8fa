"""Scores by class, for whatever task logs them: on the page, in JSON, in files, read where the matrix is."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dashboards.report import report_content, write_report
from jobs.workspace import Workspace
from orchestrator.gather.parquet import gather
from sweeps.tables import read_parquet

ARMS = {"plain": 0.5, "better": 0.6}


def _made(synthetic: ModuleType, task: str, arm: str, seed: int, classes: dict[str, float]) -> Any:
    """A run whose classes are what they are at step 10 and 0.2 more at the end, step 20."""
    config = {"t_task": 10, "steps": 20}
    level = ARMS[arm] + 0.01 * seed
    early = {"step": 10, "test/accuracy": level} | {f"test/accuracy/{k}": v + 0.01 * seed for k, v in classes.items()}
    late = {k: v + 0.2 if k != "step" else 20 for k, v in early.items()}
    summary = {k: v for k, v in late.items() if k != "step"} | {"test/accuracy@T": level}
    labels = {"task": task, "arm": arm}
    return synthetic.Made(labels, seed=seed, summary=summary, points=((early, late),), config=config)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, synthetic: ModuleType) -> Path:
    """Task ``sum`` has three classes, ``name`` has none."""
    made = []
    for seed in (1, 2, 3):
        for arm, level in ARMS.items():
            made.append(_made(synthetic, "sum", arm, seed, {"digits_10": 0.1, "digits_2": level, "digits_9": 0.3}))
            made.append(_made(synthetic, "name", arm, seed, {}))
    root = tmp_path_factory.mktemp("classes")
    synthetic.write_plain(root, made, {"metric": "test/accuracy@T", "baseline": {"arm": "plain"}, "column": "task"})
    gather(Workspace(root), "plain")
    return root


def test_classes_are_read_at_the_compared_step_and_in_natural_order(root: Path) -> None:
    content = report_content(root, "plain")
    assert content["classes_taken"] == "at T"
    found = content["classes"]
    assert [(c["class"], c["row"]) for c in found] == [
        (name, arm) for name in ("digits_2", "digits_9", "digits_10") for arm in ("plain", "better")
    ]
    assert {c["column"] for c in found} == {"sum"}
    two = found[1]
    assert (two["mean"], two["n"]) == (pytest.approx(0.62), 3)
    assert two["sd"] == pytest.approx(0.01)
    assert two["difference"] == pytest.approx(10.0)


def test_without_a_step_classes_are_those_of_the_end(root: Path) -> None:
    content = report_content(root, "plain", metric="test/accuracy")
    assert content["classes_taken"] == "at the last step"
    assert content["classes"][1]["mean"] == pytest.approx(0.82)


def test_the_page_and_the_files_hold_them(root: Path) -> None:
    written = write_report(root, "plain")
    page = written.page.read_text()
    assert "sum by class" in page
    assert "name by class" not in page
    for text in ("digits 2", "52.0 %", "62.0 %<small>+10.0</small>", "plain, n 3", "better, n 3", "classes.csv"):
        assert text in page, text
    rows = list(csv.DictReader(io.StringIO(written.file("classes.csv").read_text())))
    assert [row["row"] for row in rows] == [c["row"] for c in written.content["classes"]]
    assert read_parquet(written.file("classes.parquet")).to_pylist() == written.content["classes"]
    assert r"digits 10 & 12.0 \%" in written.file("classes-sum.tex").read_text()


def test_a_sweep_without_classes_has_no_such_block(tmp_path: Path, synthetic: ModuleType) -> None:
    made = [_made(synthetic, "name", arm, seed, {}) for arm in ARMS for seed in (1, 2, 3)]
    synthetic.write_plain(tmp_path, made, {"metric": "test/accuracy@T", "baseline": {"arm": "plain"}})
    gather(Workspace(tmp_path), "plain")
    written = write_report(tmp_path, "plain")
    assert written.content["classes"] == []
    assert "by class" not in written.page.read_text().lower()
    assert "classes.csv" not in {path.name for path in written.files}


def test_columns_of_a_grid_of_ones_own_carry_their_factor(tmp_path: Path, synthetic: ModuleType) -> None:
    """Heads, sentences and pictures say ``lr 1/3``; a file's name holds no slash."""
    made = [
        synthetic.Made({"arm": arm, "lr": lr}, seed=seed, summary={"acc": level + 0.01 * seed, "acc/odd": level})
        for arm, level in ARMS.items()
        for lr in ("1/3", "1")
        for seed in (1, 2, 3)
    ]
    synthetic.write_plain(tmp_path, made, {"metric": "acc", "baseline": {"arm": "plain"}, "column": "lr"})
    gather(Workspace(tmp_path), "plain")
    written = write_report(tmp_path, "plain")
    page = written.page.read_text()
    assert ">lr 1/3</th>" in page
    assert "<span>arm ↓</span>" in page
    assert "lr 1/3 by class" in page
    assert {"classes-1-3.tex", "classes-1.tex"} <= {path.name for path in written.files}
    assert {cell["column"] for cell in written.content["cells"]} == {"1/3", "1"}
    assert "this learning rate only" not in page
    assert "lr 1/3" in written.file("matrix.tex").read_text()
