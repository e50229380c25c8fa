"""What a claim lacks, by its table."""

import pytest

from sweeps.analysis.checklist import checklist
from sweeps.analysis.direction import reads_as_loss, reads_as_lower
from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.options import Options
from sweeps.analysis.results import Result


def grades(results, metric="accuracy", **options):
    return {i.code: i for i in checklist(results, metric, Options("base", **options))}


def runs(arm, n, task="t", scale=None):
    return [Result(arm, task, s, value=float(s), scale=scale) for s in range(n)]


def test_a_claim_of_single_runs_lacks_nearly_everything():
    found = grades([*runs("base", 1), *runs("a", 1)], "validation loss", correction="none")
    lacking = [code for code, item in found.items() if item.state == "lacking"]
    assert lacking == ["R2", "R4", "R5", "R6", "R7", "R9", "R10"]
    assert found["R4"].why == "one seed or none of a, base"
    assert found["R6"].why == "validation loss is a loss, not a downstream metric"


def test_a_full_study_meets_what_a_table_can_show():
    results = [r for scale in ("1.2B", "3B") for t in "xyz" for a in ("base", "a") for r in runs(a, 3, t, scale)]
    found = grades(results, margin=0.1)
    assert [code for code, item in found.items() if item.state == "met"] == ["R2", "R4", "R5", "R6", "R7", "R9", "R10"]
    assert {code for code, item in found.items() if item.state == "unknown"} == {"R1", "R3", "R8", "R11", "R12"}
    assert "seed sd are missed" in found["R9"].why


def test_a_single_seed_of_the_baseline_is_no_trial_and_a_default_no_declaration():
    results = [*runs("base", 1), *runs("a", 3)]
    found = {i.code: i for i in checklist(results, "accuracy", Options("base"), declared=False)}
    assert (found["R4"].state, found["R4"].why) == ("lacking", "one seed or none of base")
    assert found["R9"].state == "unknown"
    with pytest.raises(AnalysisError, match="baseline 'base' is no arm of these results; their arms are a"):
        grades(runs("a", 3))


@pytest.mark.parametrize(
    ("metric", "loss", "lower"),
    [("val/loss@T", True, True), ("test_error", False, True), ("accuracy", False, False), ("lossless", False, False)],
)
def test_the_direction_of_a_name(metric, loss, lower):
    assert (reads_as_loss(metric), reads_as_lower(metric)) == (loss, lower)


def test_a_divergence_asks_for_a_rescue_arm():
    lost = [Result("a", "t", 0, reason="diverged", diverged=True)]
    assert grades([*runs("base", 3), *lost])["R12"].state == "lacking"
