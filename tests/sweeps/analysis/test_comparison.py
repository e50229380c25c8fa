"""The engine: verdicts in words, families, pairing, looks, and what it refuses."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from sweeps.analysis.comparison import compare
from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.looks import Look
from sweeps.analysis.options import Options
from sweeps.analysis.results import Result
from sweeps.analysis.sentences import of_comparison

ARM = (0.4908, 0.4925, 0.4933)
BASE = (0.4805, 0.4832, 0.4850)


def runs(arm, values, task="climb", **more):
    return [Result(arm, task, seed, value=value, **more) for seed, value in enumerate(values)]


def table(arms=6, n=3, effect=0.0, sd=1.0, seed=0):
    rng = np.random.default_rng(seed)
    names = ["base", *(f"arm{i}" for i in range(arms))]
    return [r for name in names for r in runs(name, sd * rng.standard_normal(n) + effect * (name == "arm0"))]


def verdict(results, arm="arm", **options):
    (found,) = [v for v in compare(results, Options("base", **options)).verdicts if v.arm == arm]
    return found


FIXTURE = [*runs("base", BASE), *runs("arm", ARM)]


def test_own_sigma_is_welch():
    found = verdict(FIXTURE, sigma="own")
    assert (found.statistic, found.df, found.p) == pytest.approx((6.195413, 3.154408, 0.00729909), abs=1e-6)
    assert found.hedges_g == pytest.approx(4.046827, abs=1e-6)
    assert (found.permutation_p, found.permutation_floor) == (pytest.approx(0.1), pytest.approx(0.1))
    assert found.verdict == "better"


def test_pooled_sigma_is_student():
    found = verdict(FIXTURE, sigma="pooled")
    assert (found.df, found.p) == pytest.approx((4, 0.00345118), abs=1e-8)


def test_paired_is_the_paired_t():
    found = verdict(FIXTURE, sigma="own", paired=True)
    assert (found.statistic, found.df, found.p) == pytest.approx((16.108073, 2, 0.00383187), abs=1e-6)
    assert found.pair_correlation == pytest.approx(0.995956, abs=1e-6)
    assert (found.n, found.test) == (3, "paired")


def test_blocks_are_the_two_way_residual():
    results = table(arms=3, n=5, seed=3)
    found = verdict(results, "arm1", sigma="pooled", paired=True)
    y = np.array([[r.value for r in results if r.arm == a] for a in ("base", "arm0", "arm1", "arm2")])
    residual = y - y.mean(1, keepdims=True) - y.mean(0) + y.mean()
    mean_square = (residual**2).sum() / 12
    assert found.df == 12
    assert found.standard_error == pytest.approx(math.sqrt(2 * mean_square / 5))


def test_known_and_baseline_sigma():
    known = verdict([*runs("base", BASE), *runs("arm", [0.4896])], sigma="known:0.00208")
    assert known.statistic == pytest.approx((0.4896 - 0.4829) / (0.00208 * math.sqrt(4 / 3)))
    assert known.df == math.inf
    own = verdict(FIXTURE, sigma="baseline")
    assert own.df == 2
    assert own.sigma == pytest.approx(0.00226495, abs=1e-8)


def test_dunnett_is_scipys():
    results = table(arms=5, n=4, effect=2.5, seed=1)
    arms = {a: [r.value for r in results if r.arm == a] for a in {r.arm for r in results}}
    names = sorted(arms.keys() - {"base"})
    theirs = stats.dunnett(*[arms[n] for n in names], control=arms["base"], rng=np.random.default_rng(0))
    found = {v.arm: v for v in compare(results, Options("base", sigma="pooled")).verdicts}
    np.testing.assert_allclose([found[n].p_adjusted for n in names], theirs.pvalue, atol=3e-4)
    interval = theirs.confidence_interval(0.95)
    np.testing.assert_allclose([found[n].family_low for n in names], interval.low, atol=5e-3)
    np.testing.assert_allclose([found[n].family_high for n in names], interval.high, atol=5e-3)


@pytest.mark.parametrize("correction", ["dunnett", "bonferroni", "sidak", "holm"])
def test_a_simultaneous_interval_and_its_verdict_agree(correction):
    for seed in range(8):
        for v in compare(table(effect=4, seed=seed), Options("base", correction, sigma="pooled")).verdicts:
            assert (v.verdict != "undecided") == (v.family_low > 0 or v.family_high < 0)


def test_the_default_gives_each_side_the_larger_noise():
    calm = [*runs("base", (1.0, 1.1, 0.9)), *runs("noisy", (3.0, 6.0, 9.0)), *runs("other", (1.0, 1.2, 0.8))]
    noisy, other = verdict(calm, "noisy"), verdict(calm, "other")
    assert noisy.sigma == pytest.approx(3 / 0.886227, rel=1e-5)
    assert "own" in noisy.sigma_source
    assert other.sigma == pytest.approx(math.sqrt((9 + 0.04) / 2))
    assert "pooled over the arms" in other.sigma_source


def test_a_single_run_may_be_four_times_as_noisy():
    results = [*runs("base", (1.0, 1.1, 0.9)), *runs("one", [1.5]), *runs("other", (1.0, 1.2, 0.8))]
    single = verdict(results, "one")
    assert single.sigma == pytest.approx(4 * 0.2)
    assert single.verdict == "undecided"
    assert verdict(results, "one", sigma="pooled").sigma < 0.2


def test_two_baseline_seeds_decide_nothing():
    found = verdict([*runs("base", (0.0, 0.01)), *runs("arm", (9.0, 9.01, 9.02))])
    assert found.verdict == "undecided"
    assert "2 baseline seeds cannot show its noise" in found.headline
    assert found.p_adjusted is None


def test_searches_carry_their_variance():
    rng = np.random.default_rng(0)
    results = runs("base", rng.standard_normal(6))
    for arm, levels in (("a", (0.0, 9.0)), ("b", (1.0, -9.0))):
        for search, level in enumerate(levels):
            results += [Result(arm, "climb", s, search, level + float(rng.standard_normal())) for s in range(3)]
    found = verdict(results, "a")
    assert (found.searches, found.test, found.verdict) == (2, "nested", "undecided")
    assert found.df < 3
    assert "searches" in found.headline
    flat = [replace(r, search=None, seed=r.seed + 3 * (r.search or 0)) for r in results]
    assert verdict(flat, "a").p < found.p


def test_equivalence_needs_a_margin_and_a_test():
    rng = np.random.default_rng(5)
    results = [r for a in ("base", "same", "other") for r in runs(a, 0.001 * rng.standard_normal(8))]
    assert verdict(results, "same").verdict == "undecided"
    found = verdict(results, "same", margin=0.01)
    assert (found.verdict, found.headline) == ("equivalent", "equivalent within 0.01")
    assert found.p_equivalence < 0.05
    assert verdict(results, "same", margin=1e-5).verdict == "undecided"


def test_a_difference_can_be_real_and_small():
    rng = np.random.default_rng(6)
    results = [*runs("base", 0.001 * rng.standard_normal(8)), *runs("arm", 0.01 + 0.001 * rng.standard_normal(8))]
    found = verdict(results, margin=0.1)
    assert found.verdict == "better"
    assert "within the margin" in found.words


def test_a_verdict_names_test_n_df_sigma_and_family():
    words = verdict(FIXTURE).words
    for part in ("n = 3 v 3", "t = ", "df = ", "p = ", "Dunnett over 1 contrast", "sigma 0.00"):
        assert part in words


def test_undecided_says_how_many_more_would_decide():
    found = verdict([*runs("base", (0.0, 1.0, 2.0)), *runs("arm", (1.5, 2.5, 3.5))])
    assert found.headline == f"undecided (3 seeds; about {found.more} more seeds would decide)"
    assert 2 < found.more < 30
    hopeless = verdict([*runs("base", (0.0, 1.0, 2.0)), *runs("arm", (0.01, 1.01, 2.01))])
    assert "more than 200 more" in hopeless.headline


def test_lower_is_better_turns_the_words():
    assert verdict(FIXTURE, lower_is_better=True).verdict == "worse"


def test_improvers_and_degraders_are_two_families():
    results = table(arms=4, n=6, effect=2.5, seed=2)
    both, split = (verdict(results, "arm0", correction="holm", directional=d) for d in (False, True))
    assert split.p == both.p
    assert split.p_adjusted == pytest.approx(both.p_adjusted / 2)
    assert "one-sided Holm" in split.family
    assert verdict(results, "arm0", directional=True).p_adjusted < verdict(results, "arm0").p_adjusted


def test_several_tasks_are_one_family():
    results = [*FIXTURE, *(replace(r, task="other") for r in FIXTURE)]
    found = compare(results, Options("base", "bonferroni"))
    assert [v.p_adjusted / v.p for v in found.verdicts] == pytest.approx([2, 2])
    assert compare(results, Options("base")).verdicts[0].family == (
        "Dunnett in each of 2 groups, Bonferroni over groups, 2 contrasts"
    )
    assert len(found.floors) == 2


def test_a_published_family_may_be_larger_than_the_table():
    assert verdict(FIXTURE, correction="bonferroni", family=19).p_adjusted == pytest.approx(
        min(1, 19 * verdict(FIXTURE).p)
    )
    assert verdict(FIXTURE, family=19).p_adjusted > verdict(FIXTURE).p_adjusted


def test_a_missing_run_is_a_reason_and_makes_the_table_exploratory():
    results = [*FIXTURE, *runs("late", (0.6, 0.6, None), reason="running")]
    results = [replace(r, reason=None) if r.value is not None else r for r in results]
    found = compare(results, Options("base"))
    late = next(v for v in found.verdicts if v.arm == "late")
    assert (late.verdict, late.n) == ("undecided", 2)
    assert "1 running" in late.headline
    assert late.p_adjusted is None
    assert found.exploratory == "runs without a value: 1 running"
    sentences = of_comparison(found, "climb")
    assert sentences[0].startswith("Exploratory, and no verdict yet: against base, arm")
    assert "exploratory" in sentences[2]
    assert verdict(results, "arm").family == "Dunnett over 2 contrasts"  # it stays in the family


def test_a_lack_of_the_baselines_is_said_to_be_the_baselines():
    results = [*FIXTURE, Result("base", "climb", 3, value=float("nan")), Result("lost", "climb", 0, reason="failed")]
    found = {v.arm: v for v in compare(results, Options("base")).verdicts}
    assert found["arm"].reason == "runs of the baseline without a value: 1 non-finite value (nan)"
    assert found["lost"].n_baseline == 3  # it is the arm that has no run


def test_a_known_sigma_that_the_runs_contradict_is_said_to_be_one():
    assert "less than the runs show" in of_comparison(compare(FIXTURE, Options("base", sigma="known:1e-5")), "x")[2]
    assert "less than the runs" not in of_comparison(compare(FIXTURE, Options("base", sigma="known:0.002")), "x")[2]


def test_the_level_is_said_to_be_of_what_it_is():
    said = {c: of_comparison(compare(FIXTURE, Options("base", correction=c)), "x")[2] for c in ("bh", "holm")}
    assert "level 0.05 of false discoveries among all" in said["bh"]
    assert "false discoveries" not in said["holm"]
    directional = of_comparison(compare(FIXTURE, Options("base", directional=True)), "x")[2]
    assert "level 0.05 for improvers and as much again for degraders" in directional


def test_a_failed_run_is_no_early_look():
    results = [*FIXTURE, Result("gone", "climb", 0, reason="failed: out of memory")]
    found = compare(results, Options("base"))
    assert found.exploratory is None
    assert next(v for v in found.verdicts if v.arm == "gone").headline == "not run (1 failed: out of memory)"


def test_a_planned_look_spends_alpha():
    results = [*FIXTURE, Result("arm", "climb", 3, reason="running"), Result("base", "climb", 3, reason="running")]
    found = compare(results, Options("base", sigma="pooled", look=Look((0.5, 1.0), 1)))
    assert found.level == pytest.approx(0.00305, abs=1e-5)
    assert found.exploratory is None
    assert found.verdicts[0].verdict == "undecided"  # p = 0.0035 would do at 0.05


def test_a_look_excuses_no_run_that_ended_without_a_value():
    for reason in ("failed: out of memory", "non-finite value (nan)", "cancelled"):
        results = [*FIXTURE, Result("arm", "climb", 3, reason=reason)]
        found = compare(results, Options("base", sigma="pooled", look=Look((0.5, 1.0), 2)))
        assert found.verdicts[0].verdict == "undecided"
        assert reason in found.verdicts[0].headline


def test_an_arm_left_out_of_a_task_stays_in_the_family():
    other = [replace(r, task="other") for r in [*FIXTURE, *runs("best", BASE[::-1])]]
    found = compare([*FIXTURE, *runs("best", (0.6, 0.61, 0.62)), *other, *runs("extra", ARM[::-1])], Options("base"))
    extra = next(v for v in found.verdicts if (v.arm, v.task) == ("extra", "other"))
    assert extra.headline == "not run (1 no row in the table)"
    assert extra.family.endswith("6 contrasts")
    assert found.exploratory is None
    larger = [replace(r, scale=s) for s in ("small", "large") for r in FIXTURE]
    larger += [replace(r, scale="small") for r in runs("cheap", ARM[::-1])]
    assert len(compare(larger, Options("base")).verdicts) == 3  # no arm has to go to the larger scale


def test_a_seed_that_was_left_out_is_named():
    kept = table(arms=4)
    results = [r for r in kept if (r.arm, r.seed) != ("arm1", 1)]
    assert "no row for seed 1" in verdict(results, "arm1").words
    assert "no row" not in verdict(results, "arm2").words
    short = [r for r in kept if (r.arm, r.seed) != ("base", 2)]
    assert "no row of the baseline for seed 2" in verdict(short, "arm2").words
    own = [replace(r, seed=r.seed + 10 * (r.arm == "arm1")) for r in kept]
    assert "no row for seeds 0, 1, 2" in verdict(own, "arm1").words


def test_a_family_beyond_the_table_counts_in_every_group():
    results = [*FIXTURE, *(replace(r, task="other") for r in FIXTURE)]
    small, large = (compare(results, Options("base", sigma="pooled", family=n)).verdicts[0] for n in (2, 40))
    assert large.family.endswith("40 contrasts")
    assert large.p_adjusted > 5 * small.p_adjusted
    assert large.family_high > small.family_high


def test_what_a_diverged_run_scored_before_it_fell_does_not_stand_as_its_end():
    half = [*runs("half", (0.49, 0.48)), replace(runs("half", (0.3,))[0], seed=2, diverged=True)]
    found = verdict([*FIXTURE, *half], "half")
    assert (found.verdict, found.mean) == ("diverged", pytest.approx(0.485))
    assert "at 0.3 when it fell (no chance level to count it at)" in (found.reason or "")
    counted = verdict([*FIXTURE, *half], "half", chance={"climb": 0.31})
    assert "counted at chance" in counted.words
    assert "counted at chance" in verdict([*FIXTURE, *half], "half", chance={"climb": 0.25}).words


def test_diverged_runs():
    lost = [replace(r, value=None, diverged=True, reason="diverged (step 5800, alarm lead 1005 steps)") for r in
            runs("lost", (0.0, 0.0, 0.0))]  # fmt: skip
    found = verdict([*FIXTURE, *lost], "lost")
    assert found.verdict == "diverged"
    assert "3 of 3 seeds" in found.headline
    assert "step 5800, alarm lead 1005 steps" in found.headline
    half = [*runs("half", (0.49, 0.49)), replace(lost[0], arm="half", seed=2)]
    assert verdict([*FIXTURE, *half], "half").verdict == "diverged"  # never averaged away
    counted = verdict([*FIXTURE, *half], "half", chance={"climb": 0.25})
    assert counted.mean == pytest.approx((0.49 + 0.49 + 0.25) / 3)
    assert "1 of 3 seeds diverged" in counted.words


def test_a_non_finite_value_is_carried_as_a_reason():
    found = verdict([*FIXTURE, Result("bad", "climb", 0, value=math.nan)], "bad")
    assert (found.verdict, found.reason) == ("diverged", "1 non-finite value (nan)")


def test_three_sentences():
    first, second, third = of_comparison(compare(FIXTURE, Options("base", sigma="own")), "CLIMB")
    assert first == "Against base, arm (+0.0093) better."
    assert second == "Every contrast is decided."
    assert third.startswith("CLIMB, 3 runs an arm, t tests with sigma own, Dunnett over 1 contrast, level 0.05.")
    first, second, _ = of_comparison(compare(table(), Options("base")), "x")
    assert first == "None of 6 contrasts with base is decided better or worse."
    assert second == "6 undecided, which is no evidence of equality."


def test_the_order_of_rows_does_not_matter():
    results = table(effect=3)
    assert compare(results, Options("base")) == compare(results[::-1], Options("base"))


@pytest.mark.parametrize(
    ("results", "options", "message"),
    [
        (FIXTURE, {"baseline": "gelu"}, "baseline 'gelu' is no arm .* their arms are arm, base"),
        ([*FIXTURE, FIXTURE[0]], {}, "duplicate results: 2 rows for arm 'base'"),
        ([*FIXTURE, *runs("Arm ", ARM)], {}, "differ in case or spaces only"),
        ([*FIXTURE, *runs("twin", ARM)], {}, "equal values in all of their 3 runs"),
        ([replace(r, item="q") for r in FIXTURE], {}, "single items"),
        (FIXTURE, {"correction": "tukey"}, "correction 'tukey' is unknown; choose from none, bonferroni"),
        (FIXTURE, {"sigma": "mine"}, "sigma 'mine' is unknown; choose from auto, pooled"),
        (FIXTURE, {"sigma": "known:-1"}, "X must be a positive number"),
        (FIXTURE, {"sigma": "baseline", "paired": True}, "has no paired form"),
        (FIXTURE, {"alpha": 0}, "alpha is 0"),
        (FIXTURE, {"margin": -1.0}, "margin is -1.0"),
        (FIXTURE, {"margin": math.inf}, "margin is inf"),
        (runs("base", BASE), {}, "no arm besides the baseline 'base'"),
        (FIXTURE, {"noise_ratio": 0.5}, "noise ratio is 0.5"),
    ],
)
def test_refusals(results, options, message):
    with pytest.raises(AnalysisError, match=message):
        compare(results, Options(**{"baseline": "base", **options}))


def test_searched_arms_cannot_be_paired():
    nested = [replace(r, search=0) if r.arm == "arm" else r for r in FIXTURE]
    with pytest.raises(AnalysisError, match="nested in searches"):
        compare(nested, Options("base", paired=True))
