"""The page and its files: whole, self-contained, the same bytes twice, honest when half done."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import orjson
import pytest

from dashboards.report import report_content, write_report
from dashboards.sheet_files import Written
from dashboards.transfer import as_the_matrix
from dashboards.words import between
from jobs.workspace import Workspace
from orchestrator.gather.parquet import gather
from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.linear import Linear
from sweeps.analysis.matrix import Cell, Matrix
from sweeps.tables import read_parquet

TASKS = ("memorize", "parentheses", "addmod", "copy")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory, synthetic: ModuleType) -> Workspace:
    workspace = synthetic.write_study(tmp_path_factory.mktemp("study"), synthetic.Study(tasks=TASKS, points=5))
    gather(workspace, "compat")
    return workspace


@pytest.fixture(scope="module")
def report(study: Workspace) -> Written:
    return write_report(study.root, "compat")


class Page(HTMLParser):
    """Tags that were opened and not closed, addresses, and the text of the main matrix's cells."""

    VOID = ("meta", "img", "br", "link")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.cells: list[str] = []
        self._cell = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.addresses += [str(found[name]) for name in ("src", "href") if name in found]
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "td" and "cell" in str(found.get("class", "")).split():
            self.cells.append("")
            self._cell = True

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        if tag == "td":
            self._cell = False

    def handle_data(self, data: str) -> None:
        if self._cell:
            self.cells[-1] += data


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from numbers(item)
    elif isinstance(value, float):
        yield value


def test_the_page_is_whole_and_opens_without_a_network(report: Written) -> None:
    text = report.page.read_text()
    page = Page(text)
    assert page.open == []
    assert "Exploratory" not in text
    files = {path.name for path in report.page.parent.iterdir()}
    for address in page.addresses:
        assert address.startswith("data:image/svg+xml;base64,") or address in files, address
    assert "<script" not in text
    assert "http" not in re.sub(r"data:image[^\"]+", "", text)


def test_every_cell_has_a_number_an_interval_and_a_count_or_a_reason(report: Written) -> None:
    cells = report.content["cells"]
    assert len(cells) == (len(TASKS) + 5) * len(TASKS)
    for cell in cells:
        numbered = cell["value"] is not None and cell["interval"] is not None and cell["n"] > 0
        assert numbered or cell["reason"], cell
        assert cell["row"]
        assert cell["column"] in TASKS
    page = Page(report.page.read_text())
    assert len(page.cells) >= len(cells)
    assert all(text.strip() for text in page.cells)


def test_no_file_holds_a_bare_nan(report: Written) -> None:
    page = re.sub(r"data:image[^\"]+", "", report.page.read_text())
    assert not re.search(r"(?<![\w])(nan|NaN|inf|Infinity|None)(?![\w])", re.sub(r"loss is nan at step \d+", "", page))
    assert all(math.isfinite(number) for number in numbers(orjson.loads(report.file("report.json").read_bytes())))
    rows = list(csv.DictReader(io.StringIO(report.file("cells.csv").read_text())))
    assert all(value != "" and value.lower() not in ("nan", "inf", "none") for row in rows for value in row.values())
    table = read_parquet(report.file("cells.parquet"))
    assert table.num_rows == len(rows)
    assert all(math.isfinite(value) for value in table.column("value").drop_null().to_pylist())


def test_the_same_results_give_the_same_bytes(report: Written, study: Workspace, tmp_path: Path) -> None:
    """R4 of the performance notes."""
    again = write_report(study.root, "compat", tmp_path / "again")
    for name in ["index.html", *(path.name for path in report.files)]:
        assert again.file(name).read_bytes() == report.file(name).read_bytes(), name


def test_json_says_what_the_page_says(report: Written, study: Workspace) -> None:
    content = report_content(study.root, "compat")
    assert content == report.content
    assert orjson.loads(report.file("report.json").read_bytes()) == orjson.loads(orjson.dumps(content))
    cell = next(c for c in content["cells"] if (c["row"], c["column"]) == ("copy", "copy"))
    shown = next(text for text in Page(report.page.read_text()).cells if f"{cell['value']:+.1f}" in text)
    assert f"n {cell['n']}" in shown
    assert cell["interval"][0] < cell["value"] < cell["interval"][1]
    assert content["family"] == len(TASKS) ** 2


def test_levels_and_informativeness_of_each_column(report: Written) -> None:
    columns = {c["column"]: c for c in report.content["columns"]}
    assert columns["addmod"]["informative"] is False
    assert "near chance" in columns["addmod"]["why"]
    assert columns["copy"]["informative"] is True
    assert columns["parentheses"]["trivial"] > columns["parentheses"]["chance"]
    assert columns["memorize"]["metric"] == "recall of trained pairs"
    text = report.page.read_text()
    assert all(
        f"<td>{is_}</td>" in text for is_ in ("recall of trained pairs", "sequence accuracy", "that of predictions")
    )
    assert all(c["t_task"] == 100 and c["ceiling"] == 1.0 for c in columns.values())


def test_diverged_seeds_count_at_chance_with_a_footnote(report: Written) -> None:
    cell = next(c for c in report.content["cells"] if (c["row"], c["column"]) == ("parentheses", "copy"))
    assert (cell["diverged"], cell["n"]) == (2, 4)
    assert cell["survivors"] > cell["value"]
    text = report.page.read_text()
    assert "2 of 4 runs diverged and count at chance" in text
    assert "the survivors alone give" in text


def test_a_half_done_sweep_says_what_is_missing(report: Written) -> None:
    """Copy's last packs wait or run: numbers without a verdict, and the page says it is unfinished."""
    cells = [c for c in report.content["cells"] if c["column"] == "copy" and c["value"] is not None]
    assert not any(c["decided"] for c in cells)
    assert any("1 running" in c["reason"] or "2 running" in c["reason"] for c in cells if c["reason"])
    assert "<b>Unfinished, so exploratory.</b>" in report.page.read_text()
    assert re.search(r"n \d of \d", report.page.read_text())


def test_nothing_run_yet_is_a_page_of_reasons(tmp_path: Path, synthetic: ModuleType) -> None:
    synthetic.write_study(tmp_path, synthetic.Study(tasks=("memorize", "copy"), points=2))
    for path in sorted((tmp_path / "packs").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    gather(Workspace(tmp_path), "compat")
    written = write_report(tmp_path, "compat")
    assert all(cell["value"] is None and "pending" in cell["reason"] for cell in written.content["cells"][:4])
    assert all(text.strip() for text in Page(written.page.read_text()).cells)


def test_a_departure_from_the_frozen_block_is_called_exploratory(study: Workspace, tmp_path: Path) -> None:
    frozen = orjson.loads(study.plan("compat").read_bytes().splitlines()[0])["analysis"]
    study.frozen("compat").write_bytes(orjson.dumps(frozen))
    try:
        assert report_content(study.root, "compat")["exploratory"] == []
        other = write_report(study.root, "compat", tmp_path / "other", alpha=0.2)
        assert other.content["exploratory"] == ["alpha = 0.2, planned 0.05"]
        assert "<b>Exploratory.</b>" in other.page.read_text()
        study.frozen("compat").write_bytes(orjson.dumps(frozen | {"test": "welch"}))
        tested = report_content(study.root, "compat")
        assert tested["exploratory"] == ["decided with test nested_t, planned welch"]
        with pytest.raises(AnalysisError, match="a matrix is decided by Holm, a pooled sigma and a guard; sigma = own"):
            report_content(study.root, "compat", sigma="own")
    finally:
        study.frozen("compat").unlink()


def test_a_general_sweep_gets_a_table_of_arms(tmp_path: Path, synthetic: ModuleType) -> None:
    """One factor of arms, a metric that is no share: losses, lower is better, in their own unit."""
    made = [
        synthetic.Made({"optimizer": arm}, seed=seed, summary={"validation/loss": base + 0.01 * seed})
        for arm, base in (("adam", 3.0), ("sgd", 4.0), ("lion", 2.0))
        for seed in range(1, 6)
    ]
    analysis = {"metric": "validation/loss", "goal": "min", "baseline": {"optimizer": "adam"}}
    synthetic.write_plain(tmp_path, made, analysis)
    gather(Workspace(tmp_path), "plain")
    written = write_report(tmp_path, "plain")
    sgd, lion = written.content["cells"]
    assert (sgd["row"], sgd["column"], sgd["verdict"]) == ("sgd", "all", "worse")
    assert sgd["value"] == pytest.approx(1.0)
    assert (lion["verdict"], lion["value"]) == ("better", pytest.approx(-1.0))
    assert sgd["interval"][0] < 1.0 < sgd["interval"][1]
    assert "units of the metric" in written.content["unit"]
    Page(written.page.read_text())


def test_the_page_says_what_is_specific_shape_or_speed(report: Written) -> None:
    text = report.page.read_text()
    for title in (
        "Is it specific to its task?", "Is it the shape, or only the gain?", "Would a better fixed activation do?",
        "When does it help?", "Does the seed variance vanish?", "How much sooner?",
    ):  # fmt: skip
        assert title in text, title
    content = report.content
    own = {c["column"]: c for c in content["contrasts"] if c["question"] == "own less other rows"}
    assert set(own) == set(TASKS)
    assert own["memorize"]["verdict"] == "more"  # the made-up study gives each task's own spline an advantage
    assert own["memorize"]["low"] > 0
    gelu = {c["column"]: c for c in content["contrasts"] if c["question"] == "own less random_spline"}
    assert gelu["memorize"]["verdict"] == "more"
    fixed = [c for c in content["contrasts"] if c["question"].startswith("own less best fixed")]
    assert len(fixed) == len(TASKS)
    cells = {(c["row"], c["column"]): c for c in content["cells"]}
    gains = [c for c in content["contrasts"] if c["question"].startswith("best fixed less baseline, ")]
    assert gains
    for gain in gains:  # the matrix is the stricter
        assert gain["verdict"] == "undecided" or cells[gain["question"].split(", ")[1], gain["column"]]["decided"]
    assert 0 < content["specificity_index"]["value"] < 1
    assert {s["column"] for s in content["seed_spread"]} == set(TASKS)
    sooner = {s["column"]: s for s in content["steps_to_accuracy"]}
    assert sooner["memorize"]["ratio"] > 1
    assert not sooner["memorize"]["decides"]
    assert "deciding nothing" in text


@pytest.mark.parametrize(("verdict", "said"), [("better", "more"), ("undecided", "undecided")])
def test_a_fixed_activation_is_called_better_only_where_the_matrix_says_so(verdict: str, said: str) -> None:
    gain = Linear("relu2", "memorize", value=0.2, p=0.001, p_adjusted=0.008, verdict="more")
    cell = Cell("relu2", "memorize", verdict=verdict)
    matrix = Matrix("gelu", 0.05, ("relu2",), ("memorize",), (cell,), (), 1)
    comparison: Any = SimpleNamespace(primary=SimpleNamespace(matrix=matrix))
    found = as_the_matrix(gain, comparison)
    assert found.verdict == said
    assert (found.reason is None) == found.decided


def test_the_whole_curve_is_a_slice_and_the_matrix_is_latex(report: Written) -> None:
    assert "whole curve, rate 1" in [part["slice"] for part in report.content["other_slices"]]
    tex = report.file("matrix.tex").read_text()
    assert tex.count(r"\\") == 1 + len(TASKS) + 5
    assert r"\textbf{" in tex
    table = read_parquet(report.file("contrasts.parquet"))
    assert table.num_rows == len(report.content["contrasts"])


def test_every_file_shows_the_interval_that_decides(report: Written) -> None:
    """Two searches that disagree are far from zero by the column's noise and undecided by their own."""
    cells = [c for part in (report.content, *report.content["other_slices"]) for c in part["cells"]]
    tested = [c for c in cells if c["p"] is not None]
    assert {c["decided"] for c in tested} == {True, False}
    for cell in tested:
        low, high = cell["interval"]
        assert cell["decided"] == (low > 0 or high < 0)
        alone = cell["interval_uncorrected"]
        assert low <= alone[0] < alone[1] <= high
    rows = list(csv.DictReader(io.StringIO(report.file("cells.csv").read_text())))
    table = read_parquet(report.file("cells.parquet")).to_pylist()
    for cell, row, record in zip(cells, rows, table, strict=True):
        if cell["interval"] is not None:
            assert [float(row["low"]), float(row["high"])] == cell["interval"] == [record["low"], record["high"]]
            assert [float(row[f"uncorrected_{end}"]) for end in ("low", "high")] == cell["interval_uncorrected"]
    own = [c for c in report.content["cells"] if c["sigma"] == "own"]
    assert own
    page = Page(report.page.read_text())
    tex = report.file("matrix.tex").read_text().replace("$-$", "−")
    for cell in own:
        text = next(t for t in page.cells if between(*cell["interval"]) in t)
        assert f"own noise: {cell['df_guard']:.2g} df" in text
        assert between(*cell["interval"]).replace("<", "$<$").replace(">", "$>$") + "*" in tex
    assert "so its interval rests on its own noise alone" in report.page.read_text()
