"""`orchestrate report`: a shipped table needs no flag, and a person's mistakes are named."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import orjson
import pytest
from click.testing import CliRunner

from jobs.workspace import Workspace
from orchestrator.asked_metric import require_metric
from orchestrator.cli.main import Context
from orchestrator.cli.report import command
from sweeps.errors import SweepError


def ask(folder: Path, *arguments: str):
    return CliRunner().invoke(command, arguments, obj=Context(folder, 0))


def test_a_shipped_table_makes_its_page(tmp_path: Path) -> None:
    done = ask(tmp_path, "audit.csv", "--out", str(tmp_path / "page"))
    assert done.exit_code == 0, done.output
    assert (tmp_path / "page" / "index.html").exists()
    assert "audit.tex" in done.output


def test_strict_counts_cells_without_a_number_only(tmp_path: Path) -> None:
    done = ask(tmp_path, "audit.csv", "--json", "--strict")
    assert done.exit_code == 1
    assert "3 cells without a number" in done.stderr
    content = orjson.loads(done.stdout)
    assert content["without_number"] == 3
    assert any(r["verdict"] == "undecided" and r["difference"] is not None for r in content["records"])


def test_a_metric_that_no_run_leaves_is_no_page_of_empty_cells(tmp_path: Path, synthetic: ModuleType) -> None:
    summary = {"test/accuracy": 0.5, "my/own": 2.0}
    points = (({"step": 5, "validation/loss": 1.0}, {"step": 10, "validation/loss": 0.5}),)
    made = [
        synthetic.Made({"arm": arm}, seed, dict(summary), points=points) for arm in ("a", "b") for seed in (1, 2, 3)
    ]
    synthetic.write_plain(tmp_path, made, {"metric": "test/accuracy", "baseline": {"arm": "a"}})
    wrong = ask(tmp_path, "plain", "--metric", "test/acuracy")
    assert isinstance(wrong.exception, SweepError)
    assert str(wrong.exception) == (
        "--metric: no run of plain leaves this metric, got 'test/acuracy'; did you mean test/accuracy? "
        "(choose from: my/own, test/accuracy, train/loss, validation/loss, digest)"
    )
    assert not Workspace(tmp_path).report("plain").exists()
    # What the runner does not announce and the runs left all the same, is there: as a summary value and as a curve.
    assert ask(tmp_path, "plain", "--metric", "my/own", "--json").exit_code == 0
    require_metric(Workspace(tmp_path), "plain", "validation/loss")


@pytest.mark.parametrize("arguments", [["mine", "--arm-column", "x"], ["nothing.csv"]])
def test_mistakes_are_usage_errors(tmp_path: Path, arguments: list[str]) -> None:
    assert ask(tmp_path, *arguments).exit_code == 2
