"""A comparison on a terminal of eighty columns: whole words, and nothing lost that the words below do not hold."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from orchestrator.cli import compare_view
from orchestrator.cli.comparing import Loaded
from sweeps.analysis.comparison import compare
from sweeps.analysis.options import Options
from sweeps.analysis.results import Result


def shown(monkeypatch: pytest.MonkeyPatch, width: int, results: list[Result], groups: str = "task") -> str:
    sink = io.StringIO()
    monkeypatch.setattr(compare_view, "_console", lambda: Console(file=sink, width=width, highlight=False))
    found = compare(results, Options(baseline="gelu"))
    compare_view.show(found, Loaded("t.csv", "accuracy", None, tuple(results), groups=groups))
    return sink.getvalue()


def results(arms: tuple[str, ...], tasks: tuple[str, ...]) -> list[Result]:
    noise = (0.0, 0.013, -0.008, 0.021)
    return [
        Result(arm, task, seed, value=0.5 + 0.011 * n + 0.01 * t + (1 + 0.1 * n) * noise[(seed + n + t) % 4])
        for n, arm in enumerate(arms)
        for t, task in enumerate(tasks)
        for seed in range(4)
    ]


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_no_line_is_too_long_and_no_word_is_broken(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    text = shown(monkeypatch, width, results(("gelu", "random_spline", "relu"), ("addreversed", "parentheses")))
    assert max(map(len, text.splitlines())) <= width
    head = next(line for line in text.splitlines() if line.startswith("task"))
    assert head.split()[-1] == "verdict"
    rows = [line for line in text.splitlines() if line.startswith(("addreversed", "parentheses"))]
    assert len(rows) == 4
    assert all("undecided" in row or "better" in row for row in rows)
    assert ("interval, alone" in head) == (width >= 100)
    assert ("more would be needed)" in rows[0] or "more seeds would decide)" in rows[0]) == (width >= 200)


def test_a_column_that_says_nothing_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    head = next(
        line for line in shown(monkeypatch, 120, results(("gelu", "relu"), ("t",))).splitlines() if "verdict" in line
    )
    assert head.split()[0] == "arm"
    assert "scale" not in head


def test_levels_of_another_factor_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, 120, results(("gelu", "relu"), ("0.003", "0.01")), groups="lr")
    assert any(line.startswith("lr ") and "verdict" in line for line in text.splitlines())
    assert "relu on lr 0.003: " in text
    assert "noise floor of lr 0.01: " in text
