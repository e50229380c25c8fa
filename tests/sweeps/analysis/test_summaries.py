"""Published means against the oracles of the audit: t, its p, and what Bonferroni over nineteen leaves."""

from __future__ import annotations

import numpy as np
import pytest

from sweeps.analysis.comparison import compare
from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.macro import MACRO, macro
from sweeps.analysis.options import Options
from sweeps.analysis.results import Result, is_final
from sweeps.analysis.summaries import Summary, compare_summaries, plain_summaries, pooled_df

SIGMA = 0.00208
BASE = Summary("baseline", 3, 0.4829, SIGMA)


def of(z: float, n: int) -> Summary:
    return Summary(f"z {z}", n, 0.4829 + z * SIGMA)


@pytest.mark.parametrize(
    ("z", "n", "df", "t", "p", "adjusted"),
    [
        (4.47, 3, 2, 5.4746, 0.03178, 0.604),
        (4.47, 3, 6, 5.4746, 0.001551, 0.0295),
        (3.19, 1, 2, 2.7626, 0.1098, 1.0),
        (3.19, 1, 6, 2.7626, 0.03274, 0.622),
        (-9.79, 1, 2, -8.4784, 0.01363, 0.259),
        (-29.47, 1, 2, -25.522, 0.001532, 0.0291),
        (-77.70, 1, 2, -67.290, 2.208e-4, 0.0042),
    ],
)
def test_the_published_contrasts(z: float, n: int, df: float, t: float, p: float, adjusted: float) -> None:
    options = Options("baseline", correction="bonferroni", family=19)
    (verdict,) = plain_summaries([of(z, n)], BASE, options, SIGMA, df, "the baseline's sd")
    assert verdict.statistic == pytest.approx(t, rel=1e-3)
    assert verdict.p == pytest.approx(p, rel=2e-3)
    assert verdict.p_adjusted == pytest.approx(adjusted, abs=5e-4)
    assert verdict.decided == (adjusted < 0.05)


def test_an_arm_without_a_mean_stays_in_the_family() -> None:
    arms = [of(4.47, 3), Summary("lost", 3, diverged=3), Summary("silent", 1, reason="inside the band; no value")]
    found = {v.arm: v for v in compare_summaries(arms, BASE, Options("baseline"))}
    assert found["lost"].verdict == "diverged"
    assert found["silent"].headline == "undecided (1 seed; inside the band; no value)"
    assert "3 contrasts" in found["z 4.47"].family
    assert pooled_df([BASE, *arms]) == 4


def test_a_summary_needs_noise_and_a_baseline() -> None:
    with pytest.raises(AnalysisError, match="sigma is 0"):
        plain_summaries([of(1, 1)], BASE, Options("baseline"), 0.0, 2, "none")
    with pytest.raises(AnalysisError, match="needs a published sd"):
        compare_summaries([of(1, 1)], Summary("baseline", 3, 0.48), Options("baseline"))
    with pytest.raises(AnalysisError, match="no published mean"):
        compare_summaries([of(1, 1)], Summary("baseline", 0), Options("baseline"))
    with pytest.raises(AnalysisError, match="give how many runs"):
        compare_summaries([of(1, 0)], BASE, Options("baseline"))


RUNS = {
    "baseline": [0.480, 0.484, 0.485, 0.487],
    "calm": [0.500, 0.501, 0.5015],
    "wild": [0.40, 0.47, 0.61],
    "single": [0.55],
}


@pytest.mark.parametrize("sigma", ["auto", "pooled", "own", "baseline", "known:0.003"])
def test_means_are_judged_as_their_runs_are(sigma: str) -> None:
    """Every sigma rule gives the same p from n, mean and sd as `compare` gives from the runs."""
    runs = [Result(arm, "all", seed, value=v) for arm, values in RUNS.items() for seed, v in enumerate(values)]
    sds = {arm: float(np.std(values, ddof=1)) if len(values) > 1 else None for arm, values in RUNS.items()}
    means = {arm: Summary(arm, len(v), float(np.mean(v)), sds[arm]) for arm, v in RUNS.items()}
    options = Options("baseline", sigma=sigma)
    by_runs = {v.arm: v for v in compare(runs, options).verdicts}
    by_means = compare_summaries([means[a] for a in ("calm", "wild", "single")], means["baseline"], options)
    for v in by_means:
        other = by_runs[v.arm]
        assert (v.verdict, v.p, v.p_adjusted, v.df) == (
            other.verdict,
            pytest.approx(other.p),
            pytest.approx(other.p_adjusted),
            pytest.approx(other.df),
        )
    assert all(v.p is not None for v in by_means) or sigma == "own"


@pytest.mark.parametrize("n", [1, 3])
def test_an_arm_whose_noise_is_not_known_may_be_noisier(n: int) -> None:
    """Three times the baseline's, and no effect: the rule keeps 0.05, the plain t does not come near."""
    rng, tables, options = np.random.default_rng(5), 1000, Options("baseline")
    calls = plain = 0
    for base, arm in zip(rng.standard_normal((tables, 3)), 3 * rng.standard_normal(tables) / np.sqrt(n), strict=True):
        s = float(base.std(ddof=1))
        baseline, mean = Summary("baseline", 3, float(base.mean()), s), Summary("arm", n, float(arm))
        calls += compare_summaries([mean], baseline, options)[0].decided
        plain += plain_summaries([mean], baseline, options, s, 2, "the baseline's sd")[0].decided
    assert calls / tables < 0.055  # 0.040 by its law; a standard error of the draws is 0.006
    assert plain / tables > 0.15


def test_two_baseline_runs_decide_nothing() -> None:
    (verdict,) = compare_summaries([of(80, 1)], Summary("baseline", 2, 0.4829, SIGMA), Options("baseline"))
    assert verdict.headline == "undecided (1 seed; 2 baseline seeds cannot show its noise; give it 3)"


def test_a_run_that_lacks_a_task_has_a_reason_and_no_mean() -> None:
    rows = [Result("a", task, seed, value=0.1 * seed) for task in ("x", "y") for seed in (1, 2)]
    rows.append(Result("a", "x", 3, value=0.9))
    rows.append(Result("a", "y", 3, reason="running"))
    rows += [Result("a", "x", 4, reason="running"), Result("a", "y", 4, reason="failed: oom")]
    means = {r.seed: r for r in macro(rows)}
    assert means[2].value == pytest.approx(0.2)
    assert (means[2].task, means[3].value) == (MACRO, None)
    assert means[3].reason == "running, on 1 of 2 tasks"
    assert [is_final(means[seed]) for seed in (3, 4)] == [False, True]  # no look waits for a run that has failed
    assert macro(rows[:2]) == rows[:2]  # one task: as it is
