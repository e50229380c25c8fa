"""What every test gets: one thread, a cache of its own, and no hidden skips on CI."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The host-local index of a test never meets the user's."""
    cache = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    for name in [n for n in os.environ if n.startswith(("ORCHESTRATE_", "SLURM_", "SBATCH_", "SRUN_"))]:
        if name not in ("SLURM_CONF", "SLURM_TEST_DIR"):
            monkeypatch.delenv(name)
    return cache


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo):
    """On CI a skipped test is a failed test: a fault must not hide behind a skip."""
    report = yield
    if report.skipped and os.environ.get("CI") == "true" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped on CI: {report.longrepr}"
    return report


@pytest.fixture
def python() -> list[str]:
    """How our own programs are started: without the current folder on the path."""
    return [sys.executable, "-P"]
