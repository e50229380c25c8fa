"""Slices, columns, stability and accounts of a comparison, from tables."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import ModuleType

import pytest

from dashboards.accounts import accounts, words
from dashboards.levels import column_levels
from dashboards.queries import Comparison, compare
from dashboards.report import report_content
from dashboards.series import by_task, movement, shapes, training_panels
from dashboards.stability import Stability, kept, stability
from jobs.workspace import Workspace
from orchestrator.gather.parquet import gather
from sweeps import tables
from sweeps.analysis.errors import AnalysisError
from sweeps.tables import read_runs

TASKS = ("memorize", "parentheses", "copy")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory, synthetic: ModuleType) -> Workspace:
    workspace = synthetic.write_study(tmp_path_factory.mktemp("study"), synthetic.Study(tasks=TASKS, points=5))
    gather(workspace, "compat")
    return workspace


@pytest.fixture(scope="module")
def comparison(study: Workspace) -> Comparison:
    return compare(study.root, "compat")


def test_slices_are_every_step_at_every_rate_with_the_planned_one_first(comparison: Comparison) -> None:
    assert comparison.slices[0].name == "step T, rate 1"
    assert [part.name for part in comparison.in_order] == [
        "step T/2, rate 1", "step T, rate 1", "step 2T, rate 1", "final step, rate 1", "whole curve, rate 1",
        "step T/2, rate 1/3", "step T, rate 1/3", "step 2T, rate 1/3", "final step, rate 1/3",
    ]  # fmt: skip
    assert [part.primary for part in comparison.slices] == [True] + [False] * 8


def test_rows_are_named_after_columns_and_controls_are_apart(comparison: Comparison) -> None:
    assert comparison.rows == TASKS
    assert comparison.controls == ("relu", "relu2", "silu", "random_spline", "scaled_gelu")
    assert comparison.is_transfer
    other_rate = next(part for part in comparison.slices if part.where["rate"] == "1/3")
    assert other_rate.matrix.rows == TASKS  # controls were planned at one rate only


def test_a_cell_knows_how_many_runs_were_planned(comparison: Comparison) -> None:
    part = comparison.primary
    words = {part.of(part.matrix.cell(row, column)) for row in TASKS for column in TASKS}
    assert "n 6" in words
    assert "n 4 of 6" in words


def test_stability_counts_signs_over_slices(comparison: Comparison) -> None:
    cells = stability(comparison)
    assert len(cells) == 9
    diagonal = next(cell for cell in cells if (cell.row, cell.column) == ("memorize", "memorize"))
    assert diagonal.keeps
    assert diagonal.words == "same sign in all 9 slices"
    assert [look.first for look in diagonal.looks] == [False] * 5 + [True] + [False] * 3
    same, said = kept(cells)
    assert 0 < same <= said <= 9


def looks(*values: float | None) -> Stability:
    sample = stability_sample()
    made = [dataclasses.replace(sample, value=v, sign=None if v is None else (v > 0) - (v < 0)) for v in values]
    return Stability("a", "b", tuple(made))


def stability_sample():
    from dashboards.stability import Look

    return Look("s", None, None, "pp", False, None, False, None)


@pytest.mark.parametrize(
    ("values", "keeps"),
    [((1.0, 2.0), True), ((-1.0, -2.0), True), ((1.0, -2.0), False), ((1.0, None), None), ((1.0, 0.0), False)],
)
def test_a_sign_is_kept_only_where_all_agree(values: tuple[float | None, ...], keeps: bool | None) -> None:
    assert looks(*values).keeps is keeps


def test_accounts_add_up(study: Workspace) -> None:
    runs = read_runs(study.root, "compat")
    counted = accounts(runs)
    assert sum(counted.states.values()) == counted.runs == len(runs)
    assert not counted.finished
    assert [stage.stage for stage in counted.stages] == ["search", "retrain"]
    assert counted.stages[0].hours == pytest.approx(12 * 12.0 / 3600)
    assert counted.lost_hours > 0
    assert [trouble.reason for trouble in counted.diverged] == ["diverged at step 41"] * 2
    assert counted.resumes >= counted.exact_resumes > 0
    assert counted.inexact[0][0] == "not exact: another number of threads"
    assert words({"task": "copy", "n": 1, "none": None}) == "task copy, n 1"


def test_levels_come_from_the_tasks_config_and_the_block() -> None:
    config = {"task": {"name": "haystack"}, "t_task": 5, "steps": 9, "optimizer": {"name": "adamw", "lr": 0.1}}
    found = column_levels(config, {}, "haystack")
    assert (found.chance, found.t_task, found.steps, found.lr) == (1 / 127, 5, 9, 0.1)
    assert found.trivial == pytest.approx(0.133 + 0.867 / 127, abs=1e-3)
    assert column_levels({}, {"chance": {"x": 0.25}, "ceiling": 0.9}, "x").chance == 0.25
    assert column_levels({"task": "mine"}, {"ceiling": 0.9}, "x").ceiling == 0.9
    assert column_levels({"task": {"name": "unknown"}}, {}, "x").chance is None


def test_series_hold_one_line_a_run_and_the_shapes(study: Workspace, comparison: Comparison) -> None:
    runs = read_runs(study.root, "compat")
    panels = training_panels(study.root, "compat", runs, comparison)
    assert [panel.column for panel in panels] == list(TASKS)
    arms = [line.arm for line in panels[0].lines]
    assert arms.count("gelu") == 3
    assert arms.count("memorize") == 6
    assert all(list(line.steps) == sorted(line.steps) for panel in panels for line in panel.lines)
    found = shapes(study.root, runs)
    assert [len(group) for group in by_task(found, "learned").values()] == [2, 2, 2]
    assert len(by_task(found, "scaled_gelu")) == 3
    low, high = found[0].visited or (0.0, 0.0)
    assert -5 < low < 0 < high < 5
    moved = movement(study.root, "compat", runs)
    assert [len(panel.lines) for panel in moved] == [4, 4, 4]


def test_diverged_lines_end_where_they_are_not_finite(study: Workspace) -> None:
    runs = read_runs(study.root, "compat")
    comparison = compare(study.root, "compat", runs)
    rows = dataclasses.replace(comparison, rows=())  # every arm is drawn where rows are not columns
    lines = [line for panel in training_panels(study.root, "compat", runs, rows) for line in panel.lines]
    diverged = [line for line in lines if line.gaps]
    assert diverged
    assert all(max(line.steps, default=0) < min(line.gaps) for line in diverged)


def test_what_was_not_gathered_cannot_be_compared(tmp_path: Path) -> None:
    with pytest.raises(AnalysisError, match="does not exist"):
        compare(tmp_path, "none")


def test_complaint_7_06_ten_thousand_runs_are_two_files_and_one_read(
    tmp_path: Path, synthetic: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """mlflow/mlflow#4034, #8277: a list took half a minute because every run had files of its own."""
    made = [synthetic.Made({"arm": f"a{i % 10}"}, seed=i // 10, summary={"test/accuracy": 0.5}) for i in range(10_000)]
    analysis = {"metric": "test/accuracy", "baseline": {"arm": "a0"}}
    synthetic.write_plain(tmp_path, made, analysis, pack=100)
    gather(Workspace(tmp_path), "plain")
    assert len(list((tmp_path / "tables").rglob("*.parquet"))) == 2
    reads = []
    monkeypatch.setattr(
        tables, "read_parquet", lambda path, whole=tables.read_parquet: reads.append(path) or whole(path)
    )
    content = report_content(tmp_path, "plain")
    assert [path.name for path in reads] == ["runs.parquet"]
    assert sum(cell["n"] for cell in content["cells"]) == 9_000
    assert content["runs"]["all"] == 10_000
