"""Published means against the oracles of the audit: t, its p, and what Bonferroni over nineteen leaves."""

from __future__ import annotations

import pytest

from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.macro import MACRO, macro
from sweeps.analysis.options import Options
from sweeps.analysis.results import Result
from sweeps.analysis.summaries import Summary, compare_summaries, pooled_df

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
    (verdict,) = compare_summaries([of(z, n)], BASE, options, SIGMA, df, "the baseline's sd")
    assert verdict.statistic == pytest.approx(t, rel=1e-3)
    assert verdict.p == pytest.approx(p, rel=2e-3)
    assert verdict.p_adjusted == pytest.approx(adjusted, abs=5e-4)
    assert verdict.decided == (adjusted < 0.05)


def test_an_arm_without_a_mean_stays_in_the_family() -> None:
    arms = [of(4.47, 3), Summary("lost", 3, diverged=3), Summary("silent", 1, reason="inside the band; no value")]
    found = {v.arm: v for v in compare_summaries(arms, BASE, Options("baseline"), SIGMA, 6, "pooled")}
    assert found["lost"].verdict == "diverged"
    assert found["silent"].headline == "undecided (1 seed; inside the band; no value)"
    assert "3 contrasts" in found["z 4.47"].family
    assert pooled_df([BASE, *arms]) == 4


def test_a_summary_needs_noise_and_a_baseline() -> None:
    with pytest.raises(AnalysisError, match="sigma is 0"):
        compare_summaries([of(1, 1)], BASE, Options("baseline"), 0.0, 2, "none")
    with pytest.raises(AnalysisError, match="no published mean"):
        compare_summaries([of(1, 1)], Summary("baseline", 0), Options("baseline"), SIGMA, 2, "none")


def test_a_run_that_lacks_a_task_has_a_reason_and_no_mean() -> None:
    rows = [Result("a", task, seed, value=0.1 * seed) for task in ("x", "y") for seed in (1, 2)]
    rows.append(Result("a", "x", 3, value=0.9))
    rows.append(Result("a", "y", 3, reason="running"))
    means = {r.seed: r for r in macro(rows)}
    assert means[2].value == pytest.approx(0.2)
    assert (means[2].task, means[3].value) == (MACRO, None)
    assert means[3].reason == "1 of 2 tasks without a value (running)"
    assert macro(rows[:2]) == rows[:2]  # one task: as it is
