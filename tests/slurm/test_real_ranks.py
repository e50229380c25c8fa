"""Runs of four processes on two nodes of a real Slurm: requeued, warned, one rank killed; each ends with the bits of an
undisturbed run of as many processes on this machine."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cluster.local_backend import LocalBackend
from cluster.slurm.commands import Commands
from cluster.slurm.profile import Profile
from cluster.submitit_backend import SlurmBackend
from jobs.facts import FailureClass
from orchestrator.loop import Loop
from orchestrator.policy import LOCAL

pytestmark = pytest.mark.slurm

RESOURCES = {"nodes": 2, "processes": 2, "cpus": 2, "memory_mb": 1500, "minutes": 10}
STEPS = 600
CALM = Profile(lead_s=40, exclude="node[005-007]")


@pytest.fixture(scope="module")
def lab(helpers: Callable[[str], ModuleType]) -> ModuleType:
    return helpers("end_to_end/ranks_lab.py")


@pytest.fixture(scope="module")
def undisturbed(lab: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the runs give when nobody touches them: four processes of this machine."""
    sweep = lab.RanksSweep(tmp_path_factory.mktemp("local") / "runs", packs=1, steps=STEPS, resources=RESOURCES)
    loop = Loop(sweep.workspace, LocalBackend(), LOCAL, code="", index=False)
    loop.watch()
    loop.close()
    assert [record.outcome for record in sweep.closed()] == ["completed"]
    return sweep.outcome()


@pytest.fixture
def sweep(lab: ModuleType, real: Any, tmp_path: Path) -> Any:
    return lab.RanksSweep(tmp_path / "runs", packs=1, steps=STEPS, resources=RESOURCES)


@pytest.fixture
def loop(sweep: Any, proof: ModuleType) -> Any:
    commands = Commands(looks_per_minute=6000, orders_per_minute=6000)
    backend = SlurmBackend(
        CALM, submissions=sweep.workspace.submissions, commands=commands, gone_after_s=5.0, runaway_after_s=10.0
    )
    made = Loop(sweep.workspace, backend, proof.FAST, ["ranks"], code="", index=False)
    yield made
    made.close()


def job(sweep: Any) -> str:
    """Id of the job that holds the newest attempt."""
    return sweep.claimed().split("/")[1]


def check(sweep: Any, undisturbed: dict[str, Any], outcomes: list[str]) -> None:
    assert [record.outcome for record in sweep.closed()] == outcomes
    assert [fact.exact for fact in sweep.started()] == [None, *["exact"] * (len(outcomes) - 1)]
    assert all(fact.step > 0 for fact in sweep.started()[1:]), "it went on from a checkpoint"
    assert {fact.environment["processes"] for fact in sweep.started()} == {4}
    assert sweep.outcome() == undisturbed
    assert sorted(sweep.attempts()[-1].logs()) == [0, 1, 2, 3]


def test_four_ranks_on_two_nodes_are_requeued(
    lab: ModuleType, real: Any, sweep: Any, loop: Any, undisturbed: dict[str, Any]
) -> None:
    lab.tick_until(loop, lambda _: sweep.saved())
    assert len(real.sh(f"scontrol show hostnames '{real.node_of(job(sweep))}'").split()) == 2
    real.sh(f"scontrol requeue {job(sweep)}")
    lab.tick_until(loop, lambda report: report.done)
    check(sweep, undisturbed, ["preempted", "completed"])


def test_four_ranks_are_warned_and_the_batch_shell_asks_for_the_requeue(
    lab: ModuleType, real: Any, sweep: Any, loop: Any, undisturbed: dict[str, Any]
) -> None:
    """As before a time limit: all save at one step and leave with one code, and nobody of them asks for anything."""
    lab.tick_until(loop, lambda _: sweep.saved())
    first = job(sweep)
    real.sh(f"scancel --signal=USR2 --batch {first}")
    lab.tick_until(loop, lambda report: report.done)
    check(sweep, undisturbed, ["preempted", "completed"])
    assert job(sweep) == first, "the same job, queued again"
    left = [path.read_text() for path in sorted(sweep.attempts()[0].path.glob("exit.json*"))]
    assert len(left) == 4
    assert all('"code": 75' in text for text in left)


def test_kill_9_of_one_of_four_ranks(
    lab: ModuleType, real: Any, sweep: Any, loop: Any, undisturbed: dict[str, Any]
) -> None:
    """The attempt ends at once, and by the name of the rank that was killed."""
    lab.tick_until(loop, lambda _: sweep.saved())
    sweep.kill(2, number=signal.SIGKILL)
    lab.tick_until(loop, lambda report: report.done)
    check(sweep, undisturbed, ["lost", "completed"])
    lost = sweep.closed()[0]
    assert lost.failure is FailureClass.LOST
    assert lost.message.startswith("rank 2: killed by SIGKILL")
