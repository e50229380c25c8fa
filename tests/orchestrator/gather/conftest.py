"""The made-up sweeps of ``tests/dashboards/synthetic.py``, for tests of whatever reads a sweep's files."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def synthetic(helpers: Callable[[str], ModuleType]) -> ModuleType:
    return helpers("dashboards/synthetic.py")
