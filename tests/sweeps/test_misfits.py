"""What a search learns must fit the network that trains with it; that it does not is found before the search runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeps.errors import SweepError
from sweeps.read_design import read_design

STUDY = """
config: {task: {name: copy}, steps: 4, optimizer: {lr: 1e-3}}
factors:
  arm:
    gelu: {}
    learned: {model: {activation: {kind: learned}}}
stages:
  search: {runner: search, factors: []}
  retrain:
    runner: train
    needs:
      activation: {when: {arm: learned}, stage: search, product: shape}
"""


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["stages.search.config.search.share=per_layer"], "set model.share: per_layer"),
        (
            ["stages.retrain.config.model.share=per_layer"],
            "has a function for each of 2 layers, but the search learnt one function for all layers; "
            "set model.share: shared, or search.share: per_layer",
        ),
        (
            [
                "stages.search.config.search.share=per_layer",
                "stages.search.config.model.layers=3",
                "stages.retrain.config.model.share=per_layer",
            ],
            "has a function for each of 2 layers, but the search learnt a function for each of 3 layers",
        ),
        (
            ["stages.search.config.search.grid.knots=61"],
            "asks for (kind, low, high, knots) = ('learned', -20.0, 20.0, 122), the search learnt ('learned', -20.0, "
            "20.0, 61)",
        ),
        (["stages.search.config.search.learns=scaled_gelu"], "the search learnt ('scaled_gelu', None, None, None)"),
        (
            ["stages.search.config.search.where=attention", "stages.search.config.model.attention.kernel=spline"],
            "slot 'mlp' is 'learned', but the search learnt attention; search with where: mlp or both",
        ),
    ],
)
def test_a_product_that_would_not_fit_is_told_with_the_line_that_asks_for_it(
    tmp_path: Path, overrides: list[str], said: str
) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(STUDY)
    with pytest.raises(SweepError) as caught:
        read_design(path, overrides)
    (problem,) = caught.value.problems
    assert said in problem.message
    assert problem.message.endswith("(made by search)")
    assert (Path(problem.file).name, problem.line) == ("s.yaml", 12)
    assert "cell retrain arm=learned" in problem.where


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["stages.search.config.search.share=per_layer", "stages.retrain.config.model.share=per_layer"],
        ["stages.search.config.search.where=both"],
        ["stages.search.config.search.start=gelu"],
        ["config.model.layers=3", "stages.search.config.model.layers=2"],
    ],
)
def test_what_fits_is_planned(tmp_path: Path, overrides: list[str]) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(STUDY)
    assert len(read_design(path, overrides).runs) == 3


def test_a_hold_out_that_leaves_a_part_empty_is_told_before_the_search_runs(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("runner: search\nconfig: {task: {name: copy, train: 2}, steps: 4, optimizer: {lr: 1e-3}}\n")
    with pytest.raises(SweepError, match=r"search\.holdout=0\.2 leaves one part of 2 examples empty"):
        read_design(path)
