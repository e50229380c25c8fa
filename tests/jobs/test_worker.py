"""The worker as a real process: killed, raced, stopped, asked to leave, starved of disk."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobs.admission import check_code
from jobs.durable import read_log
from jobs.errors import JobError
from jobs.facts import (
    ExitCode,
    FailureClass,
    Finished,
    close_attempt,
    read_claimed,
    read_closed,
    read_facts,
    read_heartbeat,
)
from jobs.session import Session
from jobs.state import read_pack
from jobs.workspace import AttemptDir

KILLED = -signal.SIGKILL
STEPS = 12


def closed(attempt: AttemptDir) -> tuple[str, FailureClass | None]:
    found = read_closed(attempt.closed)
    assert found is not None, attempt.log.read_text(errors="replace")
    return found.outcome, found.failure


def give_up(attempt: AttemptDir) -> None:
    """What the loop does with an attempt that ended without a word."""
    assert close_attempt(attempt, by="loop", outcome="lost", failure=FailureClass.LOST)


@pytest.fixture
def undisturbed(make_pack: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    """Digests of the same pack carried out without trouble."""

    def run(*configs: dict[str, Any]) -> dict[str, Any]:
        pack = make_pack(*configs, name="undisturbed")
        assert pack.run_here(pack.launch()) == 0
        return pack.digests()

    return run


def test_from_launch_to_closed(make_pack: Callable[..., Any], undisturbed: Callable[..., Any]) -> None:
    configs = [{"steps": 3}, {"steps": 5}]
    pack = make_pack(*configs)
    attempt = pack.launch(code="abc")
    assert pack.run(attempt, env={"ORCHESTRATE_JOB": "orc-x/7/0"}) == ExitCode.DONE
    assert closed(attempt) == ("completed", None)
    claimed = read_claimed(attempt.claimed)
    assert claimed is not None
    assert claimed.job == "orc-x/7/0"
    started = pack.started(1)
    assert (started.step, started.exact, started.members, started.code) == (0, None, 2, "abc")
    finished = pack.finished()
    assert [(finished[run].status, finished[run].step) for run in pack.runs] == [("completed", 3), ("completed", 5)]
    assert pack.digests() == undisturbed(*configs)
    beat = read_heartbeat(attempt.heartbeat)
    assert beat is not None
    assert (beat.step, beat.steps) == (5, 5)
    assert not list(attempt.path.glob(".*")), "nothing aside is left"


FAULTS = {
    "in a step": {"signal_at": 8},
    "in the first step": {"signal_at": 1},
    "in a save": {"die_in_save": 6},
    "before finishing": {"die_before_finish": True},
    "by an exit that nobody caught": {"exit_at": 10, "exit_code": 3},
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("size", [1, 3])
def test_4_06_resume_is_exact(
    make_pack: Callable[..., Any], undisturbed: Callable[..., Any], fault: str, size: int
) -> None:
    """Killed at a known point and resumed: bit-identical, at most one interval again, nothing finished done twice."""
    configs = [{"steps": STEPS - 4 * n} for n in range(size)]
    pack = make_pack(*configs)
    first = pack.launch(checkpoint_steps=3, settings={"toy": FAULTS[fault]})
    assert pack.run(first) == (3 if "exit" in fault else KILLED)
    assert not first.closed.exists()
    give_up(first)
    before = pack.finished()
    reached = max(row["step"] for row in read_log(first.metrics)[0]) if first.metrics.exists() else 0
    second = pack.launch(checkpoint_steps=3)
    assert pack.run(second) == 0
    assert pack.digests() == undisturbed(*configs)
    started = pack.started(2)
    assert started.exact == ("exact" if started.step else None)
    assert reached - started.step <= 3
    again = [fact.run for fact in pack.facts(2) if isinstance(fact, Finished)]
    assert set(again) == set(pack.runs) - set(before)
    assert not [name for name in os.listdir(pack.path) if name == "checkpoints"]


def test_kill_9_at_random_moments(
    make_pack: Callable[..., Any], undisturbed: Callable[..., Any], until: Callable[..., None]
) -> None:
    """SIGKILL from outside, ten times, some milliseconds after training began; until one attempt gets through."""
    configs = [{"steps": 60 - 9 * n, "step_seconds": 0.002, "checkpoint_bytes": 20_000} for n in range(4)]
    pack = make_pack(*configs)
    chance = random.Random(7)
    executed = killed = 0
    known: dict[str, Finished] = {}
    for _ in range(10):
        attempt = pack.launch(checkpoint_steps=2)
        process = pack.start(attempt)
        until(lambda: attempt.metrics.exists() or process.poll() is not None, "training")  # noqa: B023
        if process.poll() is None:
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(timeout=chance.uniform(0.001, 0.02))
            process.kill()
            killed += process.wait() == KILLED
        if not attempt.closed.exists():
            give_up(attempt)
        finished = pack.finished()
        assert {run: finished[run] for run in known} == known, "what is finished stays as it is"
        known = finished
        executed += 1
    assert killed == executed == 10
    assert pack.run(pack.launch(checkpoint_steps=2)) == 0
    assert pack.digests() == undisturbed(*configs)
    every = [fact.run for number in range(1, 12) for fact in pack.facts(number) if isinstance(fact, Finished)]
    assert sorted(every) == sorted(pack.runs), "nothing is finished twice"


def test_4_01_killed_while_saving(make_pack: Callable[..., Any]) -> None:
    pack = make_pack({"steps": 50})
    first = pack.launch(checkpoint_steps=10, settings={"toy": {"die_in_save": 30}})
    assert pack.run(first) == KILLED
    assert len(list(first.checkpoints.glob(".step-*"))) == 1
    give_up(first)
    assert pack.run(pack.launch(checkpoint_steps=10)) == 0
    assert pack.started(2).step == 20
    assert not first.checkpoints.exists()


def test_4_01_a_cut_checkpoint_is_passed_over_and_recorded(make_pack: Callable[..., Any]) -> None:
    pack = make_pack({"steps": 50})
    first = pack.launch(checkpoint_steps=10, settings={"toy": {"signal_at": 35}})
    assert pack.run(first) == KILLED
    give_up(first)
    os.truncate(first.checkpoints / "step-00000030-a1" / "state.json", 5)
    assert pack.run(pack.launch(checkpoint_steps=10)) == 0
    assert pack.started(2).step == 20
    [event] = pack.events(2)
    assert event.name == "checkpoint_passed_over"
    assert event.message == "step-00000030-a1: state.json has 5 bytes, not " + event.message.rsplit(" ", 1)[1]


def test_4_05_loss_jump_after_resume_is_flagged(make_pack: Callable[..., Any]) -> None:
    pack = make_pack({"steps": 60}, {"steps": 60})
    first = pack.launch(checkpoint_steps=20, settings={"toy": {"error_at": 45}})
    assert pack.run(first) == 1
    assert pack.run(pack.launch(settings={"toy": {"jump_after_resume": 0.3}})) == 0
    assert {(event.name, event.data["run"]) for event in pack.events(2)} == {
        (name, run) for name in ("resume_differs", "loss_jump") for run in pack.runs
    }
    assert all("+0.3" in fact.exact[1] and "resume at step 40" in fact.exact[1] for fact in pack.finished().values())


def test_an_exact_resume_is_not_flagged(make_pack: Callable[..., Any]) -> None:
    pack = make_pack({"steps": 60})
    first = pack.launch(checkpoint_steps=20, settings={"toy": {"error_at": 45}})
    assert pack.run(first) == 1
    assert pack.run(pack.launch()) == 0
    assert pack.started(2).step == 40
    assert pack.events(2) == []
    assert [fact.exact for fact in pack.finished().values()] == [()]


def test_the_log_of_a_healthy_run_says_how_far_it_is(make_pack: Callable[..., Any]) -> None:
    """`orchestrate logs -f` would show nothing for hours otherwise."""
    pack = make_pack({"steps": 7}, {"steps": 5})
    attempt = pack.launch(checkpoint_steps=3)
    assert pack.run(attempt) == 0
    saved = [line for line in attempt.log.read_text().splitlines() if line.startswith("saved at step")]
    assert saved == ["saved at step 3 of 7, 2 runs to go", "saved at step 6 of 7, 1 runs to go"]


def test_fresh_ignores_the_checkpoints_there_are(make_pack: Callable[..., Any]) -> None:
    pack = make_pack({"steps": 9})
    first = pack.launch(checkpoint_steps=3, settings={"toy": {"signal_at": 8}})
    assert pack.run(first) == KILLED
    give_up(first)
    second = pack.launch(resume=False, settings={"toy": {"signal_at": 2}})
    assert pack.run(second) == KILLED
    assert pack.started(2).step == 0
    give_up(second)
    assert pack.run(pack.launch(fresh_after=1)) == 0
    assert pack.started(3).step == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR2, signal.SIGINT])
def test_asked_to_leave(
    make_pack: Callable[..., Any],
    undisturbed: Callable[..., Any],
    until: Callable[..., None],
    number: signal.Signals,
) -> None:
    configs = [{"steps": 40, "step_seconds": 0.01}, {"steps": 30}]
    pack = make_pack(*configs)
    first = pack.launch()
    process = pack.start(first)
    until(first.heartbeat.exists, "the heartbeat")
    process.send_signal(number)
    assert process.wait(timeout=20) == ExitCode.CHECKPOINTED
    assert closed(first) == ("preempted", FailureClass.PREEMPTED)
    record = read_closed(first.closed)
    assert record is not None
    assert record.evidence["signal"] == number.name
    assert pack.run(pack.launch()) == 0
    assert pack.started(2).step == (record.step or 0)
    assert pack.digests() == undisturbed(*configs)


def test_3_03_signal_during_import(make_pack: Callable[..., Any], until: Callable[..., None]) -> None:
    """The shim starts us with the signals blocked; one that waits already must not kill, and must not be lost."""
    pack = make_pack({"steps": 1000, "step_seconds": 0.01})
    attempt = pack.launch()
    process = pack.start(
        attempt, preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR2])
    )
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == ExitCode.CHECKPOINTED
    assert closed(attempt) == ("preempted", FailureClass.PREEMPTED)


def test_asked_before_the_first_step_keeps_the_checkpoint_there_is(make_pack: Callable[..., Any]) -> None:
    pack = make_pack({"steps": 9})
    first = pack.launch(checkpoint_steps=3, settings={"toy": {"signal_at": 8}})
    assert pack.run(first) == KILLED
    give_up(first)
    second = pack.launch()
    process = pack.start(second, preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]))
    process.terminate()
    assert process.wait(timeout=20) == ExitCode.CHECKPOINTED
    record = read_closed(second.closed)
    assert record is not None
    assert record.step == 6
    assert pack.run(pack.launch()) == 0
    assert pack.started(3).step == 6


def test_two_workers_race_for_one_attempt(make_pack: Callable[..., Any]) -> None:
    pack = make_pack({"steps": 5, "step_seconds": 0.01})
    attempt = pack.launch()
    processes = [pack.start(attempt, env={"ORCHESTRATE_JOB": f"orc/{n}/0"}) for n in range(4)]
    assert [process.wait(timeout=20) for process in processes] == [0] * 4
    facts, _ = read_facts(attempt.facts)
    assert sum(fact.fact == "started" for fact in facts) == 1
    assert sum(fact.fact == "finished" for fact in facts) == 1
    assert attempt.log.read_text().count("nothing to do here") == 3


def test_a_closed_attempt_is_not_begun(make_pack: Callable[..., Any]) -> None:
    pack = make_pack({"steps": 5})
    attempt = pack.launch()
    close_attempt(attempt, by="loop", outcome="cancelled")
    assert pack.run_here(attempt) == 0
    assert sorted(p.name for p in attempt.path.iterdir()) == ["closed.json", "launch.json"]


def test_an_attempt_that_was_never_launched(make_pack: Callable[..., Any]) -> None:
    pack = make_pack({"steps": 5})
    with pytest.raises(JobError, match="never launched"):
        pack.run_here(pack.attempt(1))


def test_7_11_stopped_for_long_then_going_on(make_pack: Callable[..., Any], until: Callable[..., None]) -> None:
    """SIGSTOP longer than the hang floor, SIGCONT: no hang. Given up meanwhile: it leaves, and what it did next is
    nobody's result."""
    pack = make_pack({"steps": 4000, "step_seconds": 0.002})
    attempt = pack.launch(hang_floor_s=0.4, settings={"heartbeat_s": 0.05})
    process = pack.start(attempt)
    until(lambda: (beat := read_heartbeat(attempt.heartbeat)) and beat.step > 3, "training")
    process.send_signal(signal.SIGSTOP)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=0.7)
    process.send_signal(signal.SIGCONT)
    beat = read_heartbeat(attempt.heartbeat)
    assert beat is not None
    until(lambda: (now := read_heartbeat(attempt.heartbeat)) and now.step > beat.step + 20, "going on")
    give_up(attempt)
    assert process.wait(timeout=20) == 0
    assert closed(attempt) == ("lost", FailureClass.LOST)
    assert "Traceback" not in attempt.log.read_text()
    assert [event.name for event in pack.events(1)] == ["yield"]
    [record] = read_pack(pack.path)
    assert [fact.fact for fact in record.facts] == ["started"], "what was written after the closing does not count"


def test_6_10_a_hang_ends_with_stacks_and_a_class(make_pack: Callable[..., Any]) -> None:
    pack = make_pack({"steps": 9, "faults": {"hang_at": 4}}, {"steps": 3})
    attempt = pack.launch(hang_floor_s=0.2, settings={"heartbeat_s": 0.05})
    assert pack.run(attempt) == ExitCode.HANG
    assert closed(attempt) == ("failed", FailureClass.HANG)
    log = attempt.log.read_text()
    assert "hangs at step 3" in log
    assert "toy.py" in log, "the stack of the thread that hangs"
    assert [event.name for event in pack.events(1)] == ["hang"]
    assert set(pack.finished()) == {pack.runs[1]}, "what had finished stays finished"


def test_a_signal_nobody_looks_at(make_pack: Callable[..., Any], until: Callable[..., None]) -> None:
    pack = make_pack({"steps": 4, "step_seconds": 0.1})
    attempt = pack.launch(settings={"toy": {"ignore_signals": True}})
    process = pack.start(attempt)
    until(lambda: attempt.facts.exists() and attempt.facts.stat().st_size, "the start")
    process.terminate()
    assert process.wait(timeout=20) == 0
    assert closed(attempt) == ("completed", None)


CRASHES = {
    "oom_at": (FailureClass.OUT_OF_MEMORY, 1),
    "gpu_oom_at": (FailureClass.GPU_OUT_OF_MEMORY, ExitCode.GPU_OUT_OF_MEMORY),
    "error_at": (FailureClass.UNKNOWN, 1),
    "full_disk_at": (FailureClass.DISK, ExitCode.DISK),
}


@pytest.mark.parametrize("fault", CRASHES)
def test_an_exception_is_classed_and_what_had_finished_stays(
    make_pack: Callable[..., Any], capfd: pytest.CaptureFixture[str], fault: str
) -> None:
    failure, code = CRASHES[fault]
    pack = make_pack({"steps": 9, "faults": {fault: 5}}, {"steps": 4})
    attempt = pack.launch()
    assert pack.run_here(attempt) == code
    assert closed(attempt) == ("failed", failure)
    record = read_closed(attempt.closed)
    assert record is not None
    assert "\n" not in record.message
    assert record.step == 4
    assert "Traceback" in capfd.readouterr().err, "the log has it all"
    assert set(pack.finished()) == {pack.runs[1]}


def test_a_crash_after_being_given_up_adds_nothing(
    make_pack: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pack = make_pack({"steps": 9})
    attempt = pack.launch()

    def crash(session: Session) -> None:
        session.finish(pack.runs[0], 9, "completed", {})
        give_up(attempt)
        raise ValueError("too late")

    monkeypatch.setattr("jobs.toy.run", crash)
    assert pack.run_here(attempt) == 1
    assert closed(attempt) == ("lost", FailureClass.LOST)
    assert pack.facts(1) == []


def test_a_pack_whose_runs_all_diverge(make_pack: Callable[..., Any]) -> None:
    pack = make_pack({"steps": 9, "faults": {"nan_at": 2}}, {"steps": 9, "faults": {"nan_at": 4}})
    attempt = pack.launch()
    assert pack.run_here(attempt) == ExitCode.DIVERGED
    assert closed(attempt) == ("completed", None)


def test_a_diverged_member_is_masked_and_stays_so(make_pack: Callable[..., Any]) -> None:
    pack = make_pack({"steps": 9, "faults": {"nan_at": 2}}, {"steps": 9, "faults": {"signal_at": 8, "attempts": [1]}})
    first = pack.launch(checkpoint_steps=3)
    assert pack.run(first) == KILLED
    give_up(first)
    second = pack.launch()
    assert pack.run(second) == 0
    assert closed(second) == ("completed", None)
    assert [fact.run for fact in pack.facts(2) if isinstance(fact, Finished)] == [pack.runs[1]]
    finished = pack.finished()
    assert [(finished[run].status, finished[run].step) for run in pack.runs] == [("failed", 2), ("completed", 9)]


@pytest.mark.parametrize(
    "config", [{"steps": -1}, {"steps": "many"}, {"stepz": 3}], ids=["out of range", "wrong type", "unknown key"]
)
def test_a_config_that_is_wrong(make_pack: Callable[..., Any], config: dict[str, Any]) -> None:
    pack = make_pack(config)
    attempt = pack.launch()
    assert pack.run_here(attempt) == ExitCode.CONFIG
    assert closed(attempt) == ("failed", FailureClass.USER_ERROR)


def test_an_unknown_runner(make_pack: Callable[..., Any]) -> None:
    pack = make_pack({})
    attempt = pack.launch(runner="nobody")
    assert pack.run_here(attempt) == ExitCode.CONFIG
    record = read_closed(attempt.closed)
    assert record is not None
    assert "choose one of search, toy, train" in record.message


def test_inputs_are_checked_and_handed_over(make_pack: Callable[..., Any]) -> None:
    maker = make_pack({"steps": 2, "products": ["shape"]})
    assert maker.run_here(maker.launch()) == 0
    [fact] = maker.finished().values()
    product = fact.products["shape"]
    path = (maker.attempt(1).path / product.path).relative_to(maker.root)
    user = make_pack({"steps": 2, "consumes": ["activation"]}, root=maker.root)
    given = {"run": fact.run, "product": "shape", "path": str(path), "sha256": product.sha256}
    member = {"run": user.runs[0], "config": 0, "seed": 0, "inputs": {"activation": given}}
    good = user.launch(members=[member])
    assert user.run_here(good) == 0
    alone = make_pack({"steps": 2, "consumes": ["activation"]}, name="alone")
    assert alone.run_here(alone.launch()) == 0
    assert list(user.digests().values()) != list(alone.digests().values()), "the input went into the result"

    other = make_pack({"steps": 3, "consumes": ["activation"]}, root=maker.root)
    for bad, words in (
        ({**given, "sha256": "0" * 64}, "not the product"),
        ({**given, "path": "no/where"}, "is not at"),
    ):
        attempt = other.launch(members=[{**member, "run": other.runs[0], "inputs": {"activation": bad}}])
        assert other.run_here(attempt) == ExitCode.CONFIG
        record = read_closed(attempt.closed)
        assert record is not None
        assert words in record.message


def test_packages_from_anywhere_but_the_snapshot_are_refused(make_pack: Callable[..., Any], tmp_path: Path) -> None:
    pack = make_pack({"steps": 2})
    attempt = pack.launch()
    assert pack.run(attempt, env={"ORCHESTRATE_CODE": str(tmp_path / "code" / "abc")}) == ExitCode.CONFIG
    assert closed(attempt) == ("failed", FailureClass.USER_ERROR)
    assert not attempt.metrics.exists()


def test_packages_from_the_snapshot_win_over_the_installed_ones(make_pack: Callable[..., Any], tmp_path: Path) -> None:
    source = Path(__file__).resolve().parents[2]
    snapshot = tmp_path / "code" / "abc"
    for package in ("jobs", "models"):
        shutil.copytree(source / package, snapshot / package, ignore=shutil.ignore_patterns("__pycache__"))
    pack = make_pack({"steps": 2})
    attempt = pack.launch()
    env = {"ORCHESTRATE_CODE": str(snapshot), "PYTHONPATH": str(snapshot), "PYTHONSAFEPATH": "1"}
    assert pack.run(attempt, env=env) == 0, attempt.log.read_text()


def test_check_code_accepts_where_we_are() -> None:
    source = Path(__file__).resolve().parents[2]
    check_code(str(source))
    with pytest.raises(JobError, match="not from the code snapshot"):
        check_code(str(source / "jobs"))


def test_5_11_odd_characters_in_paths(make_pack: Callable[..., Any], undisturbed: Callable[..., Any]) -> None:
    config = {"steps": 9}
    pack = make_pack(config, name="a b%c'd (é)")
    first = pack.launch(checkpoint_steps=3, settings={"toy": {"signal_at": 8}})
    assert pack.run(first) == KILLED
    give_up(first)
    assert pack.run(pack.launch()) == 0
    assert pack.digests() == undisturbed(config)


def test_5_12_5_13_file_names_come_from_ids_alone(make_pack: Callable[..., Any]) -> None:
    pack = make_pack({"steps": 3, "note": "math/gsm8k " + "long " * 400, "products": ["shape"]})
    assert pack.run_here(pack.launch()) == 0
    names = [entry.name for entry in pack.root.rglob("*")]
    assert max(len(name.encode()) for name in names) <= 100
    assert not [name for name in names if "gsm8k" in name]


def test_7_15_a_huge_log_with_carriage_returns_and_odd_bytes(make_pack: Callable[..., Any]) -> None:
    pack = make_pack({"steps": 2})
    attempt = pack.launch(settings={"toy": {"log_mb": 3, "cr_progress": True, "not_utf8": True}})
    assert pack.run(attempt) == 0
    data = attempt.log.read_bytes()
    assert data.count(b"\r") == 3 * 1024
    assert b"\xff" in data


def test_a_probe_finishes_nothing(make_pack: Callable[..., Any]) -> None:
    pack = make_pack({"steps": 100, "step_seconds": 0.001})
    attempt = pack.launch(max_steps=4, checkpoint_steps=1)
    assert pack.run_here(attempt) == 0
    record = read_closed(attempt.closed)
    assert record is not None
    assert (record.outcome, record.step, record.evidence["probe"]) == ("completed", 4, True)
    assert record.evidence["median_step_s"] >= 0.001
    assert pack.finished() == {}
    assert not attempt.checkpoints.exists()


def test_4_08_a_file_that_may_not_grow(make_pack: Callable[..., Any], undisturbed: Callable[..., Any]) -> None:
    """A quota of 200 kB a file: the save fails as a whole, is classed, and leaves what was there."""
    config = {"steps": 9, "checkpoint_bytes": 400_000}
    pack = make_pack(config)
    first = pack.launch(checkpoint_steps=3)
    limit = 200_000
    code = pack.run(first, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    assert code == ExitCode.DISK
    assert closed(first) == ("failed", FailureClass.DISK)
    assert list(first.checkpoints.iterdir()) == []
    assert pack.run(pack.launch(checkpoint_steps=3)) == 0
    assert pack.digests() == undisturbed(config)


def test_4_08_full_disk(
    make_pack: Callable[..., Any], undisturbed: Callable[..., Any], tmpfs: Callable[[int], Path]
) -> None:
    """20 MB, checkpoints of 9 MB: the second does not fit beside the first and is not begun. Room is made, it goes on
    where it was."""
    config = {"steps": 9, "checkpoint_bytes": 9 << 20}
    pack = make_pack(config, root=tmpfs(20))
    first = pack.launch(checkpoint_steps=3)
    assert pack.run(first) == ExitCode.DISK
    record = read_closed(first.closed)
    assert record is not None
    assert (record.failure, record.step) == (FailureClass.DISK, 6)
    assert "does not fit" in record.message
    assert [p.name for p in first.checkpoints.iterdir()] == ["step-00000003-a1"]
    tmpfs(60)
    assert pack.run(pack.launch(checkpoint_steps=3)) == 0
    assert pack.started(2).step == 3
    assert pack.digests() == undisturbed(config)
