"""Every state word of Slurm's manual has a meaning; an unknown one keeps the run alive."""

from __future__ import annotations

import pytest

from cluster.backend import JobState
from cluster.slurm.states import STATES, cancelled_by, look_up, waiting
from jobs.failures import CAUSES

MANUAL = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "CONFIGURING", "COMPLETING", "DEADLINE", "FAILED", "NODE_FAIL",
    "OUT_OF_MEMORY", "PENDING", "PREEMPTED", "RUNNING", "RESV_DEL_HOLD", "REQUEUE_FED", "REQUEUE_HOLD",
    "REQUEUED", "RESIZING", "REVOKED", "SIGNALING", "SPECIAL_EXIT", "STAGE_OUT", "STOPPED", "SUSPENDED",
    "TIMEOUT", "LAUNCH_FAILED", "POWER_UP_NODE", "RECONFIG_FAIL", "EXPEDITING", "UPDATE_DB",
}  # fmt: skip
OVER = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED",
    "TIMEOUT", "LAUNCH_FAILED", "RECONFIG_FAIL",
}  # fmt: skip


@pytest.mark.parametrize("word", sorted(MANUAL))
def test_2_12_every_word_of_the_manual_is_in_the_table(word: str) -> None:
    state, cause = look_up(word)
    assert state is not JobState.UNKNOWN
    assert (state is JobState.ENDED) == (word in OVER)
    if state is JobState.ENDED:
        assert cause == "exit" or cause in CAUSES  # every cause has a failure class
    else:
        assert cause is None


def test_no_word_is_in_the_table_that_is_not_in_the_manual() -> None:
    assert set(STATES) == MANUAL


@pytest.mark.parametrize("word", ["FROBNICATING", "", "NODE_FAILED", "completed?"])
def test_2_07_an_unknown_word_is_unknown(word: str) -> None:
    assert look_up(word) == (JobState.UNKNOWN, None)


def test_words_as_the_commands_print_them() -> None:
    assert look_up("CANCELLED by 1001") == (JobState.ENDED, "cancelled")
    assert look_up("CANCELLED+") == (JobState.ENDED, "cancelled")
    assert cancelled_by("CANCELLED by 1001") == 1001
    assert cancelled_by("CANCELLED") is None


@pytest.mark.parametrize(
    ("reason", "never", "release"),
    [
        ("launch failed requeued held", False, True),
        ("launch_failed_requeued_held", False, True),
        ("DependencyNeverSatisfied", True, False),
        ("PartitionConfig", True, False),
        ("JobArrayTaskLimit,JobHeldAdmin", False, False),
        ("JobHeldUser", False, False),
        ("ReqNodeNotAvail, UnavailableNodes:node003", False, False),
        ("QOSMaxJobsPerUserLimit", False, False),
        ("BeginTime", False, False),
        ("SomethingNew", False, False),
    ],
)
def test_reasons(reason: str, never: bool, release: bool) -> None:
    found = waiting(reason)
    assert (found.never, found.release) == (never, release)
    assert found.words
