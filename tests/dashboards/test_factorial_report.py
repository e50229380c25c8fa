"""The factorial page: OlmPool's published numbers, and a table with planted effects."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from dashboards.sheet_files import sheet_json, write_sheet
from dashboards.table_rows import find_table
from orchestrator.cli.table_sheets import sheet_of_table
from sweeps.analysis.errors import AnalysisError


def olmpool():
    path = find_table("olmpool.csv")
    assert path is not None
    return sheet_of_table(path)


def test_olmpool_reproduces_the_published_r_squared(tmp_path: Path) -> None:
    sheet = olmpool()
    content = sheet_json(sheet)
    assert content["harmful_choices"]["r_squared"] == pytest.approx(0.67, abs=0.01)
    assert content["harmful_choices"]["r_squared_left_out"] < content["harmful_choices"]["r_squared"]
    assert content["replicate_sd"] == pytest.approx(2.5, abs=0.1)  # audits.md 7.4 counts four of the five pairs
    assert {r["term"] for r in sheet.records} >= {"SWA", "GQA", "QK-norm", "4K context", "SWA x GQA"}
    assert "(published: R² = 0.67)" in sheet.quotes[1]
    assert "none is decided after Holm" in sheet.quotes[0]
    # Student's t with 5 degrees of freedom: 2.571 x sqrt 2 x 2.43 = 8.82, above the largest change of 7.9
    assert "below about 8.82 (95 %, Student t) are within the noise: 13 of the 13 pairs" in sheet.quotes[2]
    written = write_sheet(sheet, tmp_path)
    assert {"effects.svg", "count.png", "factorial.tex", "pairs.tex"} <= {path.name for path in written.files}
    again = write_sheet(olmpool(), tmp_path / "b")
    assert all(again.file(path.name).read_bytes() == path.read_bytes() for path in written.files)


def planted(folder: Path, settings: str = "") -> Path:
    rows = [
        f"{a},{b},{seed},{10 + 2 * (a == 'on') - 3 * (b == 'x') + 0.1 * ((seed * 3 + len(a)) % 4)}"
        for a, b, seed in itertools.product(("off", "on"), ("x", "y"), range(4))
    ]
    path = folder / "mine.csv"
    path.write_text(settings + "gate,norm,seed,score\n" + "\n".join(rows) + "\n")
    return path
    notes = [note for section in sheet_of_table(path).sections for note in section.notes]
    pairs = "35.2 and 38.8; 36.9 and 39.9; 42.8 and 46.7; 42.9 and 47.4; 43.6 and 44.8"
    assert f"5 groups of runs that differ in init only: {pairs}." in notes


def test_planted_effects_are_found(tmp_path: Path) -> None:
    sheet = sheet_of_table(planted(tmp_path), kind="factorial", metric="score")
    records = {r["term"]: r for r in sheet.records}
    assert abs(records["gate = on"]["effect"]) == pytest.approx(2, abs=0.2)
    assert abs(next(r for t, r in records.items() if t.startswith("norm"))["effect"]) == pytest.approx(3, abs=0.2)
    assert all(r["decided"] for r in records.values())
    content = sheet_json(sheet)
    assert content["replicate_df"] == 12
    assert content["harmful_choices"] is None
    assert "No list of harmful choices" in sheet.quotes[1]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("#: harmful = gate on\n", "is no condition"),
        ("#: harmful = G: gates = on\n", "no column 'gates'"),
        ("#: interactions = G x N\n", "the terms are"),
        ("#: factors = gate, depth\n", "no column 'depth'"),
    ],
)
def test_a_bad_design_is_named(tmp_path: Path, settings: str, message: str) -> None:
    with pytest.raises(AnalysisError, match=message):
        sheet_of_table(planted(tmp_path, settings), kind="factorial", metric="score")
    with pytest.raises(AnalysisError, match="--metric"):
        sheet_of_table(planted(tmp_path), kind="factorial")
