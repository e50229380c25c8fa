"""The contract of every backend, kept by the Slurm backend: on the fake Slurm always, on the real one where it is up.

The tests are those of test_backends.py; only the site differs.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.fake_slurm.control import FakeSlurm
from cluster.slurm.commands import Commands
from cluster.slurm.profile import Profile
from cluster.submitit_backend import SlurmBackend

_SPEC = importlib.util.spec_from_file_location("backend_contract", Path(__file__).with_name("test_backends.py"))
assert _SPEC is not None
assert _SPEC.loader is not None
suite = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = suite
_SPEC.loader.exec_module(suite)


def backend() -> SlurmBackend:
    return SlurmBackend(Profile(), commands=Commands(looks_per_minute=6000, orders_per_minute=6000))


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.slurm)])
def site(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    fake = None
    if request.param == "fake":
        fake = FakeSlurm(tmp_path / "slurm", KillWait=1)
        for name, value in fake.env().items():
            monkeypatch.setenv(name, value)
    else:
        assert "SLURM_CONF" in os.environ, "no cluster: use tests/slurm/run.sh"
    site = suite.Site(tmp_path, lambda folder: backend())
    site.batch = f"b{tmp_path.name[:20]}{os.getpid()}"
    submit = site.submit
    site.submit = lambda *requests, batch="b1": submit(*requests, batch=f"{batch}-{os.getpid()}-{id(site):x}")
    yield site
    site.backend.cancel(site.started, grace_s=0)
    if fake is not None:
        fake.close()


for _name in dir(suite):
    if _name.startswith("test_") and "needs_no_cluster" not in _name:
        globals()[_name] = getattr(suite, _name)
