"""Items are averaged per run, or the runs refused."""

import math

import numpy as np
import pytest

from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.items import item_error, per_run
from sweeps.analysis.results import Result


def answers(arm, seed, values):
    return [Result(arm, "qa", seed, value=float(v), item=f"q{i}") for i, v in enumerate(values)]


def test_a_run_is_the_mean_of_its_items():
    runs = per_run([*answers("a", 0, (1, 0, 1, 1)), *answers("a", 1, (0, 0, 0, 1)), Result("b", "qa", 0, value=0.5)])
    assert [(r.arm, r.seed, r.value, r.item) for r in runs] == [
        ("a", 0, 0.75, None),
        ("a", 1, 0.25, None),
        ("b", 0, 0.5, None),
    ]


def test_a_missing_item_takes_the_run():
    rows = answers("a", 0, (1, 0))
    (run,) = per_run([rows[0], Result("a", "qa", 0, reason="timed out", item="q1")])
    assert (run.value, run.reason) == (None, "timed out, item q1")


def test_runs_on_different_items_are_refused():
    with pytest.raises(AnalysisError, match="item 'q1' is not in every run"):
        per_run([*answers("a", 0, (1, 0)), *answers("a", 1, (1,))])


def test_the_error_of_drawing_items_is_paired():
    rng = np.random.default_rng(0)
    easy = rng.integers(0, 2, 400)
    flips = easy.copy()
    flips[:40] = 1 - flips[:40]
    table = [*answers("a", 0, flips), *answers("base", 0, easy)]
    assert item_error(table, "a", "base", "qa") == pytest.approx(math.sqrt(np.var(flips - easy, ddof=1) / 400))
    assert item_error(table[:400], "a", "base", "qa") is None
