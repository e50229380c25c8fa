"""A plan that goes to a cluster says where nobody asks for memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cluster.backend import PermanentError
from orchestrator.site_notices import TORCH_MB, site_notices
from sweeps.design import PackPlan


def pack(**resources: Any) -> PackPlan:
    return PackPlan("p1", ("r1",), "s", 0, resources, {})


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "site.yaml"
    path.write_text("partition: cpu\n")
    monkeypatch.setenv("ORCHESTRATE_SITE", str(path))
    return path


def test_memory_that_nobody_asks_for_is_told(site: Path) -> None:
    (notice,) = site_notices([pack(memory_mb=500), pack(cpus=2)], "slurm")
    assert "memory is the site's default" in notice
    assert f"{TORCH_MB} MB" in notice
    assert site_notices([pack()], "local") == ()
    assert site_notices([pack(memory_mb=500), pack(extra={"mem_per_cpu": "1G"})], "slurm") == ()


@pytest.mark.parametrize("line", ["memory_mb: 4000", "mem-per-cpu: 2G", "sbatch: {mem-per-gpu: 8G}"])
def test_a_profile_that_asks_for_it_is_enough(site: Path, line: str) -> None:
    site.write_text(line + "\n")
    assert site_notices([pack()], "slurm") == ()


def test_a_profile_with_a_mistake_is_told_with_the_plan(site: Path) -> None:
    site.write_text("partition: 3\n")
    with pytest.raises(PermanentError, match="line 1: partition"):
        site_notices([pack()], "slurm")
