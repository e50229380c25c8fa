"""An attempt of several real processes: joined, asked to leave, one of them hurt. What each must leave behind."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.backend import LaunchRequest, Resources
from cluster.batch_file import batch_payload
from jobs.durable import decide_file
from jobs.facts import ExitCode, FailureClass, read_closed, read_heartbeat
from jobs.rendezvous import reachable
from jobs.workspace import AttemptDir

SLOW = {"steps": 4000, "step_seconds": 0.005}
"""Far from its end when something happens to it."""


class Shims:
    """Starts attempts as a backend does: one shim, which starts every process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, attempt: AttemptDir, ranks: int, **changes: Any) -> subprocess.Popen[bytes]:
        argv = (sys.executable, "-P", "-m", "jobs.worker", str(attempt.path))
        env = {"ORCHESTRATE_SIGNALS_BLOCKED": "1"}
        resources = Resources(cpus=ranks, processes=ranks)
        request = LaunchRequest(
            f"orc-{attempt.pack}-a{attempt.number}",
            argv,
            str(attempt.path),
            str(attempt.log),
            str(attempt.exit),
            env,
            resources,
        )
        payload = batch_payload("b1", [request], [str(attempt.claimed)])
        payload["entries"]["0"] |= changes
        batch = self._folder / f"{len(self._started)}.json"
        batch.write_text(json.dumps(payload))
        process = subprocess.Popen([sys.executable, "-P", "-m", "cluster.launch_shim", str(batch), "0"])
        self._started.append(process)
        return process

    def run(self, attempt: AttemptDir, ranks: int, **changes: Any) -> int:
        return self.start(attempt, ranks, **changes).wait(120)

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
                process.wait()


@pytest.fixture
def shims(tmp_path: Path) -> Iterator[Shims]:
    found = Shims(tmp_path)
    yield found
    found.close()


def logs(attempt: AttemptDir) -> list[str]:
    return [path.read_text() for path in attempt.logs().values()]


def ended(attempt: AttemptDir) -> dict[str, Any]:
    return json.loads(attempt.exit.read_text())


def closed(attempt: AttemptDir) -> tuple[str, FailureClass | None]:
    found = read_closed(attempt.closed)
    assert found is not None, logs(attempt)
    return found.outcome, found.failure


def test_from_launch_to_closed(make_pack: Callable[..., Any], shims: Shims) -> None:
    """One claim, one writer, a log and a pulse each; and the result of one process."""
    pack = make_pack({"steps": 6}, {"steps": 4})
    alone = make_pack({"steps": 6}, {"steps": 4}, name="alone")
    assert alone.run_here(alone.launch()) == 0
    attempt = pack.launch(checkpoint_steps=3, settings={"keep_checkpoints": 9})
    assert shims.run(attempt, 2) == 0
    assert closed(attempt) == ("completed", None)
    assert pack.digests() == alone.digests()
    assert [f"rank {rank} of 2" in text for rank, text in enumerate(logs(attempt))] == [True, True]
    beats = [read_heartbeat(attempt.of_rank(attempt.heartbeat, rank)) for rank in range(2)]
    assert [beat.step for beat in beats if beat is not None] == [6, 6]
    facts = [fact.fact for fact in pack.facts(1)]
    assert (facts.count("started"), facts.count("finished")) == (1, 2), "the first process speaks for all"
    names = {path.name for path in attempt.path.iterdir()}
    assert names >= {"claimed.json", "rendezvous.json", "exit.json"}
    assert not [name for name in names if re.search(r"(facts|metrics|claimed|closed)\.jsonl?\.rank", name)]


def test_3_02_one_of_four_processes_is_warned_and_all_leave_at_one_step(
    make_pack: Callable[..., Any], shims: Shims
) -> None:
    """Saved once, one exit code, no alarming lines; the next attempt goes on exactly."""
    config = {"steps": 12, "step_seconds": 0.01}
    alone = make_pack(config, name="alone")
    assert alone.run_here(alone.launch()) == 0
    pack = make_pack(config)
    first = pack.launch(settings={"toy": {"signal_at": 5, "signal": int(signal.SIGUSR2), "ranks": [2]}})
    assert shims.run(first, 4) == ExitCode.CHECKPOINTED
    assert closed(first) == ("preempted", FailureClass.PREEMPTED)
    record = read_closed(first.closed)
    assert record is not None
    assert (record.step, record.evidence["signal"]) == (5, "SIGUSR2")
    left = ended(first)
    assert (left["code"], left["ranks"]) == (ExitCode.CHECKPOINTED, 4)
    for text in logs(first):
        assert not re.search(r"Traceback|Error|Warning|Exception|gloo", text), text
    assert len(list(first.checkpoints.iterdir())) == 1
    second = pack.launch()
    assert shims.run(second, 2) == 0
    assert (pack.started(2).step, pack.started(2).exact) == (5, "exact"), "a toy's steps know nothing of processes"
    assert pack.digests() == alone.digests()


@pytest.mark.parametrize(
    ("fault", "failure", "code"),
    [
        ({"gpu_oom_at": 5}, FailureClass.GPU_OUT_OF_MEMORY, ExitCode.GPU_OUT_OF_MEMORY),
        ({"signal_at": 5}, None, None),
    ],
)
def test_4_10_one_process_fails_and_its_class_is_the_one_that_counts(
    make_pack: Callable[..., Any],
    shims: Shims,
    fault: dict[str, Any],
    failure: FailureClass | None,
    code: int | None,
) -> None:
    """What it can say itself it says; how it was killed its shim says. The others add nothing and do not wait."""
    pack = make_pack(SLOW)
    attempt = pack.launch(settings={"toy": {**fault, "ranks": [1]}})
    began = time.monotonic()
    assert shims.run(attempt, 2) == (code if code is not None else 128 + signal.SIGKILL)
    assert time.monotonic() - began < 60
    left = ended(attempt)
    assert (left["rank"], left["code"], left["signal"]) == (1, code, None if code is not None else signal.SIGKILL)
    if failure is None:
        assert not attempt.closed.exists(), "nobody guesses"
    else:
        assert closed(attempt) == ("failed", failure)
        record = read_closed(attempt.closed)
        assert record is not None
        assert record.message.startswith("rank 1: ")
    assert "rank 0 leaves: another process" in logs(attempt)[0]


def test_6_10_a_process_that_hangs_is_named_by_itself(make_pack: Callable[..., Any], shims: Shims) -> None:
    pack = make_pack(SLOW)
    attempt = pack.launch(hang_floor_s=5.0, settings={"toy": {"hang_at": 40, "ranks": [1]}, "heartbeat_s": 0.1})
    assert shims.run(attempt, 2) == ExitCode.HANG
    assert closed(attempt) == ("failed", FailureClass.HANG)
    record = read_closed(attempt.closed)
    assert record is not None
    assert re.fullmatch(r"rank 1: no step for 5 s", record.message)
    assert "most recent call first" in logs(attempt)[1]


def test_6_10_a_process_that_is_stopped_is_missed_by_the_others(
    make_pack: Callable[..., Any], shims: Shims, until: Callable[..., None]
) -> None:
    """It says nothing at all: the collective hangs, and ends with a class."""
    pack = make_pack(SLOW)
    attempt = pack.launch(hang_floor_s=5.0, settings={"heartbeat_s": 0.1})
    shim = shims.start(attempt, 2, peers_s=0.5)
    beat = attempt.of_rank(attempt.heartbeat, 1)
    until(lambda: (read := read_heartbeat(beat)) is not None and read.step > 3, "training")
    (pid,) = [int(p) for p in _children(shim.pid) if _rank(int(p)) == "1"]
    os.kill(pid, signal.SIGSTOP)
    assert shim.wait(60) == ExitCode.HANG
    assert closed(attempt) == ("failed", FailureClass.HANG)
    record = read_closed(attempt.closed)
    assert record is not None
    assert record.message == "rank 0: no step for 10 s, waiting for the other processes"


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def _rank(pid: int) -> str:
    environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return next((e.partition(b"=")[2].decode() for e in environ if e.startswith(b"RANK=")), "")


def test_nobody_joins_a_process_that_lost_the_claim(make_pack: Callable[..., Any], shims: Shims) -> None:
    pack = make_pack({"steps": 3})
    attempt = pack.launch()
    record = {"time": 0.0, "job": "another/7/0", "host": "h", "pid": 1}
    assert decide_file(attempt.claimed, record)
    assert shims.run(attempt, 2) == 0
    assert all("claimed or closed already" in text for text in logs(attempt))
    assert not attempt.rendezvous.exists()
    assert not attempt.facts.exists()


def test_6_04_a_port_that_is_taken_after_all_is_replaced(make_pack: Callable[..., Any]) -> None:
    """The port was free when it was asked for; the first process listens elsewhere, and says so to the others."""
    pack = make_pack({"steps": 3})
    attempt = pack.launch()
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        env = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "ORCHESTRATE_JOB": "orc/1/0"}
        both = [pack.start(attempt, env={**env, "RANK": str(rank)}) for rank in range(2)]
        assert [process.wait(60) for process in both] == [0, 0]
    (event,) = [event for event in pack.events(1) if event.name == "port_clash"]
    assert f"port {port} cannot be had" in event.message
    assert json.loads(attempt.rendezvous.read_bytes())["port"] != port
    assert closed(attempt) == ("completed", None)


def test_a_name_that_nobody_knows_is_not_passed_on() -> None:
    """Slurm's names for nodes need not be known to the machines."""
    assert reachable("127.0.0.1") == "127.0.0.1"
    assert reachable("no-such-machine.invalid") == reachable("")
    socket.getaddrinfo(reachable("no-such-machine.invalid"), 0)


def test_6_05_packs_of_several_processes_meet_side_by_side(make_pack: Callable[..., Any], shims: Shims) -> None:
    packs = [make_pack({"steps": 3, "note": str(n)}, name=str(n)) for n in range(2)]
    attempts = [pack.launch() for pack in packs]
    started = [shims.start(attempt, 2) for attempt in attempts]
    assert [shim.wait(120) for shim in started] == [0, 0]
    ports = {json.loads(attempt.rendezvous.read_bytes())["port"] for attempt in attempts}
    assert len(ports) == 2


def test_4_03_parts_of_four_processes_are_not_read_by_six(make_pack: Callable[..., Any], shims: Shims) -> None:
    """The planner refuses this before anything is queued; a worker that meets it all the same says why and trains
    nothing."""
    pack = make_pack({"steps": 9, "layout": "sharded"})
    first = pack.launch(checkpoint_steps=3, settings={"toy": {"error_at": 5}})
    assert shims.run(first, 2) == 1
    second = pack.launch(checkpoint_steps=3)
    assert pack.run(second) == ExitCode.CONFIG
    assert closed(second) == ("failed", FailureClass.USER_ERROR)
    record = read_closed(second.closed)
    assert record is not None
    assert "saved in parts by 2 processes, the plan asks for 1" in record.message


def test_3_04_a_warning_that_nobody_listens_to_is_an_error_at_the_start(make_pack: Callable[..., Any]) -> None:
    pack = make_pack({"steps": 3})
    attempt = pack.launch()
    assert pack.run_here(attempt, {"ORCHESTRATE_WARNING": "USR1"}) == ExitCode.CONFIG
    record = read_closed(attempt.closed)
    assert record is not None
    assert record.failure is FailureClass.USER_ERROR
    assert "asked to leave with USR1" in record.message
    assert pack.run_here(pack.launch(), {"ORCHESTRATE_WARNING": "USR2"}) == 0


def test_one_process_meets_nobody(make_pack: Callable[..., Any]) -> None:
    """No rendezvous, no torch, nothing to wait for."""
    pack = make_pack({"steps": 2})
    attempt = pack.launch()
    program = (
        "import sys; from pathlib import Path; from jobs.attempt import carry_out\n"
        "code = carry_out(Path(sys.argv[1]), {})\n"
        "print(code, [n for n in ('torch', 'jobs.process_group') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program, str(attempt.path)], capture_output=True, text=True)
    assert done.stdout == "0 []\n", done.stderr
    assert not attempt.rendezvous.exists()
