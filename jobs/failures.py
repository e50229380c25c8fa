"""Why did an attempt end? Pure functions of evidence: nothing is read or asked here.

``classify_exception`` is for the worker, which closes its own attempt where it can; ``judge`` is for attempts that
ended without a word. What is tried again, how often and when is the loop's policy (``orchestrator.policy``), which
stands on these classes.
"""

from __future__ import annotations

import errno
import re
import signal as signals
from dataclasses import dataclass

from pydantic import ValidationError

from jobs.errors import JobError
from jobs.facts import ExitCode, FailureClass

_F = FailureClass


@dataclass(frozen=True)
class Evidence:
    """What is known of an attempt that ended without ``closed.json``.

    Attributes:
        exit_code: of the worker, from ``exit.json`` or the scheduler; None where nobody knows.
        signal: number of the signal that ended it.
        log_tail: last part of its log, decoded somehow.
        cause: the scheduler's evidence class (``cluster.backend.JobReport.cause``), None where it has none.
        word: the scheduler's own state word, for the message.
        reason: the scheduler's reason in words.
        claimed: a worker had claimed the attempt.
        checkpointed: some attempt of the pack has a complete checkpoint.
        heartbeat_silent_s: seconds, on the reader's own clock, for which the heartbeat has not changed.
        median_step_s, hang_floor_s: what a hang is measured by.
        ended: the scheduler or the shim says positively that the job is over.
    """

    exit_code: int | None = None
    signal: int | None = None
    log_tail: str = ""
    cause: str | None = None
    word: str = ""
    reason: str = ""
    claimed: bool = True
    checkpointed: bool = False
    heartbeat_silent_s: float | None = None
    median_step_s: float | None = None
    hang_floor_s: float = 300.0
    ended: bool = True


_EXIT_CODES: dict[int, tuple[FailureClass, str]] = {
    ExitCode.CHECKPOINTED: (_F.PREEMPTED, "checkpointed and left when asked to"),
    ExitCode.DIVERGED: (_F.DIVERGED, "every run of the pack diverged"),
    ExitCode.GPU_OUT_OF_MEMORY: (_F.GPU_OUT_OF_MEMORY, "the GPU's memory was full"),
    ExitCode.CONFIG: (_F.USER_ERROR, "the worker refused its launch"),
    ExitCode.PORT_CLASH: (_F.PORT_CLASH, "the rendezvous port was taken"),
    ExitCode.HANG: (_F.HANG, "the worker's watchdog saw no step"),
    ExitCode.DISK: (_F.DISK, "a file could not be written"),
    ExitCode.PEER_LOST: (_F.LOST, "another process of the attempt is gone, and nobody says why"),
}

CAUSES: dict[str, FailureClass] = {
    "preempted": _F.PREEMPTED,
    "timeout": _F.TIME_LIMIT,
    "node_failure": _F.NODE_FAILURE,
    "boot_failure": _F.BOOT_FAILURE,
    "prolog_failed": _F.PROLOG_FAILED,
    "launch_failed": _F.LAUNCH_FAILED,
    "out_of_memory": _F.OUT_OF_MEMORY,
    "deadline": _F.DEADLINE,
    "cancelled": _F.CANCELLED,
    "dirty_node": _F.DIRTY_NODE,
    "wrong_allocation": _F.WRONG_ALLOCATION,
    "port_clash": _F.PORT_CLASH,
}
"""Scheduler causes that decide by themselves; ``exit`` and ``signal`` do not."""

_ASK_TO_LEAVE = frozenset({signals.SIGTERM, signals.SIGINT, signals.SIGUSR2, signals.SIGHUP})
FROM_OUTSIDE = _ASK_TO_LEAVE | {signals.SIGKILL, signals.SIGXCPU}
"""Signals that somebody else sends, for reasons that the command never hears: a scheduler may know them."""

LOG_PATTERNS: tuple[tuple[FailureClass, re.Pattern[str]], ...] = tuple(
    (failure, re.compile(pattern, re.IGNORECASE))
    for failure, pattern in (
        (_F.GPU_OUT_OF_MEMORY, r"(cuda|hip) out of memory|torch\.(cuda\.)?OutOfMemoryError|CUBLAS_STATUS_ALLOC_FAILED"),
        (_F.DISK, r"no space left on device|disk quota exceeded|read-only file system|\[Errno (28|122|30)\]"),
        (_F.PORT_CLASH, r"address already in use|EADDRINUSE"),
        (
            _F.OUT_OF_MEMORY,
            r"\bMemoryError\b|oom[-_ ]?kill|out of memory: killed process|cannot allocate memory|can't allocate memory"
            r"|exceeded (job|step) memory limit",
        ),
        (_F.HANG, r"hangs at step \d+|Watchdog caught collective operation timeout"),
        (_F.USER_ERROR, r"^(\w+\.)*(JobError|ModuleNotFoundError|ImportError|SyntaxError|ValidationError)\b"),
        (_F.DIVERGED, r"\b(loss|gradient)s?\b.{0,40}\b(is|became|are) (nan|inf|not finite)\b"),
    )
)
"""Sorted from the specific to the general; the last line that matches anything decides."""


def judge(evidence: Evidence) -> tuple[FailureClass, str]:
    """The class of an attempt that ended without closing itself, and one line saying what it was judged by.

    Positive words come first: the scheduler's cause, the worker's own exit codes, the log, then the signal. Where all
    of them are silent the attempt is ``lost`` (it was claimed) or never started (it was not).
    """
    e = evidence
    if e.cause in CAUSES:
        failure = CAUSES[e.cause]
        if failure is _F.TIME_LIMIT and not e.checkpointed:
            failure = _F.TIME_LIMIT_NO_CHECKPOINT
        if failure is _F.CANCELLED and not e.claimed:  # as in the queue: a job was stopped, the run had not begun
            failure = _F.LAUNCH_FAILED
        return failure, _said(f"the scheduler says {e.word or e.cause}", e.reason)
    number = signal_of(e.exit_code, e.signal)
    if number is None and e.exit_code in _EXIT_CODES:
        failure, words = _EXIT_CODES[e.exit_code]
        return failure, f"exit code {e.exit_code}: {words}"
    if found := match_log(e.log_tail):
        return found
    if number is not None:
        return _judge_signal(number, e)
    if e.exit_code:
        if not e.claimed:
            return _F.LAUNCH_FAILED, f"exit code {e.exit_code} before the attempt was claimed"
        return _F.UNKNOWN, _said(f"exit code {e.exit_code}", _last_line(e.log_tail))
    if not e.ended and is_silent(e):
        return _F.HANG, f"alive, but no heartbeat for {e.heartbeat_silent_s:.0f} s"
    if not e.claimed:
        return _F.LAUNCH_FAILED, "ended before any worker claimed the attempt"
    if e.exit_code == 0:
        return _F.UNKNOWN, "exit code 0, but the attempt was never closed"
    return _F.LOST, _said("gone without a word", e.word)


def is_silent(evidence: Evidence) -> bool:
    """Whether the heartbeat has been still for longer than a hang takes to be noticed from inside."""
    silent = evidence.heartbeat_silent_s
    return silent is not None and silent > 2 * max(10 * (evidence.median_step_s or 0.0), evidence.hang_floor_s)


def match_log(tail: str) -> tuple[FailureClass, str] | None:
    """The class that a log's end shows and the line that shows it. Carriage returns separate lines too."""
    for line in reversed(re.split(r"[\r\n]+", tail)):
        for failure, pattern in LOG_PATTERNS:
            if pattern.search(line):
                return failure, f"log: {line.strip()[:200]}"
    return None


def signal_of(exit_code: int | None, signal: int | None) -> int | None:
    """Number of the signal that ended a command; a shell tells it as 128 + number, Python as -number."""
    if signal:
        return signal
    if exit_code is not None and exit_code < 0:
        return -exit_code
    if exit_code is not None and 128 < exit_code <= 128 + 64:
        return exit_code - 128
    return None


def _judge_signal(number: int, e: Evidence) -> tuple[FailureClass, str]:
    try:
        name = signals.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    if number == signals.SIGKILL:
        return _F.LOST, f"killed by {name}; nobody says why (not a known out-of-memory kill)"
    if number in _ASK_TO_LEAVE:
        return _F.PREEMPTED, f"ended by {name} before it could checkpoint"
    if number == signals.SIGXFSZ:
        return _F.DISK, f"killed by {name}: a file grew beyond its limit"
    if number == signals.SIGXCPU:
        return _F.TIME_LIMIT if e.checkpointed else _F.TIME_LIMIT_NO_CHECKPOINT, f"killed by {name}"
    return _F.UNKNOWN, f"crashed with {name}"


def _said(what: str, why: str) -> str:
    return f"{what} ({why})" if why else what


def _last_line(tail: str) -> str:
    lines = [line.strip() for line in re.split(r"[\r\n]+", tail) if line.strip()]
    return lines[-1][:200] if lines else ""


_ERRNO = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS), _F.DISK),
    errno.EADDRINUSE: _F.PORT_CLASH,
    errno.ENOMEM: _F.OUT_OF_MEMORY,
}


def classify_exception(error: BaseException) -> FailureClass:
    """The class of an exception that ended training, by its type and, where libraries know only text, by its text."""
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, OSError) and error.errno in _ERRNO:
        return _ERRNO[error.errno]
    if isinstance(error, MemoryError):
        return _F.OUT_OF_MEMORY
    if type(error).__name__ == "OutOfMemoryError":
        return _F.GPU_OUT_OF_MEMORY
    if isinstance(error, JobError | ValidationError):
        return _F.USER_ERROR
    found = match_log(text)
    if found and found[0] in (_F.GPU_OUT_OF_MEMORY, _F.OUT_OF_MEMORY, _F.DISK, _F.PORT_CLASH):
        return found[0]
    return _F.UNKNOWN


def one_line(error: BaseException, limit: int = 300) -> str:
    """An exception as one line; the traceback is in the log."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:limit]
