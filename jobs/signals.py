"""Being asked to leave: TERM, INT and USR2 ask the worker to checkpoint at the next step boundary and go.

Only the standard library is imported here, and ``install`` is the worker's first act: a signal that comes while torch
is still being imported must not kill the process. A shim that blocks these signals around its fork closes the gap
before that too, because ``install`` unblocks them.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from types import FrameType

LEAVE_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2)
WARNING_VARIABLE = "ORCHESTRATE_WARNING"
"""Names the signal that whoever started us will ask us to leave with."""

_received: list[str] = []


def _remember(number: int, frame: FrameType | None) -> None:
    _received.append(signal.Signals(number).name)


def install() -> None:
    """Take the signals over. Call from the main thread."""
    for number in LEAVE_SIGNALS:
        signal.signal(number, _remember)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, LEAVE_SIGNALS)


def unheard(environ: Mapping[str, str]) -> str | None:
    """The signal that we would be asked to leave with, where it is none that we listen to."""
    name = environ.get(WARNING_VARIABLE, "")
    known = {number.name.removeprefix("SIG") for number in LEAVE_SIGNALS}
    return name if name and name.removeprefix("SIG") not in known else None


def requested() -> str | None:
    """Name of the first signal that asked us to leave (``"SIGTERM"``), or None."""
    return _received[0] if _received else None


def forget() -> None:
    """As if no signal had come."""
    _received.clear()
