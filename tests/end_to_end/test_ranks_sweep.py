"""A sweep whose packs are several processes each, on this machine: disturbed and undisturbed give the same bits."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from cluster.local_backend import LocalBackend
from jobs.facts import FailureClass
from orchestrator.loop import Loop
from orchestrator.policy import LOCAL

POLICY = replace(LOCAL, probe=False)


@pytest.fixture(scope="module")
def lab(helpers: Callable[[str], ModuleType]) -> ModuleType:
    return helpers("end_to_end/ranks_lab.py")


def test_a_killed_and_a_warned_process_change_nothing(lab: ModuleType, tmp_path: Path) -> None:
    """kill -9 of one of two processes, then a warning to the other: the loop judges by the one that was hurt, goes on
    from the last checkpoint, and ends with the bits of a sweep that nobody touched."""
    resources = {"cpus": 2, "processes": 2}
    whole = lab.RanksSweep(tmp_path / "whole", packs=1, steps=400, resources=resources)
    loop = Loop(whole.workspace, LocalBackend(), POLICY, code="")
    loop.watch()
    loop.close()
    assert [record.outcome for record in whole.closed()] == ["completed"]

    sweep = lab.RanksSweep(tmp_path / "hurt", packs=1, steps=400, resources=resources)
    loop = Loop(sweep.workspace, LocalBackend(), POLICY, code="")
    lab.tick_until(loop, lambda _: sweep.saved())
    sweep.kill(1)
    lab.tick_until(loop, lambda _: len(sweep.attempts()) == 2 and sweep.saved())
    (lost,) = sweep.closed()
    assert (lost.outcome, lost.failure) == ("lost", FailureClass.LOST)
    assert lost.message.startswith("rank 1: killed by SIGKILL")
    sweep.kill(1, number=signal.SIGUSR2)
    lab.tick_until(loop, lambda report: report.done)
    loop.close()
    assert [record.outcome for record in sweep.closed()] == ["lost", "preempted", "completed"]
    assert [fact.exact for fact in sweep.started()] == [None, "exact", "exact"]
    assert all(fact.step > 0 for fact in sweep.started()[1:])
    assert sweep.outcome() == whole.outcome()
