"""One arm, one name, one config."""

import pytest

from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.results import Result, checked, is_final, is_planned, without_value
from sweeps.analysis.soundness import check_configs, check_names


def test_equal_constant_values_are_no_evidence_of_one_arm():
    check_names([Result(a, "t", s, value=1.0) for a in ("a", "b") for s in range(3)])


def test_equal_values_on_other_seeds_are_other_runs():
    check_names([Result(a, "t", s + d, value=float(s)) for a, d in (("a", 0), ("b", 5)) for s in range(3)])


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
    assert not is_planned(Result("a", "t", 0, reason="not planned: excluded"))
    with pytest.raises(AnalysisError, match="scale '3b', item 'q'"):
        checked([Result("a", "t", 0, scale="3b", item="q")] * 2)
