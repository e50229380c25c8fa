"""``proof``: the helpers of tests/slurm/proof.py; ``slurm``: a fake Slurm on PATH."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from cluster.fake_slurm.control import FakeSlurm


@pytest.fixture(scope="session")
def proof() -> ModuleType:
    path = Path(__file__).parents[1] / "slurm" / "proof.py"
    spec = importlib.util.spec_from_file_location("slurm_proof", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def lab() -> ModuleType:
    """The helpers of tests/orchestrator/lab.py."""
    path = Path(__file__).parents[1] / "orchestrator" / "lab.py"
    spec = importlib.util.spec_from_file_location("orchestrator_lab", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSlurm]:
    fake = FakeSlurm(tmp_path / "slurm", KillWait=3, RequeueWait=2)
    for name, value in fake.env().items():
        monkeypatch.setenv(name, value)
    yield fake
    fake.close()
