"""The transfer matrix: its arithmetic by hand, its gaps, and what it refuses."""

import json
import math
from dataclasses import asdict, replace

import numpy as np
import pytest
from scipy import stats

from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.results import Result
from sweeps.analysis.transfer import transfer_matrix

TASKS = ("copy", "mano")
CHANCE = {"copy": 0.1, "mano": 0.1}


def sweep(gain=0.3, seeds=3, searches=2, sd=0.02, search_sd=0.02, seed=0, tasks=TASKS):
    """Baseline, one control and an arm per task; each task's own arm gains."""
    rng = np.random.default_rng(seed)
    results = []
    for task in tasks:
        for arm in ("gelu", "relu"):
            results += [Result(arm, task, s, None, float(0.5 + sd * rng.standard_normal())) for s in range(seeds)]
        for arm in tasks:
            for search in range(searches):
                level = 0.5 + gain * (arm == task) + search_sd * rng.standard_normal()
                results += [
                    Result(arm, task, s, search, float(level + sd * rng.standard_normal())) for s in range(seeds)
                ]
    return results


def matrix(results, rows=(*TASKS, "relu"), **more):
    return transfer_matrix(results, baseline="gelu", columns=TASKS, rows=rows, chance=CHANCE, **more)


def test_a_balanced_cell_is_the_textbook_nested_t_test():
    results = sweep()
    cell = matrix(results).cell("copy", "mano")
    column = [r for r in results if r.task == "mano"]
    blocks = {(r.arm, r.search): [] for r in column}
    for r in column:
        blocks[r.arm, r.search].append(r.value)
    within = np.mean([np.var(v, ddof=1) for v in blocks.values()])
    between = np.mean(
        [3 * np.var([np.mean(blocks[arm, 0]), np.mean(blocks[arm, 1])], ddof=1) for arm in ("copy", "mano")]
    )
    between = max(between, within)
    variance = between / 6 + within / 3
    df = variance**2 / ((between / 6) ** 2 / 2 + (within / 3) ** 2 / 12)
    difference = np.mean(blocks["copy", 0] + blocks["copy", 1]) - np.mean(blocks["gelu", None])
    assert cell.value == pytest.approx(100 * difference)
    assert cell.df == pytest.approx(df)
    half = stats.t.isf(0.025, df) * math.sqrt(variance)
    assert (cell.low, cell.high) == pytest.approx((100 * (difference - half), 100 * (difference + half)))
    assert cell.p == pytest.approx(2 * stats.t.sf(abs(difference) / math.sqrt(variance), df))
    assert (cell.n, cell.n_baseline, cell.searches) == (6, 3, 2)


def test_a_plain_control_is_the_pooled_student_test():
    results = sweep()
    cell = matrix(results).cell("relu", "copy")
    column = [r for r in results if r.task == "copy"]
    groups = {}
    for r in column:
        groups.setdefault((r.arm, r.search), []).append(r.value)
    pooled = np.mean([np.var(v, ddof=1) for v in groups.values()])
    difference = np.mean(groups["relu", None]) - np.mean(groups["gelu", None])
    assert cell.p == pytest.approx(2 * stats.t.sf(abs(difference) / math.sqrt(pooled * 2 / 3), 12))
    assert cell.searches == 0


def test_holm_counts_every_cell_of_the_task_rows_run_or_not():
    results = [r for r in sweep() if not (r.arm == "mano" and r.task == "copy")]
    found = matrix(results)
    assert found.family == 4
    smallest = min(found.cells, key=lambda c: 1 if c.p is None else c.p)
    assert smallest.p_adjusted == pytest.approx(4 * smallest.p)
    assert found.cell("mano", "copy").reason == "not run"


def test_decided_exactly_where_holm_and_the_guard_are_below_alpha():
    found = [c for seed in range(20) for c in matrix(sweep(gain=0.08, seed=seed)).cells]
    assert {c.verdict for c in found} == {"better", "undecided"}
    for cell in found:
        assert (cell.p_guard is None) == (cell.p_adjusted >= 0.05)
        assert cell.decided == (cell.p_guard is not None and cell.p_guard < 0.05)
        assert cell.decided == (cell.family_low > 0 or cell.family_high < 0)


def test_one_lucky_search_is_not_decided():
    results = sweep(searches=1)
    cell = matrix(results).cell("copy", "copy")
    assert cell.value > 20
    assert not cell.decided
    assert "one search" in cell.reason


def test_a_baseline_that_swings_does_not_borrow_the_calm_of_its_column():
    results = [replace(r, value=0.9) if r.arm not in ("gelu", "relu") else r for r in sweep(sd=0.004, search_sd=0)]
    swinging = {0: 0.35, 1: 0.5, 2: 0.65}
    results = [replace(r, value=swinging[r.seed]) if r.arm == "gelu" else r for r in results]
    cell = matrix(results).cell("copy", "copy")
    assert cell.p_adjusted < 0.01  # the pooled sigma would decide
    assert cell.p_guard > 0.05
    assert not cell.decided
    assert "with its own noise p" in cell.words


def test_seeds_reused_over_searches_are_not_counted_as_fresh():
    results = sweep(seeds=4)
    shared = matrix(results).cell("copy", "copy")
    moved = [replace(r, seed=r.seed + 100) if r.arm == "gelu" else r for r in results]
    apart = matrix(moved).cell("copy", "copy")
    assert apart.value == pytest.approx(shared.value)
    assert apart.standard_error > shared.standard_error


def test_diverged_seeds_count_at_chance_with_survivors_in_a_footnote():
    results = sweep()
    index = next(i for i, r in enumerate(results) if r.arm == "relu" and r.task == "copy")
    results[index] = replace(results[index], value=None, reason="failed: nan at step 40", diverged=True)
    cell = matrix(results).cell("relu", "copy")
    kept = [r.value for r in results if r.arm == "relu" and r.task == "copy" and r.value is not None]
    base = np.mean([r.value for r in results if r.arm == "gelu" and r.task == "copy"])
    assert cell.value == pytest.approx(100 * ((sum(kept) + 0.1) / 3 - base))
    assert cell.survivors == pytest.approx(100 * (np.mean(kept) - base))
    assert (cell.n, cell.n_survivors, cell.diverged) == (3, 2, 1)
    assert "1 of 3 diverged" in cell.words


def test_a_diverged_run_without_a_chance_level_is_a_reason():
    results = [r if (r.arm, r.task) != ("relu", "copy") else replace(r, value=None, diverged=True) for r in sweep()]
    found = transfer_matrix(results, baseline="gelu", columns=TASKS, rows=("relu",))
    assert "no chance level" in found.cell("relu", "copy").reason
    assert found.cell("relu", "copy").value is None


@pytest.mark.parametrize("arm", ["copy", "gelu"])
def test_a_cell_with_a_run_missing_keeps_its_number_and_is_not_decided(arm):
    results = sweep()
    index = next(i for i, r in enumerate(results) if r.arm == arm and r.task == "copy")
    results[index] = replace(results[index], value=None, reason="running")
    cell = matrix(results).cell("copy", "copy")
    assert cell.value > 20
    assert not cell.decided
    assert "1 running" in cell.reason


def test_a_run_missing_in_silence_is_noticed():
    results = sweep()
    index = next(i for i, r in enumerate(results) if r.arm == "copy" and r.task == "copy")
    del results[index]
    assert "1 absent without a reason" in matrix(results).cell("copy", "copy").reason


def test_a_pair_that_was_never_planned_does_not_block_its_neighbours():
    results = sweep()
    extra = [replace(r, seed=7, value=None, reason="not planned: pilot only") for r in results[:1]]
    assert matrix(results + extra).cell("copy", "copy").decided


def test_every_cell_has_a_number_an_interval_and_a_count_or_a_reason():
    results = [r for r in sweep() if r.arm != "mano"]
    results[4] = replace(results[4], value=math.nan)
    found = matrix(results, rows=("gelu", *TASKS, "relu", "nothing"))
    assert len(found.cells) == 10
    for cell in found.cells:
        numbers = (cell.value, cell.low, cell.high)
        assert cell.reason or (all(math.isfinite(x) for x in numbers) and cell.n)
    json.dumps(asdict(found), allow_nan=False)


def test_a_baseline_that_cannot_decide_shows_no_interval_that_does():
    results = [r for r in sweep(sd=0.004, search_sd=0.004, searches=4) if r.arm != "gelu" or r.seed < 2]
    found = matrix(results)
    cell = found.cell("copy", "copy")
    assert cell.p_adjusted < 1e-6
    assert (cell.verdict, cell.basis, cell.interval) == ("undecided", "not tested", (cell.low, cell.high))
    assert cell.reason == "2 baseline seeds cannot show its noise; give it 3"
    for other in found.cells:
        assert not other.tested or other.family_low < 0 < other.family_high


def test_a_column_without_spread_has_no_interval():
    results = [replace(r, value=1.0) if r.task == "copy" else r for r in sweep()]
    found = matrix(results)
    assert found.cell("mano", "copy").value == 0
    assert "no spread" in found.cell("mano", "copy").reason
    assert found.column("copy").informative is False


def test_noise_floor_and_informative_columns():
    results = sweep(sd=0.02, search_sd=0.05, seeds=40, searches=30)
    found = matrix(results)
    column = found.column("copy")
    assert column.seed_sd == pytest.approx(2.0, rel=0.05)
    assert column.search_sd == pytest.approx(5.0, rel=0.35)
    assert (column.seed_df, column.search_df) == (62 * 39, 58)
    assert column.informative
    near = transfer_matrix(results, baseline="gelu", columns=TASKS, rows=TASKS, chance={"copy": 0.49, "mano": 0.1})
    assert near.column("copy").informative is False
    assert near.column("copy").why.endswith("near chance (0.490)")
    unknown = transfer_matrix(results, baseline="gelu", columns=TASKS, rows=TASKS)
    assert unknown.column("copy").informative is None


def test_family_wise_error_of_a_null_matrix_stays_below_alpha():
    false = sum(any(c.decided for c in matrix(sweep(gain=0, seed=s), rows=TASKS).cells) for s in range(400))
    assert false / 400 < 0.05 + 3 * math.sqrt(0.05 * 0.95 / 400)


def test_the_order_of_the_results_does_not_matter():
    results = sweep()
    assert matrix(results) == matrix(results[::-1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rs: [*rs, rs[0]], "duplicate results: 2 rows for arm 'gelu', task 'copy'"),
        (lambda rs: [replace(rs[0], value=55.0), *rs[1:]], r"value 55.0 lies outside \[0, 1\]"),
        (lambda rs: [replace(rs[0], scale="3b"), *rs[1:]], "mix the scales"),
        (lambda rs: [replace(rs[0], item="q1"), *rs[1:]], "single items"),
    ],
)
def test_refusals_name_place_value_and_fix(change, message):
    with pytest.raises(AnalysisError, match=message):
        matrix(change(sweep()))


def test_bad_arguments_are_refused():
    with pytest.raises(AnalysisError, match="rows name 'copy' twice"):
        matrix(sweep(), rows=("copy", "copy"))
    with pytest.raises(AnalysisError, match="alpha is 5"):
        matrix(sweep(), alpha=5)


def test_controls_are_a_family_of_their_own():
    found = matrix(sweep())
    controls = sorted(c.p for c in found.cells if c.row == "relu")
    assert found.family == 4
    assert min(c.p_adjusted for c in found.cells if c.row == "relu") == pytest.approx(min(1, 2 * controls[0]))
