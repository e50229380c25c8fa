"""``lab``: the helpers of lab.py; ``workspace``: an empty one."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

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
def json_of() -> Callable[[str], Any]:
    """Reads what a verb printed; refuses the bare NaN that Python's reader would take."""

    def read(text: str) -> Any:
        return json.loads(text, parse_constant=lambda word: pytest.fail(f"bare {word} in {text[:200]}"))

    return read


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "runs")
