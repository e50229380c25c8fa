"""One arm, one name, one config."""

import pytest

from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.results import Result, checked, is_final, is_planned, without_value
from sweeps.analysis.soundness import check_configs, check_names, repeated_values


def test_equal_constant_values_are_no_evidence_of_one_arm():
    check_names([Result(a, "t", s, value=1.0) for a in ("a", "b") for s in range(3)])


def test_equal_values_on_other_seeds_are_other_runs():
    check_names([Result(a, "t", s + d, value=float(s)) for a, d in (("a", 0), ("b", 5)) for s in range(3)])


def of_values(**arms):
    return [Result(a, "t", s, value=v) for a, values in arms.items() for s, v in enumerate(values)]


def test_arms_of_a_coarse_metric_may_agree_by_chance():
    check_names(of_values(a=(0.51, 0.52), b=(0.51, 0.52), c=(0.52, 0.51)))
    with pytest.raises(AnalysisError, match="'a' and 'b' have equal values in all of their 2 runs"):
        check_names(of_values(a=(0.5113, 0.5209), b=(0.5113, 0.5209), c=(0.5113, 0.5209), d=(0.52, 0.51)))


def test_copies_under_other_seeds_are_remarked():
    twice = of_values(a=(0.1, 0.2, 0.3, 0.1, 0.2, 0.3), b=(0.1, 0.2, 0.3, 0.4, 0.5, 0.6))
    assert repeated_values("a", twice) == "its 6 runs have 3 values, each several times: runs counted twice?"
    assert repeated_values("b", twice) is None
    moved = of_values(a=(0.1, 0.2, 0.3), b=(0.3, 0.1, 0.2))
    assert repeated_values("a", moved) == "its values are those of 'b' under other seeds: the same runs?"
    assert repeated_values("a", of_values(a=(0.1, 0.2, 0.2), b=(0.2, 0.1, 0.2))) is None  # two values: chance


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([("a", "x"), ("a", "y")], "arm 'a' mixes the configs 'x' and 'y'"),
        ([("a", "x"), ("b", "x")], "config 'x' stands under the arms 'a' and 'b'"),
    ],
)
def test_configs_are_one_to_one(pairs, message):
    check_configs([("c", "z"), ("c", "z")])
    with pytest.raises(AnalysisError, match=message):
        check_configs(pairs)


def test_reasons():
    results = checked([Result("a", "t", 0), Result("a", "t", 1, value=float("inf")), Result("a", "t", 2, value=1.0)])
    assert [r.reason for r in results] == ["no value and no reason recorded", "non-finite value (inf)", None]
    assert without_value(results) == "1 no value and no reason recorded, 1 non-finite value (inf)"
    assert [is_final(r) for r in results] == [False, True, False]
    assert [is_final(Result("a", "t", 0, reason=r)) for r in ("killed", "failed: oom", "running")] == [
        True,
        True,
        False,
    ]
    assert not is_planned(Result("a", "t", 0, reason="not planned: excluded"))
    with pytest.raises(AnalysisError, match="scale '3b', item 'q'"):
        checked([Result("a", "t", 0, scale="3b", item="q")] * 2)
