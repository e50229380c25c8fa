"""Python's garbage collector, held off while a great many records are made at once."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Hundreds of thousands of records live until their file is written: looking through them for garbage, again and
    again as they become more, would take as long as much of the work, and find none."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
