"""What a pass costs, in calls of Python, which no neighbour on the machine can change."""

from __future__ import annotations

import cProfile
import pstats
from pathlib import Path
from types import ModuleType

from cluster.fake_backend import FakeBackend
from jobs.workspace import Workspace
from orchestrator.loop import Loop
from orchestrator.policy import Policy


def calls_of_a_pass(lab: ModuleType, folder: Path, queued: int) -> int:
    """Calls of the pass that sees 4 packs of two runs end and launches 4, with ``queued`` runs planned."""
    workspace = Workspace(folder / "runs")
    specs = lab.cell({"steps": 1}, range(queued))
    lab.write_plan(workspace, "s", [specs[n : n + 2] for n in range(0, queued, 2)])
    fake = FakeBackend(folder / "c.json", execute=lambda entry, job: lab.pretend(Path(entry["cwd"]), job), slots=4)
    loop = Loop(workspace, fake, Policy(probe=False), code="", clock=lab.Clock())
    counts = []
    for _ in range(4):
        before = loop.tick().acted.launched
        assert before == 4
        while any(job["state"] != "ended" for job in fake.jobs()):
            fake.step()
        with cProfile.Profile() as profile:
            assert loop.tick().acted.launched == 4
        counts.append(pstats.Stats(profile).total_calls)
        while any(job["state"] != "ended" for job in fake.jobs()):
            fake.step()
    loop.close()
    return min(counts)


def test_a_pass_costs_the_same_whatever_is_queued(lab: ModuleType, tmp_path: Path) -> None:
    few, many = (calls_of_a_pass(lab, tmp_path / str(queued), queued) for queued in (100, 2000))
    assert many < 1.05 * few
