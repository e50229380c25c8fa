"""The audit's protocol and its published table (audits.md 3.1 to 3.3)."""

import math

import pytest

from sweeps.analysis import audit, student
from sweeps.analysis.errors import AnalysisError

PUBLISHED = [
    (4.47, 7.821960e-06, 1.486172e-04, 1.486068e-04),
    (3.19, 1.422728e-03, 2.703183e-02, 2.668848e-02),
    (2.51, 1.207312e-02, 2.293892e-01, 2.060900e-01),
    (2.15, 3.155521e-02, 5.995491e-01, 4.562210e-01),
    (2.00, 4.550026e-02, 8.645050e-01, 5.871993e-01),
    (1.23, 2.186971e-01, 1.0, 0.990805),
    (0.81, 4.179402e-01, 1.0, 0.999966),
    (-9.79, 1.242959e-22, 2.361622e-21, 0.0),
    (-29.47, 6.979592e-191, 1.326e-189, 0.0),
]


@pytest.mark.parametrize(("z", "p", "bonferroni", "sidak"), PUBLISHED)
def test_the_published_table(z, p, bonferroni, sidak):
    line = audit.line("arm", z)
    assert line.p == pytest.approx(p, rel=1e-6)
    assert line.p_bonferroni == pytest.approx(bonferroni, rel=1e-3 if z < -20 else 1e-6)
    assert line.p_sidak == pytest.approx(sidak, rel=1e-5, abs=1e-6)
    assert line.inside == (abs(z) <= 2)


def test_who_survives():
    assert {z for z, *_ in PUBLISHED if audit.line("arm", z).survives} == {4.47, 3.19, -9.79, -29.47}


def test_an_extreme_z_is_never_zero():
    line = audit.line("sigmoid attention", -77.70)
    assert line.p == 0.0  # a double cannot hold it ...
    assert math.isfinite(line.log_p)
    assert line.log_p == pytest.approx(
        -(77.70**2) / 2 - math.log(77.70) + math.log(2 / math.sqrt(2 * math.pi)), abs=1e-3
    )
    assert line.log_p_bonferroni == pytest.approx(line.log_p + math.log(19))
    assert line.survives


def test_family_wise_error_without_correction():
    assert audit.uncorrected_error() == pytest.approx(0.6226, abs=5e-5)


def test_whole_arms_are_graded_by_descending_z_with_the_t_beside():
    lines = audit.audit({"low": [0.40], "high": [0.55, 0.56, 0.57]}, [0.50, 0.51, 0.49], family=19)
    assert [a.arm for a in lines] == ["high", "low"]
    assert lines[0].z == pytest.approx(6.0)
    assert lines[0].t.statistic == pytest.approx(6.0 / math.sqrt(2 / 3))
    assert lines[1].t.standard_error == pytest.approx(0.01 * math.sqrt(4 / 3))
    assert lines[1].t.df == 2


def test_the_realised_error_of_the_rule():
    own = audit.realised_error()
    assert own["family_wise"] == pytest.approx(0.463, abs=0.005)
    assert own["false_survivors"] == pytest.approx(2.29, abs=0.05)
    assert own["improver"] == pytest.approx(0.325, abs=0.005)
    assert own["band"] == pytest.approx(0.730, abs=0.005)
    assert own["band_flags"] == pytest.approx(4.27, abs=0.05)
    pooled = audit.realised_error(sigma_df=6)
    assert pooled["family_wise"] == pytest.approx(0.318, abs=0.005)
    assert pooled["false_survivors"] == pytest.approx(0.77, abs=0.05)


@pytest.mark.parametrize(
    ("z", "n", "t", "dfs"),
    [
        (4.47, 3, 5.4746, {2: (0.03178, 0.604), 4: (0.005418, 0.103), 6: (0.001551, 0.0295)}),
        (3.19, 1, 2.7626, {2: (0.1098, 1.0), 4: (0.05071, 0.964), 6: (0.03274, 0.622)}),
        (2.51, 3, 3.0741, {2: (0.0915, 1.0), 4: (0.03714, 0.706), 6: (0.02183, 0.415)}),
        (2.15, 1, 1.8620, {2: (0.2037, None), 4: (0.1361, None), 6: (0.1119, None)}),
        (-9.79, 1, -8.4784, {2: (0.01363, 0.259), 4: (0.001061, 0.0202), 6: (1.472e-4, 0.0028)}),
        (-29.47, 1, -25.522, {2: (0.001532, 0.0291), 4: (1.400e-5, None), 6: (2.384e-7, None)}),
        (-77.70, 1, -67.290, {2: (2.208e-4, 0.0042), 4: (2.922e-7, None), 6: (7.246e-10, None)}),
    ],
)
def test_small_sample_inference_on_the_published_contrasts(z, n, t, dfs):
    found = z / math.sqrt(1 / n + 1 / 3)
    assert found == pytest.approx(t, abs=6e-4)
    for df, (p, adjusted) in dfs.items():
        assert student.two_sided_p(found, df) == pytest.approx(p, rel=1e-3)
        if adjusted is not None:
            assert min(1.0, 19 * student.two_sided_p(found, df)) == pytest.approx(adjusted, abs=6e-4, rel=2e-2)


@pytest.mark.parametrize(("df", "single", "three"), [(6, 5.692, 4.025), (4, 7.697, 5.443), (2, 22.46, 15.89)])
def test_critical_z_in_the_audits_units(df, single, three):
    limit = student.critical(0.05 / 19 / 2, df)
    assert limit * math.sqrt(4 / 3) == pytest.approx(single, abs=5e-3)
    assert limit * math.sqrt(2 / 3) == pytest.approx(three, abs=5e-3)


def test_refusals():
    with pytest.raises(AnalysisError, match="there is 1 baseline run"):
        audit.audit({"a": [1.0]}, [0.5])
    with pytest.raises(AnalysisError, match="sd is 0"):
        audit.audit({"a": [1.0]}, [0.5, 0.5])
