"""The Try lines of what users of neighbouring tools complained about (sections 1, 2, 3, 6, 8), on the fake Slurm.

Those of a pure part lie beside it: test_slurm_{states,watch,node,commands}.py.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cluster.backend import JobState, LaunchRequest, PermanentError, Resources, TemporaryError
from cluster.batch_file import BATCH_FILE, batch_payload, read_entry
from cluster.fake_slurm.control import FakeSlurm
from cluster.fake_slurm.jobs import LIVE, name_of, select
from cluster.slurm.batches import split_array_name
from cluster.slurm.commands import Commands
from cluster.slurm.profile import Profile
from cluster.submitit_backend import SlurmBackend
from jobs.durable import replace_file
from jobs.facts import read_closed
from jobs.state import RunState
from orchestrator.cli.running import conclude
from orchestrator.exit_codes import Exit
from orchestrator.policy import Policy, default_policy


class Wall:
    """A wall clock that only tests move."""

    now = 1e9

    def __call__(self) -> float:
        return self.now


class Desk:
    """Batches of commands that do nothing, on a fake Slurm that does not execute them."""

    def __init__(self, folder: Path, slurm: FakeSlurm) -> None:
        self.folder = folder / "submissions"
        self.slurm = slurm
        self.wall = Wall()
        slurm.switch(execute=False)

    def backend(self, **timeouts: float) -> SlurmBackend:
        limits = {"sbatch": 20.0, "squeue": 20.0, "sacct": 20.0, **timeouts}
        commands = Commands(looks_per_minute=6000, orders_per_minute=6000, timeouts_s=limits)
        return SlurmBackend(Profile(), submissions=self.folder, commands=commands, wall=self.wall)

    def batch(self, name: str, count: int, first: int = 0) -> tuple[str, list[LaunchRequest]]:
        directory = self.folder / name
        directory.mkdir(parents=True)
        requests = [
            LaunchRequest(f"orc-p{first + n}-a1", ("true",), "/", str(directory / "l"), str(directory / f"{n}.json"))
            for n in range(count)
        ]
        import orjson

        replace_file(directory / "batch.json", orjson.dumps(batch_payload(name, requests)))
        return str(directory), requests


@pytest.fixture
def desk(tmp_path: Path, slurm: FakeSlurm) -> Desk:
    return Desk(tmp_path, slurm)


def names(handles: Sequence[Any]) -> list[str]:
    return [handle.name for handle in handles]


# 1. Submitting


def test_1_01_accepted_but_timed_out_is_adopted_not_doubled(desk: Desk) -> None:
    desk.slurm.switch(accept_then_timeout=1)
    batch, requests = desk.batch("b1", 3)
    with pytest.raises(TemporaryError):
        desk.backend(sbatch=1.0).submit(batch, requests)
    again = desk.backend()  # another process, too
    handles = again.submit(batch, requests)
    assert len(desk.slurm.jobs()) == 3
    assert again.find(names(handles)) == {handle.name: handle for handle in handles}
    assert desk.slurm.calls["sbatch"] == 1


def test_1_01_a_sweep_of_three_whose_submission_was_not_answered(
    proof: ModuleType, slurm: FakeSlurm, tmp_path: Path
) -> None:
    slurm.switch(accept_then_timeout=1)
    sweep = proof.Sweep(tmp_path / "s", packs=3, members=1, steps=2, step_seconds=0.0)
    impatient = Commands(looks_per_minute=6000, orders_per_minute=6000, timeouts_s={"sbatch": 1.0, "squeue": 20.0})
    backend = SlurmBackend(sweep.profile, submissions=sweep.workspace.submissions, commands=impatient)
    sweep.finish(sweep.loop(backend))
    assert len(slurm.jobs()) == len(sweep.attempts()) == 3
    assert slurm.calls["sbatch"] == 1


def test_1_01_what_was_not_accepted_is_submitted_after_a_quiet_time(desk: Desk) -> None:
    desk.slurm.switch(reject_with="Socket timed out on send/recv operation", reject_count=1)
    batch, requests = desk.batch("b1", 3)
    with pytest.raises(TemporaryError):
        desk.backend().submit(batch, requests)
    with pytest.raises(TemporaryError, match="looking again"):
        desk.backend().submit(batch, requests)
    desk.wall.now += 31
    assert len(desk.backend().submit(batch, requests)) == 3
    assert len(desk.slurm.jobs()) == 3


def test_1_02_and_1_03_a_busy_controller_delays_and_fails_nothing(
    proof: ModuleType, slurm: FakeSlurm, tmp_path: Path
) -> None:
    slurm.switch(reject_with="Socket timed out on send/recv operation", reject_count=5)
    sweep = proof.Sweep(tmp_path / "s", packs=40, members=1, steps=2, step_seconds=0.0)
    wall = Wall()
    commands = Commands(looks_per_minute=6000, orders_per_minute=6000)
    backend = SlurmBackend(sweep.profile, submissions=sweep.workspace.submissions, commands=commands, wall=wall)
    clock = Wall()
    from orchestrator.loop import Loop

    loop = Loop(sweep.workspace, backend, sweep.policy, ["proof"], code="", index=False, clock=clock)
    slurm.switch(execute=True)
    troubles = []

    def pass_(report: Any) -> bool:
        wall.now += 40
        clock.now += 400
        troubles.extend(report.trouble)
        return report.done

    assert conclude(sweep.until(loop, pass_, 120)) is Exit.OK, "what the command exits with"
    sweep.check()
    assert sum("sbatch: " in trouble for trouble in troubles) >= 5
    assert len(sweep.attempts()) == 40, "no attempt was counted"


def test_1_04_an_array_larger_than_the_site_allows_is_split(desk: Desk) -> None:
    desk.slurm.configure(MaxArraySize=100)
    batch, requests = desk.batch("b1", 512)
    handles = desk.backend().submit(batch, requests)
    assert desk.slurm.calls["sbatch"] == 6
    assert len({handle.id for handle in handles}) == 512
    assert len({handle.id.partition("_")[0] for handle in handles}) == 6
    fresh = desk.backend()
    assert fresh.find(names(handles)) == {handle.name: handle for handle in handles}
    assert all(report.state is not JobState.GONE for report in fresh.poll(handles).values())


def test_1_05_a_submit_limit_is_fed_never_exceeded(proof: ModuleType, slurm: FakeSlurm, tmp_path: Path) -> None:
    slurm.configure(MaxSubmit=6)
    sweep = proof.Sweep(tmp_path / "s", packs=16, members=1, steps=2, step_seconds=0.0)
    most = 0

    def pass_(report: Any) -> bool:
        nonlocal most
        most = max(most, len(slurm.live()))
        return report.done

    sweep.until(sweep.loop(), pass_, 120)
    sweep.check()
    assert most <= 6


def test_1_05_50_jobs_may_be_queued_and_120_cells_finish(
    proof: ModuleType, slurm: FakeSlurm, tmp_path: Path, lab: ModuleType
) -> None:
    """Not executed: the test does to the files what 120 workers would."""
    slurm.switch(execute=False)
    slurm.configure(MaxSubmit=50)
    sweep = proof.Sweep(tmp_path / "s", packs=120, members=1)
    most = 0

    def pass_(report: Any) -> bool:
        nonlocal most
        state = slurm.state
        running = [job for job in state["jobs"] if job["state"] == "RUNNING"]
        most = max(most, sum(job["state"] in LIVE for job in state["jobs"]))
        for job in running:
            batch, first = split_array_name(state["specs"][job["spec"]]["options"]["job-name"]) or ("", 0)
            entry = read_entry(sweep.workspace.submission(batch) / BATCH_FILE, first + job["task"])
            list(lab.pretend(Path(entry["cwd"]), f"{entry['name']}/{name_of(job)}/0"))
        with slurm._engine() as engine:
            for job in running:
                for one in select(engine.state, name_of(job)):
                    engine.finish(one, (0, 0))
        return report.done

    report = sweep.until(sweep.loop(), pass_, 90)
    assert report.total(RunState.COMPLETED) == 120
    assert len(sweep.attempts()) == 120
    assert 40 < most <= 50


def test_1_05_a_limit_that_nobody_told_is_found_out(desk: Desk) -> None:
    desk.slurm.switch(accounting_off=True)
    desk.slurm.configure(MaxSubmit=50)
    batch, requests = desk.batch("b1", 120)
    backend = desk.backend()
    with pytest.raises(TemporaryError, match="throttled"):
        backend.submit(batch, requests)
    queued = len(desk.slurm.jobs())
    assert 0 < queued <= 50
    found = desk.backend().find(names(requests))
    assert len(found) == queued
    assert backend.free_slots(queued, None) < 50


def test_1_06_throttled_by_an_association_limit_names_it(desk: Desk) -> None:
    desk.slurm.switch(reject_with="AssocMaxSubmitJobLimit", reject_count=-1, reject_above=0)
    batch, requests = desk.batch("b1", 4)
    backend = desk.backend()
    with pytest.raises(TemporaryError, match="AssocMaxSubmitJobLimit"):
        backend.submit(batch, requests)
    assert backend.limits.throttled == "AssocMaxSubmitJobLimit"
    desk.slurm.switch(reject_with="")
    assert len(backend.submit(batch, requests)) == 4


def test_1_07_live_jobs_of_a_killed_launcher_count(proof: ModuleType, slurm: FakeSlurm, tmp_path: Path) -> None:
    slurm.switch(execute=False)
    sweep = proof.Sweep(tmp_path / "s", packs=20, members=1)
    policy = replace(sweep.policy, max_in_flight=10)
    launcher = proof.launcher(sweep, max_in_flight=10)
    end = time.monotonic() + 60
    while len(slurm.live()) < 10 or not list(sweep.workspace.submissions.glob("*/answer.json")):
        assert time.monotonic() < end
        time.sleep(0.1)
    launcher.kill()
    launcher.wait()
    again = sweep.loop(policy=policy)
    for _ in range(3):
        assert again.tick().in_flight == 10
    assert len(slurm.jobs()) == 10
    assert slurm.calls["sbatch"] == 1


def test_1_08_2000_runs_in_few_calls(desk: Desk) -> None:
    batch, requests = desk.batch("b1", 1000)
    other, more = desk.batch("b2", 1000, first=1000)
    backend = desk.backend()
    handles = backend.submit(batch, requests) + backend.submit(other, more)
    assert len({handle.id for handle in handles}) == 2000
    assert desk.slurm.calls["sbatch"] <= 2


def test_1_09_a_limit_of_jobs_is_a_limit_of_jobs(proof: ModuleType, slurm: FakeSlurm, tmp_path: Path) -> None:
    sweep = proof.Sweep(tmp_path / "s", packs=12, members=1, steps=3, step_seconds=0.02)
    policy = replace(sweep.policy, max_in_flight=3)
    most = 0

    def pass_(report: Any) -> bool:
        nonlocal most
        most = max(most, len(slurm.live()))
        return report.done

    sweep.until(sweep.loop(policy=policy), pass_, 90)
    sweep.check()
    assert 1 <= most <= 3


def test_100000_runs_at_16_a_pack_take_at_most_7_calls(desk: Desk) -> None:
    backend = desk.backend()
    total, handed = 100_000 // 16, []
    while len(handed) < total:
        size = min(Policy().batch_size, total - len(handed), backend.free_slots(len(handed), None))
        batch, requests = desk.batch(f"b{len(handed)}", size, first=len(handed))
        handed += backend.submit(batch, requests)
    assert desk.slurm.calls["sbatch"] == 7
    assert len(desk.slurm.live()) == total <= 8000
    _, there = backend.in_queue(ask=True)
    assert there.keys() == set(handed)
    assert desk.slurm.calls["squeue"] == 1


def test_1_08_a_loop_hands_over_100000_runs_in_at_most_7_calls_its_probe_among_them(
    proof: ModuleType, slurm: FakeSlurm, tmp_path: Path, lab: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """6,250 packs; a pack's further members would add nothing to what the scheduler is told."""
    monkeypatch.setattr(os, "fsync", lambda _: None)  # nothing is killed here, and 12,500 of them take a while
    slurm.switch(execute=False)
    slurm.configure(MaxArraySize=10001)
    total, probed = 100_000 // 16, []
    policy = replace(proof.FAST, probe=True, batch_size=default_policy("slurm").batch_size)
    sweep = proof.Sweep(tmp_path / "s", packs=total, members=1, policy=policy)

    def pass_(_: Any) -> bool:
        state = slurm.state
        for job in state["jobs"]:
            if not probed and job["state"] == "RUNNING":
                batch, first = split_array_name(state["specs"][job["spec"]]["options"]["job-name"]) or ("", 0)
                entry = read_entry(sweep.workspace.submission(batch) / BATCH_FILE, first + job["task"])
                list(lab.pretend(Path(entry["cwd"]), f"{entry['name']}/{name_of(job)}/0"))
                probed.append(job)
                with slurm._engine() as engine:
                    for one in select(engine.state, name_of(job)):
                        engine.finish(one, (0, 0))
        return len(state["jobs"]) >= total

    sweep.until(sweep.loop(), pass_, 240)
    assert len(slurm.state["jobs"]) == total
    assert probed
    assert slurm.calls["sbatch"] <= 7


def test_the_queue_is_fed_and_never_holds_more_than_8000(desk: Desk) -> None:
    backend = desk.backend()
    handed: list[Any] = []
    for number in range(7):
        batch, requests = desk.batch(f"b{number}", 1000, first=number * 1000)
        handed += backend.submit(batch, requests)
    batch, requests = desk.batch("b7", 2500, first=7000)
    with pytest.raises(TemporaryError, match="throttled"):
        backend.submit(batch, requests)
    assert len(desk.slurm.live()) == 8000
    assert backend.free_slots(8000, None) == 0
    for gone in (handed[0], handed[1000]):  # room for 2,000 more
        desk.slurm.end(gone.id.partition("_")[0], "COMPLETED")
    backend.in_queue(ask=True)
    more = backend.submit(batch, requests)
    assert len(set(handed + more)) == 9500
    assert len(desk.slurm.live()) == 7500
    assert desk.slurm.calls["sbatch"] == 10


def test_a_pass_of_the_loop_asks_the_queue_once(desk: Desk) -> None:
    batch, requests = desk.batch("b1", 40)
    handles = desk.backend().submit(batch, requests)
    other, lost = desk.batch("b2", 40, first=40)
    still = Wall()  # a pass is short, however slow this machine
    commands = Commands(looks_per_minute=6000, orders_per_minute=6000, clock=still)
    backend = SlurmBackend(Profile(), submissions=desk.folder, commands=commands, clock=still, wall=desk.wall)
    desk.slurm.switch(accept_then_timeout=1)
    with pytest.raises(TemporaryError):
        desk.backend(sbatch=1.0).submit(other, lost)
    for _ in range(3):
        before = desk.slurm.calls
        still.now += 60
        backend.find(names(lost))  # what one pass of the loop asks for
        backend.poll(handles)
        backend.submit(other, lost)
        after = desk.slurm.calls
        assert after["squeue"] - before.get("squeue", 0) == 1
        assert after.get("sacct", 0) - before.get("sacct", 0) <= 1


# 2. Knowing


def test_2_01_without_accounts_a_sweep_ends_and_says_so_once(
    proof: ModuleType, slurm: FakeSlurm, tmp_path: Path
) -> None:
    slurm.switch(accounting_off=True)
    sweep = proof.Sweep(tmp_path / "s", packs=3, members=1, steps=3, step_seconds=0.0)
    backend = sweep.backend()
    loop = sweep.loop(backend)
    sweep.finish(loop)
    assert len(backend.notices) == 1


def test_2_02_cancel_without_accounts(desk: Desk) -> None:
    desk.slurm.switch(accounting_off=True)
    batch, requests = desk.batch("b1", 3)
    backend = desk.backend()
    handles = backend.submit(batch, requests)
    backend.cancel(handles, grace_s=0)
    desk.slurm.advance(10)
    assert desk.slurm.live() == []
    assert all(report.state is JobState.ENDED for report in backend.poll(handles).values())


def test_2_03_dead_accounting_in_mid_sweep(proof: ModuleType, slurm: FakeSlurm, tmp_path: Path) -> None:
    sweep = proof.Sweep(tmp_path / "s", packs=3, members=1, steps=20)
    loop = sweep.start()
    sweep.until(loop, lambda _: sweep.begun() == 3)
    slurm.switch(dbd_down=True)
    for _ in range(10):
        slurm.advance(60)  # ten minutes without slurmdbd
        assert loop.tick().acted.closed == 0 or sweep.finished()
    sweep.finish(loop)
    assert len(sweep.attempts()) == 3


def test_2_04_over_midnight(desk: Desk) -> None:
    desk.slurm.switch(sacct_window="midnight")
    batch, requests = desk.batch("b1", 2)
    backend = desk.backend()
    handles = backend.submit(batch, requests)
    desk.slurm.end(handles[0].id, "TIMEOUT")
    desk.slurm.advance(86400 + 400)  # past midnight, and out of the queue's memory
    report = backend.poll(handles)[handles[0]]
    assert (report.state, report.cause) == (JobState.ENDED, "timeout")


def test_2_05_an_empty_queue_while_the_trainer_beats(proof: ModuleType, slurm: FakeSlurm, tmp_path: Path) -> None:
    sweep = proof.Sweep(tmp_path / "s", packs=2, members=1, steps=60)
    loop = sweep.start()
    sweep.until(loop, lambda _: sweep.begun() == 2)
    slurm.switch(squeue_empty=True)
    sweep.finish(loop)
    assert len(sweep.attempts()) == 2


def test_2_06_node_loss_without_an_exit_code_has_a_class(proof: ModuleType, slurm: FakeSlurm, tmp_path: Path) -> None:
    sweep = proof.Sweep(tmp_path / "s", packs=1, members=1, steps=40)
    loop = sweep.start()
    sweep.until(loop, lambda _: sweep.begun() == 1)
    slurm.end(f"{sweep.array()}_0", "NODE_FAIL")
    sweep.finish(loop)
    closed = [read_closed(attempt.closed) for attempt in sweep.attempts()]
    assert [str(c.failure) for c in closed if c and c.failure] == ["node_failure"]


def test_2_07_words_of_another_version_are_shown_and_kill_nothing(
    proof: ModuleType, slurm: FakeSlurm, tmp_path: Path
) -> None:
    sweep = proof.Sweep(tmp_path / "s", packs=1, members=1, steps=40)
    loop = sweep.start()
    sweep.until(loop, lambda _: sweep.begun() == 1)
    for word in ("SIGNALING", "FROBNICATING"):
        slurm.switch(force_state={f"{sweep.array()}_0": word})
        for _ in range(3):
            assert loop.tick().acted.closed == 0
        ((_, view),) = loop.board.live_attempts()
        assert view.report is not None
        assert view.report.word == word
    slurm.switch(force_state={})
    sweep.finish(loop)
    assert len(sweep.attempts()) == 1
    assert "scancel" not in slurm.calls


def test_2_11_a_killed_child_is_no_success(desk: Desk) -> None:
    """The job says COMPLETED, the end marker says killed: what is told is how our command ended."""
    batch, requests = desk.batch("b1", 1)
    backend = desk.backend()
    handles = backend.submit(batch, requests)
    job = handles[0]
    Path(requests[0].record).write_text(f'{{"job": "{job.name}/{job.id}/0", "code": null, "signal": 9}}')
    desk.slurm.finish(job.id)
    report = backend.poll(handles)[job]
    assert (report.state, report.signal, report.cause) == (JobState.ENDED, 9, "signal")


def test_2_13_clocks_of_other_machines_do_not_matter(proof: ModuleType, slurm: FakeSlurm, tmp_path: Path) -> None:
    sweep = proof.Sweep(tmp_path / "s", packs=2, members=1, steps=20)
    loop = sweep.start()
    slurm.advance(-300)  # the cluster's clock goes wrong by five minutes
    sweep.finish(loop)
    assert len(sweep.attempts()) == 2


def test_2_14_a_state_belongs_to_an_attempt(desk: Desk) -> None:
    batch, requests = desk.batch("b1", 1)
    backend = desk.backend()
    first = backend.submit(batch, requests)[0]
    desk.slurm.end(first.id, "FAILED", 1)
    directory = desk.folder / "b2"
    directory.mkdir()
    import orjson

    second = replace(requests[0], name="orc-p0-a2")
    replace_file(directory / "batch.json", orjson.dumps(batch_payload("b2", [second])))
    desk.slurm.switch(prolog_fails=[])
    handle = backend.submit(str(directory), [second])[0]
    reports = backend.poll([first, handle])
    assert reports[first].state is JobState.ENDED
    assert reports[handle].state in (JobState.QUEUED, JobState.RUNNING)


# 3. Limits, preemption, signals: see also test_slurm_sweeps.py


def test_3_03_a_warning_during_the_imports_of_the_trainer(proof: ModuleType, slurm: FakeSlurm, tmp_path: Path) -> None:
    sweep = proof.Sweep(tmp_path / "s", packs=1, members=1, steps=5, resources={"minutes": 1})
    loop = sweep.start()
    slurm.advance(40)  # the warning comes while Python still starts
    end = time.monotonic() + 40
    while not any(slurm.jobs()[f"{sweep.array()}_0"]["restarts"] >= 1 for _ in [0]):
        assert time.monotonic() < end
        time.sleep(0.1)
    sweep.finish(loop, fake=slurm)


def test_3_05_a_trainer_that_ignores_the_warning_runs_into_the_limit(
    proof: ModuleType, slurm: FakeSlurm, tmp_path: Path
) -> None:
    sweep = proof.Sweep(
        tmp_path / "s",
        packs=1,
        members=1,
        steps=60,
        resources={"minutes": 1},
        settings={"toy": {"ignore_signals": True, "attempts": [1]}},
    )
    loop = sweep.start()
    sweep.until(loop, lambda _: sweep.begun() == 1)
    slurm.advance(61)
    time.sleep(0.3)
    slurm.advance(5)  # KillWait
    sweep.finish(loop, fake=slurm)
    first = read_closed(sweep.attempts()[0].closed)
    assert first is not None
    assert str(first.failure) == "time_limit"


def test_3_06_no_scontrol_inside_the_container_is_needed(proof: ModuleType, slurm: FakeSlurm, tmp_path: Path) -> None:
    """The container has no Slurm at all; the batch shell outside asks for the requeue, and each attempt has a log."""
    inside = tmp_path / "inside"
    inside.mkdir()
    enter = tmp_path / "enter"
    enter.write_text(f'#!/bin/sh\nPATH={inside} exec "$@"\n')
    enter.chmod(0o755)
    profile = Profile(lead_s=40, container=(str(enter),))
    sweep = proof.Sweep(tmp_path / "s", packs=1, members=1, steps=30, resources={"minutes": 1}, profile=profile)
    loop = sweep.start()
    sweep.until(loop, lambda _: sweep.begun() == 1)
    slurm.advance(35)
    sweep.finish(loop, fake=slurm)
    assert len(sweep.attempts()) == 2
    assert all(attempt.log.exists() for attempt in sweep.attempts())


# 6. Environment


def test_6_01_and_6_03_submitting_from_inside_a_job(
    proof: ModuleType, slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "SLURM_ARRAY_JOB_ID": "1", "SLURM_ARRAY_TASK_ID": "7", "SLURM_JOB_ID": "1", "SLURM_RESTART_COUNT": "2",
        "SLURM_PROCID": "3", "SLURM_MEM_PER_CPU": "1", "SLURM_MEM_PER_NODE": "2", "SLURM_CPU_BIND": "mask_cpu:0x1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    sweep = proof.Sweep(tmp_path / "s", packs=3, members=1, steps=3, step_seconds=0.0)
    sweep.finish(sweep.loop())
    env = next(iter(slurm.state["specs"].values()))["env"]
    assert not [name for name in env if name.startswith(("SLURM_", "SBATCH_", "SRUN_"))]


def test_several_nodes_start_one_process_a_gpu(desk: Desk, tmp_path: Path) -> None:
    desk.slurm.switch(execute=True)
    code = "import os; print(*[os.environ[k] for k in ('RANK', 'WORLD_SIZE', 'MASTER_ADDR', 'MASTER_PORT')])"
    place = tmp_path / "run"
    place.mkdir()
    request = LaunchRequest(
        "orc-p0-a1",
        (sys.executable, "-P", "-c", code),
        str(place),
        str(place / "log.txt"),
        str(place / "exit.json"),
        resources=Resources(cpus=2, gpus=2, nodes=2),
    )
    directory = desk.folder / "b1"
    directory.mkdir(parents=True)
    import orjson

    replace_file(directory / "batch.json", orjson.dumps(batch_payload("b1", [request])))
    backend = desk.backend()
    handles = backend.submit(str(directory), [request])
    end = time.monotonic() + 20
    while backend.poll(handles)[handles[0]].state is not JobState.ENDED:
        assert time.monotonic() < end
        time.sleep(0.1)
    said = [path.read_text().split() for path in sorted(place.glob("log.txt*"))]
    assert sorted(words[0] for words in said) == ["0", "1", "2", "3"]
    assert {words[1] for words in said} == {"4"}
    assert len({tuple(words[2:]) for words in said}) == 1


# 8. Life of the launcher


def test_8_01_stage_two_waits_for_our_own_verdict(slurm: FakeSlurm, proof: ModuleType, tmp_path: Path) -> None:
    """No dependency is ever handed to Slurm, so none can be dropped or misread."""
    sweep = proof.Sweep(tmp_path / "s", packs=1, members=1, steps=2, step_seconds=0.0)
    sweep.finish(sweep.loop())
    for spec in slurm.state["specs"].values():
        assert "dependency" not in spec["options"]
    with pytest.raises(PermanentError, match="dependency"):
        SlurmBackend(Profile())._submitter.text(
            tmp_path,
            0,
            1,
            [LaunchRequest("n", ("true",), "/", "l", "r", resources=Resources(extra=(("dependency", "afterok:1"),)))],
        )


def test_8_04_the_launcher_may_go_and_another_shell_takes_up(
    proof: ModuleType, slurm: FakeSlurm, tmp_path: Path
) -> None:
    sweep = proof.Sweep(tmp_path / "s", packs=3, members=1, steps=5, step_seconds=0.02)
    process = proof.launcher(sweep)
    end = time.monotonic() + 30
    while "sbatch" not in slurm.calls:
        assert time.monotonic() < end
        time.sleep(0.05)
    process.kill()
    process.wait()
    end = time.monotonic() + 30
    while slurm.live() or len(slurm.jobs()) < 3:  # nobody watches
        assert time.monotonic() < end
        time.sleep(0.1)
    report = sweep.loop().tick()
    assert report.total(RunState.COMPLETED) == 3
    assert slurm.calls["sbatch"] == 1


# What the operator meets


def test_a_job_that_slurm_holds_is_released_then_given_up(desk: Desk) -> None:
    desk.slurm.switch(prolog_fails=[f"node{n:03d}" for n in range(1, 5)])
    batch, requests = desk.batch("b1", 1)
    backend = desk.backend()
    handles = backend.submit(batch, requests)
    reports = []
    for _ in range(6):
        for node in range(1, 5):
            with contextlib.suppress(subprocess.CalledProcessError):
                desk.slurm.return_node(f"node{node:03d}")
        reports.append(backend.poll(handles)[handles[0]])
        if reports[-1].state is JobState.ENDED:
            break
    assert "released" in reports[0].reason
    assert (reports[-1].state, reports[-1].cause) == (JobState.ENDED, "prolog_failed")
    assert desk.slurm.live() == []


def test_a_job_that_can_never_start_is_named_and_taken_out(desk: Desk) -> None:
    desk.slurm.fail_node("node001")
    for node in ("node002", "node003", "node004"):
        desk.slurm.fail_node(node)
    batch, requests = desk.batch("b1", 2)
    backend = desk.backend()
    handles = backend.submit(batch, requests)
    with desk.slurm._store.open() as state:
        for job in state["jobs"]:
            job.update(held=True, reason="PartitionTimeLimit")
    report = backend.poll(handles)[handles[0]]
    assert (report.state, report.cause) == (JobState.ENDED, "launch_failed")
    assert "more time than its partition gives" in report.reason
    assert desk.slurm.live() == []


def test_an_id_that_was_given_again_is_never_cancelled(desk: Desk) -> None:
    batch, requests = desk.batch("b1", 1)
    backend = desk.backend()
    handles = backend.submit(batch, requests)
    backend.poll(handles)
    desk.slurm.crash_controller()
    env = {**os.environ}
    script = "#!/bin/sh\n#SBATCH --array=0-0 --job-name=somebody\nsleep 100\n"
    subprocess.run(["sbatch"], input=script, text=True, env=env, check=True, capture_output=True)
    assert desk.slurm.live() == [handles[0].id]
    backend.cancel(handles, grace_s=0)
    assert desk.slurm.live() == [handles[0].id]
    assert backend.find(names(requests)) == {}
