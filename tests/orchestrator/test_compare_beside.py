"""What `orchestrate compare` shows beside its verdicts: drawn intervals, permutations, arms over their tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from orchestrator.cli.compare import command
from orchestrator.cli.main import Context

TABLE = """method,seed,climb
baseline,0,0.4805
baseline,1,0.4832
baseline,2,0.4850
softpick,0,0.4908
softpick,1,0.4925
softpick,2,0.4933
hybrid,0,0.4896
"""


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = tmp_path / "results.csv"
    path.write_text(TABLE)
    return str(path)


def run(*arguments: str, root: Path = Path("nowhere")) -> str:
    """Output of a call that ends well; errors of ours are raised as they are."""
    result = CliRunner().invoke(command, list(arguments), obj=Context(root, 0), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def verdicts(*arguments: str, root: Path = Path("nowhere")) -> dict[str, Any]:
    return {v["arm"]: v for v in json.loads(run(*arguments, "--json", root=root))["verdicts"]}


def test_what_is_drawn_decides_nothing(table: str, tmp_path: Path) -> None:
    arguments = [table, "--baseline", "baseline"]
    found = verdicts(*arguments)
    softpick = found["softpick"]
    assert (softpick["permutation_p"], softpick["permutation_floor"]) == (pytest.approx(0.1), pytest.approx(0.1))
    low, high = softpick["drawn_interval"]
    assert 0.4908 - 0.4850 < low < softpick["difference"] < high < 0.4933 - 0.4805  # between the extreme pairs
    assert softpick["drawn"] == {"decides": False, "resampled": ["seeds"], "enumerated": True, "outcomes": 100}
    assert found["hybrid"]["drawn_interval"] is None  # one run
    assert "drawn" not in run(*arguments)
    assert f"{low:+.3g} to {high:+.3g}" in run(*arguments, "--drawn")
    assert verdicts(*arguments, "--paired", "--sigma", "own")["softpick"]["drawn"]["resampled"] == ["pairs"]

    path = tmp_path / "nested.jsonl"
    rows = [
        {"arm": a, "search": q, "seed": s, "item": i, "x": (a == "new") * (i == 0) + (q or 0) / 50 + s / 100}
        for a, searches in (("base", (None,)), ("new", (1, 2)))
        for q in searches
        for s in range(3)
        for i in range(4)
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    nested = [str(path), "--baseline", "base", "--metric", "x"]
    new = verdicts(*nested)["new"]
    assert new["drawn"] == {
        "decides": False, "resampled": ["searches", "seeds", "items"], "enumerated": False, "outcomes": 2000,
    }  # fmt: skip
    assert new["drawn_interval"][0] < 0.1 < 0.6 < new["drawn_interval"][1]  # one item of four carries it
    assert verdicts(*nested)["new"]["drawn_interval"] == new["drawn_interval"]


def test_tasks_are_combined_with_their_dependence(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    lines = ["arm,seed,task,x"]
    noise = {"add": (0.00, 0.01, 0.03, 0.02), "copy": (0.00, 0.02, 0.03, 0.01), "sort": (0.01, 0.00, 0.03, 0.02)}
    for a, shift in (("base", 0.0), ("new", 0.01), ("lone", 0.01)):
        lines += [f"{a},{s},{t},{0.5 + shift + x}" for t, xs in noise.items() for s, x in enumerate(xs)]
    path.write_text("\n".join(line for line in lines if not (line.startswith("lone") and "sort" in line)))
    arguments = [str(path), "--baseline", "base", "--metric", "x"]
    document = json.loads(run(*arguments, "--json"))
    rows = {row["arm"]: row for row in document["combined"]}
    new, z = rows["new"], [v["statistic"] for v in document["verdicts"] if v["arm"] == "new"]
    assert new["tasks"] == ["add", "copy", "sort"]
    assert (new["correlation"], new["correlation_df"]) == (pytest.approx((0.8 + 0.8 + 0.4) / 3), 6)
    assert 0 < new["z_independent"] < sum(z) / 3**0.5  # the tails of t are heavier
    assert new["z"] == pytest.approx(new["z_independent"] * (3 / (3 + 6 * new["correlation"])) ** 0.5)
    assert new["p"] > new["p_independent"]
    assert new["decides"] is False
    assert new["independent_is"].startswith("anti-conservative")
    worse = json.loads(run(*arguments, "--lower-is-better", "--json"))["combined"]
    assert next(r["z"] for r in worse if r["arm"] == "new") == pytest.approx(-new["z"])
    text = run(*arguments)
    assert f"new, 3 tasks: Z = {new['z']:+.2f}" in text
    assert "mean correlation 0.67 (6 df)" in text
    assert (rows["lone"]["z"], rows["lone"]["z_independent"]) == (None, None)
    assert rows["lone"]["reason"].startswith("sort: ")
    rowwise = json.loads(run(*arguments, "--seed-column", "none", "--json"))["combined"]
    unlinked = next(r for r in rowwise if r["arm"] == "new")
    assert (unlinked["z"], unlinked["z_independent"]) == (None, pytest.approx(new["z_independent"]))
    assert unlinked["reason"].startswith("the table has no seeds")


def test_a_single_task_is_not_combined(table: str) -> None:
    assert json.loads(run(table, "--baseline", "baseline", "--json"))["combined"] == []
    assert "Stouffer" not in run(table, "--baseline", "baseline")
