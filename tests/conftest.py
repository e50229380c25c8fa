"""What every test gets: one thread, a cache of its own, and no hidden skips on CI."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

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


@pytest.fixture(scope="session")
def helpers() -> Callable[[str], ModuleType]:
    """Loads a file of helpers by its path below tests/, which is no package, once a session."""

    def load(file: str) -> ModuleType:
        name = file.removesuffix(".py").replace("/", "_")
        if name in sys.modules:
            return sys.modules[name]
        spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses look their own module up
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture
def tmpfs(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """``tmpfs(MiB)``: a file system of that size; called again, its new size."""
    path = tmp_path / "small"
    path.mkdir()

    def size(mib: int) -> Path:
        options = f"size={mib}m" + (",remount" if path.is_mount() else "")
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)], capture_output=True, check=False
        )
        if done.returncode:
            pytest.skip(f"no right to mount a tmpfs: {done.stderr.decode().strip()}")
        return path

    yield size
    if path.is_mount():
        subprocess.run(["umount", "-l", str(path)], check=True)
