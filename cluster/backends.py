"""Which backends exist: name -> "module:Class". Nothing is imported to be listed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from cluster.backend import Backend, PermanentError

BACKENDS: dict[str, str] = {
    "local": "cluster.local_backend:LocalBackend",
    "slurm": "cluster.submitit_backend:SlurmBackend",
    "fake": "cluster.fake_backend:FakeBackend",
}


def make_backend(name: str, **options: Any) -> Backend:
    """Import and construct one backend.

    Raises:
        PermanentError: ``name`` is not in the table (the message lists the valid ones).
    """
    if name not in BACKENDS:
        raise PermanentError(f"unknown backend {name!r}; choose one of {', '.join(sorted(BACKENDS))}")
    module, _, attribute = BACKENDS[name].partition(":")
    return getattr(import_module(module), attribute)(**options)
