"""Mistakes of the file and mistakes in its cells come together, and no consequence of one is told as another."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeps.errors import SweepError
from sweeps.read_design import read_design

GOOD = "runner: train\nconfig: {task: {name: copy}, optimizer: {lr: 0.1}, steps: 3}\n"


def told(folder: Path, text: str, *overrides: str) -> list[tuple[str, int | None]]:
    path = folder / "study.yaml"
    path.write_text(text)
    with pytest.raises(SweepError) as caught:
        read_design(path, overrides)
    return [(problem.where.partition(" (")[0], problem.line) for problem in caught.value.problems]


def test_a_file_without_mistakes_is_its_design(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(GOOD)
    assert len(read_design(path).runs) == 1
    assert len(read_design(path, ["seeds=3"]).runs) == 3


def test_mistakes_of_the_file_and_of_its_cells_are_reported_at_once(tmp_path: Path) -> None:
    text = (
        "runner: train\n"
        "config: {task: {name: copyy}, optimizer: {lr: x}, steps: 3}\n"
        "factorz: {}\n"
        "analysis: {test: dunett}\n"
    )
    assert told(tmp_path, text, "config.layers=2") == [
        ("config.task.name", 2),
        ("config.optimizer.lr", 2),
        ("factorz", 3),
        ("analysis.test", 4),
        ("config.layers", None),
    ]


@pytest.mark.parametrize(
    "text",
    [
        # The key that would have given the cells their optimizer is misspelled: only that is a mistake.
        "runner: train\nconfig: {task: {name: copy}, steps: 3}\nfactorz: {lr: {path: optimizer.lr, values: [0.1]}}\n",
        # A value that is not resolved is no wrong value.
        "runner: train\nconfig: {task: {name: copy}, optimizer: {lr: '${values.lr}'}, steps: 3}\n",
        "runner: train\nconfig: {task: {name: copy}, optimizer: {lr: 0.1}, steps: '???'}\n",
        # Without its stages nothing is left of a file to look at.
        "stages: {a: {runner: train, seedz: 1}, b: 3}\n",
    ],
)
def test_what_follows_from_a_mistake_is_not_told(tmp_path: Path, text: str) -> None:
    wheres = [where for where, _ in told(tmp_path, text)]
    alone = {"factorz", "config.optimizer.lr", "config.steps", "stages.a.seedz", "stages.b"}
    assert wheres
    assert set(wheres) <= alone
    assert len(set(wheres)) == len(wheres)


@pytest.mark.parametrize(
    ("text", "overrides", "where", "line"),
    [
        ("runner: train\nconfig:\n  model:\n    width: 18\n    heads: 4\n", (), "config.model.heads", 5),
        ("runner: train\nconfig:\n  model:\n    width: 18\n", (), "config.model.width", 4),
        ("runner: train\nconfig:\n  model:\n    heads: 3\n", ("config.model.width=16",), "config.model.heads", 4),
        (
            "runner: train\nconfig: {model: {heads: 4}}\nfactors:\n  width: {path: model.width, values: [\n16,\n18]}\n",
            (),
            "factors.width.values.1",
            6,
        ),
        ("runner: train\nconfig:\n  evaluate:\n    at: [9]\n", (), "config.evaluate.at", 4),
    ],
)
def test_values_that_do_not_go_together_are_told_with_the_line_of_one_of_them(
    tmp_path: Path, text: str, overrides: tuple[str, ...], where: str, line: int
) -> None:
    rest = ("config.task.name=copy", "config.optimizer.lr=0.1", "config.steps=3")
    assert told(tmp_path, text, *rest, *overrides) == [(where, line)]
