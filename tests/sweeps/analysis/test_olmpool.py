"""The published OlmPool table reproduces the paper and our re-analysis (audits.md 7.3, 7.4)."""

import csv
from importlib import resources

import numpy as np
import pytest

from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.factorial import cell_means, fit, replicate_sd, single_factor_pairs

FACTORS = ("swa", "qk_norm", "norm", "fp8", "init", "kv_heads", "context")
TEXT = ("qk_norm", "norm", "init")
HARMS = {
    "SWA": lambda r: r["swa"] == 1,
    "GQA": lambda r: r["kv_heads"] < 32,
    "QK-norm": lambda r: r["qk_norm"] != "none",
    "4K context": lambda r: r["context"] == 4,
}
OTHERS = {"post-norm": lambda r: r["norm"] == "post", "fp8": lambda r: r["fp8"] == 1}


def published_rows():
    """Numbers as floats; a missing LongPPL is left out."""
    lines = resources.files("sweeps").joinpath("data/olmpool.csv").read_text().splitlines()
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    return [{k: v if k in TEXT else float(v) for k, v in row.items() if v != ""} for row in rows]


ROWS = published_rows()
SCORES = [r["helmet_32k"] for r in ROWS]
COUNTS = [sum(harms(r) for harms in HARMS.values()) for r in ROWS]


def test_the_table():
    assert len(ROWS) == 26
    assert (min(SCORES), max(SCORES)) == (29.9, 56.4)
    assert sum("long_ppl" not in r for r in ROWS) == 1
    assert {r["init"] for r in ROWS} == set("ABCDEFGHIJK")


def test_the_harmful_choice_count_explains_what_the_paper_says():
    found = fit({"harmful choices": COUNTS}, SCORES)
    assert found.r_squared == pytest.approx(0.67, abs=0.01)
    assert found.r_squared_left_out == pytest.approx(0.607, abs=1e-3)
    assert found.term("harmful choices").effect == pytest.approx(-5.70, abs=0.01)


def test_leave_one_out_by_leaving_one_out():
    x, y = np.array(COUNTS, dtype=float), np.array(SCORES)
    missed = []
    for i in range(26):
        kept = np.arange(26) != i
        missed.append(y[i] - np.polyval(np.polyfit(x[kept], y[kept], 1), x[i]))
    expected = 1 - np.sum(np.square(missed)) / np.sum((y - y.mean()) ** 2)
    assert fit({"harmful choices": COUNTS}, SCORES).r_squared_left_out == pytest.approx(expected)


def test_main_effects_and_the_interaction():
    factors = {name: [float(holds(r)) for r in ROWS] for name, holds in (HARMS | OTHERS).items()}
    found = fit(factors, SCORES, [("SWA", "GQA")])
    assert {t.name for t in found.terms} == {"SWA", "GQA", "QK-norm", "4K context", "post-norm", "fp8", "SWA x GQA"}
    assert (found.df, found.n) == (18, 26)
    together = found.term("SWA x GQA")
    assert together.effect < 0
    assert 1.5 < abs(together.t) < 2.5
    assert all(t.low < 0 < t.high for t in found.terms)  # no single term stands on 26 points


def test_cell_means_of_window_and_heads():
    swa = [r["swa"] for r in ROWS]
    gqa = [r["kv_heads"] < 32 for r in ROWS]
    cells = cell_means(swa, np.array(gqa, dtype=int), SCORES)
    assert {k: n for k, (_, n) in cells.items()} == {(0, 0): 4, (0, 1): 7, (1, 0): 7, (1, 1): 8}
    assert cells[1, 1][0] == pytest.approx(38.975)


@pytest.mark.parametrize(
    ("factor", "before", "after", "expected"),
    [
        ("swa", 0.0, 1.0, (-7.9, -7.6, -1.2)),
        ("qk_norm", "none", "layerwise", (-7.4, -1.0)),
        ("kv_heads", 4.0, 8.0, (3.3,)),
        ("context", 8.0, 4.0, (-2.2, -1.3)),
        ("fp8", 0.0, 1.0, (-0.8, 3.9)),
        ("norm", "pre", "post", (-2.9, 1.2)),
    ],
)
def test_clean_single_factor_pairs(factor, before, after, expected):
    pairs = [p for p in single_factor_pairs(ROWS, FACTORS, "helmet_32k") if p.factor == factor]
    changes = [p.change if (p.before, p.after) == (before, after) else -p.change for p in pairs]
    levels = [c for c, p in zip(changes, pairs, strict=True) if {p.before, p.after} == {before, after}]
    assert sorted(levels) == pytest.approx(sorted(expected), abs=1e-9)


def test_replicate_noise():
    pairs = [p for p in single_factor_pairs(ROWS, FACTORS, "helmet_32k") if p.factor == "init"]
    named = [p for p in pairs if (p.before, p.after) != ("H", "G")]
    sd, df = replicate_sd(named)
    assert (sd, df) == (pytest.approx(2.50, abs=5e-3), 4)
    assert replicate_sd(pairs) == (pytest.approx(2.43, abs=5e-3), 5)  # the H and G pair at 4K is a fifth
    with pytest.raises(AnalysisError, match="no two rows are replicates"):
        replicate_sd([])


def test_a_full_factorial_is_recovered():
    rng = np.random.default_rng(0)
    a, b = np.array([0, 0, 1, 1] * 20), np.array([0, 1] * 40)
    y = 10 + 2 * a - 3 * b + 4 * a * b + 0.01 * rng.standard_normal(80)
    found = fit({"a": a, "b": b}, y, [("a", "b")])
    assert [round(t.effect, 1) for t in found.terms] == [2.0, -3.0, 4.0]
    assert found.residual_sd == pytest.approx(0.01, rel=0.2)


def test_refusals():
    with pytest.raises(AnalysisError, match="2 rows cannot fit 2"):
        fit({"a": [0, 1]}, [1.0, 2.0])
    with pytest.raises(AnalysisError, match="cannot be told apart"):
        fit({"a": [0, 1, 0, 1], "b": [0, 1, 0, 1]}, [1.0, 2.0, 3.0, 4.0])
