"""Loops that live for one pass (`watch --once` from cron, or a loop that is killed again and again): what must be heard
for a while, and more than once, is heard by many of them.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from cluster.fake_slurm.control import FakeSlurm
from cluster.slurm.commands import Commands
from cluster.submitit_backend import SlurmBackend
from jobs.facts import read_closed
from orchestrator.loop import Loop


def make_loop(sweep: Any, policy: Any) -> Loop:
    """A loop of its own, with the index that the last one left."""
    commands = Commands(looks_per_minute=6000, orders_per_minute=6000)
    backend = SlurmBackend(
        sweep.profile,
        submissions=sweep.workspace.submissions,
        commands=commands,
        gone_after_s=1.0,
        runaway_after_s=2.0,
    )
    return Loop(sweep.workspace, backend, policy, ["proof"], code="", settings=dict(sweep.settings))


def once(sweep: Any, policy: Any) -> Any:
    """One pass."""
    loop = make_loop(sweep, policy)
    try:
        return loop.tick()
    finally:
        loop.close()


def test_a_job_that_the_controller_forgot_is_given_up_by_loops_of_one_pass(
    proof: ModuleType, slurm: FakeSlurm, tmp_path: Path
) -> None:
    policy = replace(proof.FAST, lost_after_s=1.0)
    slurm.switch(execute=False)
    sweep = proof.Sweep(tmp_path / "s", packs=1, steps=3, step_seconds=0.0)
    once(sweep, policy)
    slurm.crash_controller()
    slurm.switch(execute=True)
    end = time.monotonic() + 60
    while not once(sweep, policy).done:
        assert time.monotonic() < end, sweep.story()
        time.sleep(0.3)
        slurm.advance(1.0)
    sweep.check()
    assert len(sweep.attempts()) == 2


def test_what_one_loop_has_heard_is_not_forgotten_by_the_next(
    proof: ModuleType, slurm: FakeSlurm, tmp_path: Path
) -> None:
    """Killed after it was sure, and before it had waited for the heartbeat."""
    slurm.switch(execute=False)
    sweep = proof.Sweep(tmp_path / "s", packs=1, steps=3, step_seconds=0.0)
    policy = replace(proof.FAST, lost_after_s=600.0)
    loop = make_loop(sweep, policy)
    loop.tick()
    slurm.crash_controller()
    end = time.monotonic() + 60
    while next(loop.board.live_attempts())[1].gone is None:
        assert time.monotonic() < end
        time.sleep(0.1)
        loop.tick()
    gone = next(loop.board.live_attempts())[1].gone
    loop.close()
    later = make_loop(sweep, policy)
    later.tick()
    assert next(later.board.live_attempts())[1].gone == gone
    later.close()


def test_a_silent_heartbeat_speaks_for_a_job_that_is_gone(proof: ModuleType, slurm: FakeSlurm, tmp_path: Path) -> None:
    """Accounting calls what a controller has forgotten running for ever."""
    slurm.switch(execute=False)
    sweep = proof.Sweep(tmp_path / "s", packs=1, steps=3, step_seconds=0.0)
    commands = Commands(looks_per_minute=6000, orders_per_minute=6000)
    backend = SlurmBackend(sweep.profile, submissions=sweep.workspace.submissions, commands=commands)
    loop = sweep.loop(backend, replace(proof.FAST, lost_after_s=1.0))
    loop.tick()
    slurm.crash_controller()
    slurm.switch(execute=True)
    sweep.until(loop, lambda report: report.done, 60, slurm)
    sweep.check()
    assert [closed.message for a in sweep.attempts() if (closed := read_closed(a.closed)) and closed.by == "loop"] == [
        "ended before any worker claimed the attempt"
    ]
