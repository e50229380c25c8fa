"""A trainer that is one process by its config is not planned as several: found with its line, before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeps.errors import SweepError
from sweeps.read_design import read_design

STUDY = """\
config: {task: {name: copy}, steps: 4, optimizer: {lr: 1e-3}}
runner: train
factors: {arm: {gelu: {}, relu: {model: {activation: {kind: relu}}}}}
"""
RULE = """\
cells:
- when: {arm: relu}
  resources:
    processes: 2
"""


@pytest.mark.parametrize(
    ("more", "overrides", "where", "line"),
    [
        (RULE, [], "cells.0.resources.processes (cell train arm=relu)", 7),
        ("resources: {nodes: 2}\n", [], "resources.nodes (2 cells, first train arm=gelu)", 4),
        ("resources: {cpus: 2}\n", ["resources.processes=2"], "resources.processes (2 cells, ", None),
    ],
)
def test_several_processes_of_strategy_single_are_a_mistake(
    tmp_path: Path, more: str, overrides: list[str], where: str, line: int | None
) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(STUDY + more)
    with pytest.raises(SweepError) as caught:
        read_design(path, overrides)
    (problem,) = caught.value.problems
    assert problem.where.startswith(where)
    assert problem.line == line
    assert "strategy: single is one process, but 2 would be started" in problem.message


@pytest.mark.parametrize("overrides", [["config.strategy=ddp"], ["cells=[]"], ["cells.0.resources.processes=1"]])
def test_those_that_can_be_several_or_are_one_are_none(tmp_path: Path, overrides: list[str]) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(STUDY + RULE)
    assert len(read_design(path, overrides).runs) == 2
