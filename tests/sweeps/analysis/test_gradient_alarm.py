"""The alarm on the published SSMax trace, made exactly as described (audits.md section 4)."""

import math

import numpy as np
import pytest

from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.gradient_alarm import Thresholds, scan, score

RATE = math.log(1578 / 27) / 1600
WARM_UP = 1000


def ssmax():
    """27 until step 4000, then exponential to 1578 at 5600, NaN at 5800."""
    steps = np.arange(5801)
    trace = 27 * np.exp(RATE * np.maximum(0, steps - 4000))
    trace[5800] = np.nan
    return trace


def test_the_published_pair_is_a_growth_rate():
    assert pytest.approx(0.00254255, abs=1e-8) == RATE
    assert math.log(2) / RATE == pytest.approx(272.6, abs=0.05)
    trace = ssmax()
    four, ten = int(np.argmax(trace >= 4 * 27)), int(np.argmax(trace >= 10 * 27))
    assert (four, ten) == (pytest.approx(4545, abs=1), pytest.approx(4906, abs=1))
    assert (5800 - four, 5800 - ten) == (pytest.approx(1255, abs=1), pytest.approx(894, abs=1))


def test_the_alarm_fires_a_thousand_steps_before_the_nan():
    alarm = scan(ssmax(), warm_up=WARM_UP)
    assert alarm.reference == pytest.approx(27)
    assert alarm.warn_level == pytest.approx(4800, abs=10)
    assert alarm.nonfinite == 5800
    assert alarm.nonfinite - alarm.warn_level == pytest.approx(1000, abs=10)
    assert alarm.warn == alarm.warn_trend < alarm.warn_level
    assert alarm.lead >= 1000
    assert alarm.halt == (pytest.approx(4906 + 50 + 100, abs=10), "gradient norm")
    assert alarm.words == f"diverged (step 5800, alarm lead {alarm.lead} steps)"


def test_a_calm_noisy_run_raises_nothing():
    rng = np.random.default_rng(0)
    alarms = [scan(np.exp(0.5 * rng.standard_normal(6000)), warm_up=WARM_UP) for _ in range(5)]
    assert [a.warn for a in alarms] == [None] * 5
    assert [a.halt for a in alarms] == [None] * 5
    found = score([*alarms, scan(ssmax(), warm_up=WARM_UP)])
    assert (found.diverged, found.warned, found.completed, found.false_alarms) == (1, 1, 5, 0)
    assert found.leads[0] >= 1000


def test_a_slow_drift_is_no_trend():
    slow = np.exp(np.arange(8000) * math.log(2) / 4000)
    assert scan(slow, warm_up=WARM_UP).warn_trend is None
    assert scan(np.exp(np.arange(8000) * math.log(2) / 1500), warm_up=WARM_UP).warn_trend is not None


def test_a_single_spike_is_no_warning():
    trace = np.full(6000, 10.0)
    trace[4000:4040] = 1e4
    alarm = scan(trace, warm_up=WARM_UP)
    assert (alarm.warn, alarm.halt) == (None, None)
    assert alarm.words == "completed"


def test_a_loss_that_climbs_halts():
    loss = np.full(4000, 3.0)
    loss[2000:] = 3.6
    alarm = scan(np.ones(4000), warm_up=WARM_UP, losses=loss)
    assert alarm.halt == (2199, "loss")


def test_a_nan_loss_is_a_divergence_without_an_alarm():
    loss = np.full(3000, 3.0)
    loss[2900] = np.nan
    alarm = scan(np.ones(3000), warm_up=WARM_UP, losses=loss)
    assert alarm.halt == (2900, "non-finite")
    assert alarm.words == "diverged (step 2900, no alarm)"


def test_a_run_that_ends_before_it_settles_has_no_reference():
    alarm = scan(np.ones(1200), warm_up=WARM_UP)
    assert (alarm.reference, alarm.warn) == (None, None)


def test_thresholds_can_be_tuned():
    alarm = scan(ssmax(), warm_up=WARM_UP, thresholds=Thresholds(warn_ratio=2.0))
    assert alarm.warn_level < 4800


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([],), "trace of gradient norms is empty"),
        (([1.0, -1.0],), "gradient norm -1.0 at step 1"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(AnalysisError, match=message):
        scan(*arguments, warm_up=0)
    with pytest.raises(AnalysisError, match="1 losses do not match 2"):
        scan([1.0, 1.0], warm_up=0, losses=[1.0])
