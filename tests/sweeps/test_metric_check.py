"""A metric that no run leaves is a mistake of the file, found before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.runners import RUNNERS, Runner, metrics_of
from sweeps.errors import SweepError
from sweeps.metric_check import plainest_first
from sweeps.read_design import read_design

TOY = "runner: toy\nseeds: 2\nfactors: {arm: {a: {note: a}, b: {note: b}}}\n"


def refused(path: Path, text: str) -> str:
    path.write_text(text)
    with pytest.raises(SweepError) as caught:
        read_design(path)
    return str(caught.value)


def test_a_mistyped_metric_is_told_with_its_line_and_what_there_is(tmp_path: Path) -> None:
    said = refused(tmp_path / "s.yaml", TOY + "analysis:\n  baseline: {arm: a}\n  metric: test/acuracy\n")
    assert "s.yaml:6: analysis.metric: no run of stage toy leaves this metric, got 'test/acuracy'" in said
    assert "did you mean test/accuracy?" in said
    assert "choose from: test/accuracy, train/loss, digest" in said


def test_it_is_told_together_with_the_other_mistakes_of_the_cells(tmp_path: Path) -> None:
    said = refused(
        tmp_path / "s.yaml",
        TOY + "analysis: {baseline: {arm: c}, metric: wrong}\n",
    )
    assert "2 mistakes" in said
    assert "no such level of arm" in said


def test_a_default_that_nobody_wrote_matters_only_where_something_is_compared(tmp_path: Path) -> None:
    text = (
        "runner: train\nfactors: {width: {path: model.width, values: [8, 16]}}\n"
        "config: {task: {name: copy}, steps: 4, optimizer: {lr: 1e-3}, evaluate: {splits: [validation]}}\n"
    )
    path = tmp_path / "s.yaml"
    path.write_text(text)
    assert read_design(path).runs
    said = refused(path, text + "analysis: {baseline: {width: 8}}\n")
    assert "s.yaml:4: analysis.metric: no run of stage train leaves this metric, got 'test/accuracy'" in said
    assert "choose from: train/accuracy, train/gradient_norm, train/loss, validation/accuracy, " in said


def test_a_class_that_only_one_task_has_is_a_metric(tmp_path: Path) -> None:
    text = (
        "runner: train\nconfig: {steps: 40, t_task: 10, optimizer: {lr: 1e-3}}\n"
        "factors: {task: {add: {task: {name: add}}, copy: {task: {name: copy}}}}\n"
        "analysis: {baseline: {task: add}, metric: METRIC}\n"
    )
    path = tmp_path / "s.yaml"
    for metric in ("test/accuracy/length_4", "test/accuracy@T/2", "validation/loss", "train/gradient_norm"):
        path.write_text(text.replace("METRIC", metric))
        assert read_design(path).analysis["metric"] == metric
    assert "leaves this metric" in refused(path, text.replace("METRIC", "shape/moved"))


def test_the_stage_that_is_compared_is_asked_and_not_the_one_before(tmp_path: Path) -> None:
    """Only searches tell how far a shape has moved."""
    text = (
        "config: {task: {name: copy}, steps: 4, optimizer: {lr: 1e-3}}\n"
        "factors: {arm: {gelu: {}, learned: {model: {activation: {kind: learned}}}}}\n"
        "stages:\n"
        "  search: {runner: search, factors: []}\n"
        "  retrain: {runner: train, needs: {activation: {when: {arm: learned}, stage: search, product: shape}}}\n"
        "analysis: {baseline: {arm: gelu}, metric: shape/moved}\n"
    )
    assert "no run of stage retrain leaves this metric" in refused(tmp_path / "s.yaml", text)


def test_nobody_knows_what_a_users_own_command_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = RUNNERS["toy"]
    monkeypatch.setitem(RUNNERS, "toy", Runner(toy.config, toy.describe, toy.run))
    path = tmp_path / "s.yaml"
    path.write_text(TOY + "analysis: {baseline: {arm: a}, metric: my/own}\n")
    assert read_design(path).analysis["metric"] == "my/own"
    assert metrics_of("toy", {}) is None


def test_the_plainest_names_come_first() -> None:
    names = {"steps", "test/accuracy/length_2", "test/accuracy@T", "test/accuracy"}
    assert plainest_first(names) == ("test/accuracy", "test/accuracy@T", "test/accuracy/length_2", "steps")
