"""`orchestrate report`: a shipped table needs no flag, and a person's mistakes are named."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner

from orchestrator.cli.main import Context
from orchestrator.cli.report import command


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


@pytest.mark.parametrize("arguments", [["mine", "--arm-column", "x"], ["nothing.csv"]])
def test_mistakes_are_usage_errors(tmp_path: Path, arguments: list[str]) -> None:
    assert ask(tmp_path, *arguments).exit_code == 2
