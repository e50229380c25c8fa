"""What a plan should say of the site it goes to, before anything is handed over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cluster.slurm.profile import load_profile
from sweeps.design import PackPlan

TORCH_MB = 250
"""A process that has imported torch (2.13, without CUDA) and made one small backward pass; measured 225 MB."""
_MEMORY = frozenset({"mem", "mem-per-cpu", "mem-per-gpu"})


def site_notices(packs: Iterable[PackPlan], backend: str) -> tuple[str, ...]:
    """Notices for a backend of this name; none for the local one.

    Raises:
        PermanentError: the site profile holds mistakes.
    """
    if backend != "slurm":
        return ()
    profile = load_profile()
    if _asks_for_memory(profile.memory_mb, profile.sbatch) or all(_asks(pack) for pack in packs):
        return ()
    return (
        f"memory is the site's default: neither resources.memory_mb nor the site profile asks for any; torch alone "
        f"needs about {TORCH_MB} MB a process, its models (and CUDA) come on top",
    )


def _asks(pack: PackPlan) -> bool:
    return _asks_for_memory(pack.resources.get("memory_mb"), pack.resources.get("extra") or {})


def _asks_for_memory(memory_mb: int | None, options: Mapping[str, object]) -> bool:
    return memory_mb is not None or any(name.replace("_", "-").removeprefix("--") in _MEMORY for name in options)
