"""Pacing, time limits, a clean environment."""

from __future__ import annotations

import random
import sys
import time

import pytest

from cluster.backend import PermanentError, TemporaryError
from cluster.slurm.commands import Answer, Backoff, Bucket, Commands, clean_environment, run_command
from cluster.slurm.limits import Limits, Refused, limit_name, refused


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_6_01_traces_of_a_surrounding_job_are_scrubbed() -> None:
    dirty = {
        "PATH": "/bin", "SLURM_ARRAY_JOB_ID": "1", "SLURM_ARRAY_TASK_ID": "3", "SLURM_CPU_BIND": "mask",
        "SRUN_DEBUG": "1",
        "SLURM_MEM_PER_CPU": "1", "SLURM_MEM_PER_NODE": "2", "SBATCH_PARTITION": "x", "SQUEUE_FORMAT": "%i",
        "SLURM_CONF": "/etc/x", "SLURM_TIME_FORMAT": "relative", "SLURMD_NODENAME": "n",
    }  # fmt: skip
    assert clean_environment(dirty) == {"PATH": "/bin", "SLURM_CONF": "/etc/x"}


def test_four_looks_a_minute_in_the_long_run() -> None:
    clock = Clock()
    bucket = Bucket(4, 2, clock)
    taken = 0
    for _ in range(600):  # ten minutes, asked every second
        clock.now += 1
        taken += bucket.take()
    assert 40 <= taken <= 42
    assert bucket.wait_s() <= 15


def test_who_was_refused_has_his_turn_before_those_who_come_more_often() -> None:
    clock = Clock()
    bucket = Bucket(4, 2, clock)
    assert bucket.take("watch", 2)
    took: list[str] = []
    for _ in range(240):  # twenty minutes
        clock.now += 5
        for who, count in (("watch", 1), ("submit", 2)):
            if bucket.take(who, count):
                took.append(who)
    assert 24 <= took.count("submit") <= 27
    assert 24 <= took.count("watch") <= 28
    assert "submit submit" not in " ".join(took)


def test_a_turn_that_nobody_comes_for_lapses() -> None:
    clock = Clock()
    bucket = Bucket(4, 2, clock)
    assert bucket.take("watch", 2)
    assert not bucket.take("submit", 2)
    assert bucket.wait_s("submit", 2) == 30
    assert bucket.wait_s("watch") == 45
    clock.now += 40
    assert not bucket.take("watch")
    clock.now += 60
    assert bucket.take("watch")


def test_a_question_is_no_order_whatever_options_stand_before_it() -> None:
    """What was read of the queue in this pass stays good until we change the queue."""
    commands = Commands(run=lambda argv, timeout_s: Answer(0, "", ""))
    for question in (
        ("squeue", "-h"),
        ("scontrol", "show", "config"),
        ("scontrol", "-o", "show", "partition"),
        ("scontrol", "-o", "show", "reservation"),
    ):
        commands(*question)
    assert commands.orders_given == 0
    for order in (("scontrol", "release", "7_0"), ("sbatch", "--parsable", "x.sh"), ("scancel", "7_0")):
        commands(*order)
    assert commands.orders_given == 3


def test_backoff_grows_with_jitter_and_is_reset() -> None:
    clock = Clock()
    backoff = Backoff(10, 300, clock, random.Random(1))
    pauses = [backoff.failed() for _ in range(8)]
    assert pauses[1] > pauses[0]
    assert all(0.75 * 300 <= pause <= 1.25 * 300 for pause in pauses[6:])
    assert backoff.resting
    backoff.succeeded()
    assert not backoff.resting
    assert backoff.failed() <= 12.5


def test_a_command_that_hangs_is_ended_with_its_children() -> None:
    began = time.monotonic()
    answer = run_command(["sh", "-c", "echo partial; sleep 30 & wait"], 0.3)
    assert time.monotonic() - began < 5
    assert answer.code is None
    assert answer.out == "partial\n"
    assert answer.trouble == "no answer in time"


def test_a_missing_command_says_that_this_is_no_slurm_machine() -> None:
    with pytest.raises(PermanentError, match="not on PATH"):
        run_command(["sbatch-that-is-not-there"], 1)


def test_bytes_that_are_no_text_do_not_hurt() -> None:
    code = "import sys; sys.stdout.buffer.write(bytes([255, 10]))"
    assert run_command([sys.executable, "-c", code], 10).out == "�\n"


def test_orders_are_paced() -> None:
    clock = Clock()
    commands = Commands(orders_per_minute=2, clock=clock, run=lambda argv, limit: Answer(0, "", ""))
    commands.order("scancel", "1")
    commands.order("scancel", "2")
    with pytest.raises(TemporaryError) as caught:
        commands.order("scancel", "3")
    assert 1 <= caught.value.delay <= 30
    assert commands.calls == {"scancel": 2}


@pytest.mark.parametrize(
    ("text", "code", "kind"),
    [
        ("sbatch: error: Batch job submission failed: Socket timed out on send/recv operation", 1, Refused.UNCLEAR),
        ("..failed: Unable to contact slurm controller (connect failure)", 1, Refused.UNCLEAR),
        ("", None, Refused.UNCLEAR),
        ("sbatch: error: QOSMaxSubmitJobPerUserLimit\n..failed: Job violates accounting/QOS policy", 1, Refused.LIMIT),
        ("sbatch: error: AssocMaxSubmitJobLimit", 1, Refused.LIMIT),
        ("..failed: Resource temporarily unavailable", 1, Refused.LIMIT),
        ("..failed: Invalid partition name specified", 1, Refused.NEVER),
        ("..failed: Requested node configuration is not available", 1, Refused.NEVER),
    ],
)
def test_refusals_are_told_apart(text: str, code: int | None, kind: Refused) -> None:
    assert refused(Answer(code, "", text)) is kind


def test_limits_are_read_learned_and_forgotten() -> None:
    clock = Clock()
    answers = {
        "scontrol": Answer(0, "MaxArraySize = 100\nAccountingStorageType = accounting_storage/slurmdbd\n", ""),
        "sacctmgr": Answer(0, "500|\n|\n", ""),
    }
    limits = Limits(Commands(clock=clock, run=lambda argv, limit: answers[argv[0]]), clock=clock)
    assert limits.array_size == 100
    assert limits.ceiling() == 500
    limits.learn(50, "QOSMaxSubmitJobPerUserLimit")
    assert (limits.ceiling(), limits.throttled) == (50, "QOSMaxSubmitJobPerUserLimit")
    clock.now += 601
    assert (limits.ceiling(), limits.throttled) == (500, "")
    assert limit_name(Answer(1, "", "sbatch: error: AssocMaxSubmitJobLimit\nmore")) == "AssocMaxSubmitJobLimit"


def test_never_more_than_8000_records() -> None:
    clock = Clock()
    limits = Limits(Commands(clock=clock, run=lambda argv, limit: Answer(1, "", "")), clock=clock)
    assert limits.ceiling() == 8000
