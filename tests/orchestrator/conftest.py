"""``lab``: the helpers of lab.py; ``workspace``: an empty one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from jobs.workspace import Workspace


@pytest.fixture(scope="session")
def lab(helpers: Callable[[str], ModuleType]) -> ModuleType:
    return helpers("orchestrator/lab.py")


@pytest.fixture
def json_of() -> Callable[[str], Any]:
    """Reads what a verb printed; refuses the bare NaN that Python's reader would take."""

    def read(text: str) -> Any:
        return json.loads(text, parse_constant=lambda word: pytest.fail(f"bare {word} in {text[:200]}"))

    return read


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "runs")
