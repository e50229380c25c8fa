"""Taking signals over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from jobs import signals


@pytest.fixture(autouse=True)
def restore() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in signals.LEAVE_SIGNALS}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    signals.forget()
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    for number, handler in before.items():
        signal.signal(number, handler)
    signals.forget()


def test_the_first_signal_is_the_one_that_is_told() -> None:
    signals.install()
    assert signals.requested() is None
    os.kill(os.getpid(), signal.SIGUSR2)
    os.kill(os.getpid(), signal.SIGTERM)
    assert signals.requested() == "SIGUSR2"


def test_a_signal_that_was_blocked_arrives_with_the_handlers() -> None:
    """In a process of its own: a test runner has threads that do not block the signal and would take it."""
    code = (
        "import os, signal\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "from jobs import signals\n"
        "before = signals.requested()\n"
        "signals.install()\n"
        "print(before, signals.requested())\n"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["None", "SIGTERM"]


def test_handlers_stand_before_anything_heavy_is_imported() -> None:
    code = (
        "import sys, jobs.worker; print([m for m in ('pydantic', 'orjson', 'jobs.facts', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_carrying_out_toys_needs_no_torch() -> None:
    code = (
        "import sys, jobs.attempt, jobs.toy; print([m for m in ('torch', 'numpy', 'models.build') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_usage() -> None:
    done = subprocess.run([sys.executable, "-P", "-m", "jobs.worker"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "usage" in done.stderr
