"""Evidence in, class out."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import JobError
from jobs.facts import ExitCode, FailureClass
from jobs.failures import CAUSES, Evidence, classify_exception, is_silent, judge, match_log, one_line

F = FailureClass

TABLE = [
    # The scheduler's word decides.
    (Evidence(cause="preempted", word="PREEMPTED"), F.PREEMPTED),
    (Evidence(cause="timeout", checkpointed=True), F.TIME_LIMIT),
    (Evidence(cause="timeout"), F.TIME_LIMIT_NO_CHECKPOINT),
    (Evidence(cause="node_failure", log_tail="CUDA out of memory"), F.NODE_FAILURE),
    (Evidence(cause="boot_failure", claimed=False), F.BOOT_FAILURE),
    (Evidence(cause="prolog_failed", claimed=False), F.PROLOG_FAILED),
    (Evidence(cause="launch_failed", claimed=False), F.LAUNCH_FAILED),
    (Evidence(cause="out_of_memory", signal=9), F.OUT_OF_MEMORY),
    (Evidence(cause="deadline"), F.DEADLINE),
    (Evidence(cause="cancelled", exit_code=0), F.CANCELLED),
    (Evidence(cause="cancelled", claimed=False), F.LAUNCH_FAILED),
    # "exit" and "signal" say nothing by themselves; the worker's own codes do.
    (Evidence(cause="exit", exit_code=ExitCode.CHECKPOINTED), F.PREEMPTED),
    (Evidence(cause="exit", exit_code=ExitCode.DIVERGED), F.DIVERGED),
    (Evidence(exit_code=ExitCode.GPU_OUT_OF_MEMORY), F.GPU_OUT_OF_MEMORY),
    (Evidence(exit_code=ExitCode.CONFIG), F.USER_ERROR),
    (Evidence(exit_code=ExitCode.PORT_CLASH), F.PORT_CLASH),
    (Evidence(exit_code=ExitCode.HANG), F.HANG),
    (Evidence(exit_code=ExitCode.DISK, log_tail="MemoryError"), F.DISK),
    # Then the log.
    (Evidence(exit_code=1, log_tail="torch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB\n"), F.GPU_OUT_OF_MEMORY),
    (Evidence(exit_code=1, log_tail="OSError: [Errno 28] No space left on device\n"), F.DISK),
    (Evidence(exit_code=1, log_tail="OSError: [Errno 122] Disk quota exceeded: 'x'\n"), F.DISK),
    (Evidence(exit_code=1, log_tail="RuntimeError: [c10d] EADDRINUSE, address already in use\n"), F.PORT_CLASH),
    (Evidence(exit_code=1, log_tail="MemoryError\n"), F.OUT_OF_MEMORY),
    (Evidence(signal=9, log_tail="slurmstepd: error: Detected 1 oom-kill event(s) in step 7.0\n"), F.OUT_OF_MEMORY),
    (Evidence(exit_code=137, log_tail="Out of memory: Killed process 71 (python)\n"), F.OUT_OF_MEMORY),
    (Evidence(exit_code=1, log_tail="ModuleNotFoundError: No module named 'x'\n"), F.USER_ERROR),
    (Evidence(exit_code=1, log_tail="jobs.errors.JobError: unknown task\n"), F.USER_ERROR),
    (Evidence(exit_code=1, log_tail="loss is nan at step 17\n"), F.DIVERGED),
    (Evidence(signal=6, log_tail="Watchdog caught collective operation timeout: WorkNCCL\n"), F.HANG),
    # Then the signal, in each of its spellings.
    (Evidence(signal=9), F.LOST),
    (Evidence(exit_code=-9), F.LOST),
    (Evidence(exit_code=137), F.LOST),
    (Evidence(signal=15), F.PREEMPTED),
    (Evidence(exit_code=143), F.PREEMPTED),
    (Evidence(signal=12), F.PREEMPTED),
    (Evidence(signal=11), F.UNKNOWN),
    (Evidence(signal=25), F.DISK),
    (Evidence(signal=24, checkpointed=True), F.TIME_LIMIT),
    # Then what is left.
    (Evidence(exit_code=3), F.UNKNOWN),
    (Evidence(exit_code=1, claimed=False), F.LAUNCH_FAILED),
    (Evidence(claimed=False), F.LAUNCH_FAILED),
    (Evidence(exit_code=0), F.UNKNOWN),
    (Evidence(), F.LOST),
    (Evidence(ended=False, heartbeat_silent_s=601), F.HANG),
    (Evidence(ended=False, heartbeat_silent_s=601, median_step_s=60), F.LOST),
]


@pytest.mark.parametrize(("evidence", "failure"), TABLE, ids=[f"{n}-{f}" for n, (_, f) in enumerate(TABLE)])
def test_table(evidence: Evidence, failure: FailureClass) -> None:
    found, message = judge(evidence)
    assert found is failure
    assert message
    assert "\n" not in message


def test_every_class_that_evidence_can_show_is_in_the_table() -> None:
    shown = {failure for _, failure in TABLE} | set(CAUSES.values())
    assert shown == set(FailureClass)


def test_messages_say_by_what() -> None:
    assert judge(Evidence(cause="cancelled", word="CANCELLED by 1000", reason="by ann"))[1] == (
        "the scheduler says CANCELLED by 1000 (by ann)"
    )
    assert judge(Evidence(exit_code=3, log_tail="a\nValueError: bad\n\n"))[1] == "exit code 3 (ValueError: bad)"
    assert judge(Evidence(exit_code=1, log_tail="x\nMemoryError\ny"))[1] == "log: MemoryError"
    assert "SIGSEGV" in judge(Evidence(signal=11))[1]
    assert "signal 60" in judge(Evidence(signal=60))[1]


def test_the_last_telling_line_decides() -> None:
    tail = "warning: address already in use, retrying\nstep 1\nOSError: [Errno 28] No space left on device\nbye\n"
    found = match_log(tail)
    assert found is not None
    assert found[0] is F.DISK


def test_progress_bars_end_no_lines() -> None:
    found = match_log("  1%\r  2%\rMemoryError\r  3%")
    assert found == (F.OUT_OF_MEMORY, "log: MemoryError")


@pytest.mark.parametrize(
    "line",
    [
        "throughput: 12 it/s, out of 100 steps",
        "loss 0.31, nan_count 0",
        "loading nan-safe kernels",
        "memory: 3 GiB of 80 GiB",
        "the roomy disk has space left",
        "import of ValidationError helpers done",
    ],
)
def test_harmless_lines_show_nothing(line: str) -> None:
    assert match_log(line) is None


def test_silence_is_measured_against_steps() -> None:
    assert not is_silent(Evidence())
    assert not is_silent(Evidence(heartbeat_silent_s=599))
    assert is_silent(Evidence(heartbeat_silent_s=601))
    assert not is_silent(Evidence(heartbeat_silent_s=601, median_step_s=31))


@given(
    st.builds(
        Evidence,
        exit_code=st.none() | st.integers(-64, 255),
        signal=st.none() | st.integers(1, 64),
        log_tail=st.text(max_size=60),
        cause=st.none() | st.sampled_from([*CAUSES, "exit", "signal", "a new word"]),
        claimed=st.booleans(),
        checkpointed=st.booleans(),
        ended=st.booleans(),
        heartbeat_silent_s=st.none() | st.floats(0, 1e6),
    )
)
def test_any_evidence_gets_a_class_and_one_line(evidence: Evidence) -> None:
    failure, message = judge(evidence)
    assert failure in FailureClass
    assert message
    assert len(message) < 400
    assert "\n" not in message
    assert "\r" not in message


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (MemoryError(), FailureClass.OUT_OF_MEMORY),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), FailureClass.OUT_OF_MEMORY),
        (RuntimeError("CUDA out of memory. Tried"), FailureClass.GPU_OUT_OF_MEMORY),
        (type("OutOfMemoryError", (RuntimeError,), {})("x"), FailureClass.GPU_OUT_OF_MEMORY),
        (OSError(errno.ENOSPC, "x"), FailureClass.DISK),
        (OSError(errno.EDQUOT, "x"), FailureClass.DISK),
        (OSError(errno.EADDRINUSE, "x"), FailureClass.PORT_CLASH),
        (OSError(errno.ENOMEM, "x"), FailureClass.OUT_OF_MEMORY),
        (OSError(errno.ENOENT, "x"), FailureClass.UNKNOWN),
        (RuntimeError("[c10d] EADDRINUSE"), FailureClass.PORT_CLASH),
        (JobError("x"), FailureClass.USER_ERROR),
        (KeyError("x"), FailureClass.UNKNOWN),
    ],
)
def test_exceptions_by_class(error: Exception, failure: FailureClass) -> None:
    assert classify_exception(error) is failure


def test_one_line_of_an_exception() -> None:
    assert one_line(ValueError("a\n  b\tc")) == "ValueError: a b c"
    assert len(one_line(ValueError("x" * 1000))) == 300
