"""Time limits that were proposed, on a real Slurm: the partition's MaxTime is read, the warning comes in time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cluster.backend import Needs, Resources
from cluster.slurm.limits import partitions
from cluster.slurm.profile import Profile
from jobs.facts import read_closed

pytestmark = pytest.mark.slurm

SHORT = Profile(lead_s=40, partition="scavenge", exclude="node[001-006]")


@pytest.fixture(scope="module")
def two_minutes(real: Any) -> Iterator[None]:
    """No job of this partition may take longer."""
    real.sh("scontrol update PartitionName=scavenge MaxTime=2 DefaultTime=2")
    yield
    real.sh("scontrol update PartitionName=scavenge MaxTime=UNLIMITED DefaultTime=60")


def test_partitions_are_read_as_slurm_prints_them(real: Any, two_minutes: None) -> None:
    found = partitions(real.sh("scontrol -o show partition"))
    assert (found["scavenge"].most_minutes, found["scavenge"].default_minutes) == (2, 2)
    assert (found["gpu"].most_minutes, found["gpu"].default_minutes) == (None, 60)
    assert found[""] == found["gpu"]


def test_a_maintenance_shortens_a_job_that_then_starts(
    proof: ModuleType, real: Any, two_minutes: None, tmp_path: Path
) -> None:
    real.sh(
        "scontrol create reservation reservationname=upgrade starttime=now+60minutes duration=60 nodes=node007 "
        "flags=maint,ignore_jobs users=root"
    )
    try:
        backend = proof.Sweep(tmp_path / "s", profile=Profile(exclude="node[001-006]")).backend()
        limit = backend.limit_of(Resources(needs=Needs(minutes=240, least_minutes=20)))
        assert 45 <= (limit.minutes or 0) <= 55
        assert "shortened from 240 min" in limit.notes[0]
        late = backend.limit_of(Resources(needs=Needs(minutes=240, least_minutes=90)))
        assert late.minutes == 240
        assert "jobs wait until it is over" in late.notes[0]
    finally:
        real.sh("scontrol delete reservationname=upgrade")


def test_a_run_longer_than_its_proposed_limit_finishes_over_several_jobs(
    proof: ModuleType, real: Any, two_minutes: None, tmp_path: Path
) -> None:
    shape = {"stack_key": "toy", "steps": 360}
    sweep = proof.Sweep(tmp_path / "s", packs=1, members=1, steps=360, step_seconds=0.25, profile=SHORT, shape=shape)
    loop = sweep.start()
    sweep.until(loop, lambda _: sweep.begun() == 1)
    real.sh(f"scancel {sweep.array()}_0")  # the next attempt is handed over anew, with what was measured
    sweep.until(loop, lambda _: sweep.begun() == 2)
    scripts = sorted(sweep.workspace.submissions.glob("*/array-0.sh"), key=lambda path: path.stat().st_mtime)
    assert ["--time=2" in script.read_text() for script in scripts] == [False, True]
    sweep.finish(loop, 400)
    outcomes = [closed.outcome for attempt in sweep.attempts() if (closed := read_closed(attempt.closed))]
    assert len(outcomes) >= 3
    assert outcomes[-1] == "completed"
    assert "lost" not in outcomes[1:], "every job was warned, saved and left in time"
    assert len(list(sweep.workspace.submissions.iterdir())) == 2, "Slurm queued it again, not we"
