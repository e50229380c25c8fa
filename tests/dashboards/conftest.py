"""The made-up sweeps of ``tests/dashboards/synthetic.py``, for tests of whatever reads a sweep's files."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def synthetic() -> ModuleType:
    path = Path(__file__).parents[1] / "dashboards" / "synthetic.py"
    spec = importlib.util.spec_from_file_location("synthetic", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["synthetic"] = module  # dataclasses look their own module up
    spec.loader.exec_module(module)
    return module
