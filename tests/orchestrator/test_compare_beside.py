"""What `orchestrate compare` shows beside its verdicts: drawn intervals, permutations, arms over their tasks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Compare = Callable[..., str]
Verdicts = Callable[..., dict[str, Any]]


def test_what_is_drawn_decides_nothing(table: str, tmp_path: Path, compare: Compare, verdicts: Verdicts) -> None:
    arguments = [table, "--baseline", "baseline"]
    found = verdicts(*arguments)
    softpick = found["softpick"]
    assert (softpick["permutation_p"], softpick["permutation_floor"]) == (pytest.approx(0.1), pytest.approx(0.1))
    low, high = softpick["drawn_interval"]
    assert 0.4908 - 0.4850 < low < softpick["difference"] < high < 0.4933 - 0.4805  # between the extreme pairs
    assert softpick["drawn"] == {"decides": False, "resampled": ["seeds"], "enumerated": True, "outcomes": 100}
    assert found["hybrid"]["drawn_interval"] is None  # one run
    assert "drawn" not in compare(*arguments)
    assert f"{low:+.3g} to {high:+.3g}" in compare(*arguments, "--drawn")
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


def test_tasks_are_combined_with_their_dependence(tmp_path: Path, compare: Compare) -> None:
    path = tmp_path / "r.csv"
    lines = ["arm,seed,task,x"]
    noise = {"add": (0.00, 0.01, 0.03, 0.02), "copy": (0.00, 0.02, 0.03, 0.01), "sort": (0.01, 0.00, 0.03, 0.02)}
    for a, shift in (("base", 0.0), ("new", 0.01), ("lone", 0.01)):
        lines += [f"{a},{s},{t},{0.5 + shift + x}" for t, xs in noise.items() for s, x in enumerate(xs)]
    path.write_text("\n".join(line for line in lines if not (line.startswith("lone") and "sort" in line)))
    arguments = [str(path), "--baseline", "base", "--metric", "x"]
    document = json.loads(compare(*arguments, "--json"))
    rows = {row["arm"]: row for row in document["combined"]}
    new, z = rows["new"], [v["statistic"] for v in document["verdicts"] if v["arm"] == "new"]
    assert new["tasks"] == ["add", "copy", "sort"]
    assert (new["correlation"], new["correlation_df"]) == (pytest.approx((0.8 + 0.8 + 0.4) / 3), 6)
    assert 0 < new["z_independent"] < sum(z) / 3**0.5  # the tails of t are heavier
    assert new["z"] == pytest.approx(new["z_independent"] * (3 / (3 + 6 * new["correlation"])) ** 0.5)
    assert new["p"] > new["p_independent"]
    assert new["decides"] is False
    assert new["independent_is"].startswith("anti-conservative")
    worse = json.loads(compare(*arguments, "--lower-is-better", "--json"))["combined"]
    assert next(r["z"] for r in worse if r["arm"] == "new") == pytest.approx(-new["z"])
    text = compare(*arguments)
    assert f"new, 3 tasks: Z = {new['z']:+.2f}" in text
    assert "mean correlation 0.67 (6 df)" in text
    assert (rows["lone"]["z"], rows["lone"]["z_independent"]) == (None, None)
    assert rows["lone"]["reason"].startswith("sort: ")
    rowwise = json.loads(compare(*arguments, "--seed-column", "none", "--json"))["combined"]
    unlinked = next(r for r in rowwise if r["arm"] == "new")
    assert (unlinked["z"], unlinked["z_independent"]) == (None, pytest.approx(new["z_independent"]))
    assert unlinked["reason"].startswith("the table has no seeds")


def test_a_single_task_is_not_combined(table: str, compare: Compare) -> None:
    assert json.loads(compare(table, "--baseline", "baseline", "--json"))["combined"] == []
    assert "Stouffer" not in compare(table, "--baseline", "baseline")
