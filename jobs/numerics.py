"""What training's bits depend on besides the run: set it, write it down, and say where a resume departs from it."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.utils import deterministic

EXACT = "exact"

_UNSAID = {"processes": 1}
"""What checkpoints that do not speak of it were written with."""

_FILL = "fill_uninitialized_memory"
"""torch's switch (untyped) that fills every new tensor with NaN in deterministic mode: 13 % of a step of a small pack,
to catch reads of memory that nobody wrote. Bits do not depend on it."""


@contextmanager
def reproducible(threads: int) -> Iterator[None]:
    """Deterministic kernels, float32, ``threads`` threads; what was set before comes back afterwards.

    The switch is ``set_deterministic_debug_mode``, not ``use_deterministic_algorithms``: that one also tells the
    compiler, whose import takes as long as torch's own, and no pack is compiled.
    """
    before = torch.get_num_threads(), torch.get_deterministic_debug_mode(), torch.get_default_dtype()
    filled = getattr(deterministic, _FILL)
    torch.set_num_threads(threads)
    torch.set_deterministic_debug_mode("error")
    torch.set_default_dtype(torch.float32)
    setattr(deterministic, _FILL, False)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        torch.set_deterministic_debug_mode(before[1])
        torch.set_default_dtype(before[2])
        setattr(deterministic, _FILL, filled)


def environment(pack: str, runs: Sequence[str], processes: int = 1) -> dict[str, Any]:
    """Saved with each checkpoint. Two attempts with equal environments give equal bits."""
    return {
        "pack": pack,
        "members": list(runs),
        "processes": processes,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "device": "cpu",
        "cpu capability": torch.backends.cpu.get_cpu_capability(),
        "processor": _processor(),
    }


def verdict(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """``exact``, or ``not exact: `` and every difference (``threads 2 -> 1; pack changed``)."""
    differences = []
    if (then.get("pack"), then.get("members")) != (now["pack"], now["members"]):
        differences.append("pack changed")
    differences += [
        f"{name} {then.get(name, _UNSAID.get(name))} -> {value}"
        for name, value in now.items()
        if name not in ("pack", "members") and then.get(name, _UNSAID.get(name)) != value
    ]
    return "not exact: " + "; ".join(differences) if differences else EXACT


def _processor() -> str:
    """The processor's model: libraries choose kernels by it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
