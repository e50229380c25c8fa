"""The clock that the loop's own times are taken from."""

from __future__ import annotations

import time
from collections.abc import Callable


def host_clock() -> Callable[[], float]:
    """Seconds that mean the same to every process of this host (the index keeps them), and never jump within one."""
    offset = time.time() - time.monotonic()
    return lambda: time.monotonic() + offset
