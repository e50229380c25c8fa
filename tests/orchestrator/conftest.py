"""``lab``: the helpers of lab.py; ``workspace``: an empty one."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from jobs.workspace import Workspace


@pytest.fixture(scope="session")
def lab() -> ModuleType:
    path = Path(__file__).with_name("lab.py")
    spec = importlib.util.spec_from_file_location("orchestrator_lab", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "runs")
