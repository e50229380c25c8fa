"""``proof``: the helpers of tests/slurm/proof.py; ``slurm``: a fake Slurm on PATH."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from cluster.fake_slurm.control import FakeSlurm


@pytest.fixture(scope="session")
def proof(helpers: Callable[[str], ModuleType]) -> ModuleType:
    return helpers("slurm/proof.py")


@pytest.fixture(scope="session")
def lab(helpers: Callable[[str], ModuleType]) -> ModuleType:
    """The helpers of tests/orchestrator/lab.py."""
    return helpers("orchestrator/lab.py")


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSlurm]:
    fake = FakeSlurm(tmp_path / "slurm", KillWait=3, RequeueWait=2)
    for name, value in fake.env().items():
        monkeypatch.setenv(name, value)
    yield fake
    fake.close()
