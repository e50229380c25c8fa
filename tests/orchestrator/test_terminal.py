"""The command as a person meets it: real processes in terminals that are closed, interrupted, or two at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.process_id import process_token
from jobs.facts import Claimed, Finished, read_claimed
from jobs.state import read_pack
from jobs.workspace import Workspace

DEADLINE_S = 40.0


class Terminal:
    """Commands in sessions of their own, on one workspace."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.space = Workspace(folder / "runs")
        self.started: list[subprocess.Popen[str]] = []

    def sweep_file(self, **config: Any) -> None:
        """Four packs of one run each, one of two factors' levels."""
        content = {
            "name": "toy",
            "runner": "toy",
            "factors": {"arm": {"one": {"note": "one"}, "two": {"note": "two"}}},
            "seeds": 2,
            "config": {"steps": 3, **config},
            "execution": {"checkpoint_steps": 5},
        }
        (self.folder / "toy.yaml").write_text(yaml.safe_dump(content))

    def type(self, *arguments: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-P", "-m", "orchestrator.cli", *arguments]
        pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
        process = subprocess.Popen(argv, cwd=self.folder, text=True, start_new_session=True, **pipes)
        self.started.append(process)
        return process

    def wait(self, process: subprocess.Popen[str]) -> tuple[int, str, str]:
        out, err = process.communicate(timeout=DEADLINE_S)
        return process.returncode, out, err

    def run(self, *arguments: str) -> tuple[int, str, str]:
        return self.wait(self.type(*arguments))

    def until(self, what: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + DEADLINE_S
        while not (found := what()):
            assert time.monotonic() < deadline, "it never came"
            time.sleep(0.02)
        return found

    def counts(self) -> dict[str, int]:
        code, out, err = self.run("status", "--json")
        assert code == 0, err
        counts = json.loads(out)["sweeps"][0]["counts"]
        return {state: count for state, count in counts.items() if count}

    def claims(self) -> list[Claimed]:
        """Who began an attempt."""
        claims = [read_claimed(path) for path in self.space.packs.glob("*/*/a*/claimed.json")]
        return [claim for claim in claims if claim is not None]

    def workers(self) -> list[int]:
        """Workers that are alive."""
        return [claim.pid for claim in self.claims() if process_token(claim.pid) is not None]

    def executions(self) -> dict[str, int]:
        """Run -> how often it was finished."""
        found: dict[str, int] = {}
        for pack in self.space.packs.glob("*/*"):
            for record in read_pack(pack):
                for fact in record.facts:
                    if isinstance(fact, Finished):
                        found[fact.run] = found.get(fact.run, 0) + 1
        return found


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path)
    yield terminal
    for process in terminal.started:
        if process.poll() is None:
            process.kill()
            process.communicate()
    for pid in terminal.workers():
        os.kill(pid, signal.SIGKILL)


def test_typed_twice_at_once_in_two_terminals_one_of_them_detached(terminal: Terminal) -> None:
    terminal.sweep_file()
    here, away = terminal.type("sweep", "toy.yaml"), terminal.type("sweep", "toy.yaml", "--detach")
    code, out, err = terminal.wait(away)
    assert code == 0, err
    assert "runs in the background" in out
    watcher = int(out.split("process ")[1].split(")")[0])
    assert os.getsid(watcher) == watcher, "a session of its own: closing the terminal does not reach it"
    code, out, err = terminal.wait(here)
    assert code == 0, err
    assert f"Report: {terminal.space.report('toy') / 'index.html'}" in out
    terminal.until(lambda: process_token(watcher) is None)
    assert "Report:" in (terminal.space.sweep("toy") / "watch.log").read_text()
    assert list(terminal.executions().values()) == [1] * 4, "nothing was run twice"
    assert all(not (path / "a2").exists() for path in terminal.space.packs.glob("*/*"))
    assert terminal.counts() == {"completed": 4}


def test_8_04_an_interrupted_or_closed_terminal_only_ends_the_watching(terminal: Terminal) -> None:
    """The launching process had to stay alive on the login node."""
    terminal.sweep_file(steps=120, step_seconds=0.02)
    limit = ("--max-in-flight", "1")
    for command, number in ((("sweep", "toy.yaml"), signal.SIGINT), (("watch", "toy"), signal.SIGHUP)):
        seen = len(terminal.claims())
        watching = terminal.type(*command, *limit)
        terminal.until(lambda seen=seen: len(terminal.claims()) > seen and terminal.workers())
        watching.send_signal(number)
        code, _, err = terminal.wait(watching)
        assert code == 130
        assert "what was launched goes on" in err
        report = " --report" if command[0] == "sweep" else ""
        assert f"Take up again with the same command, or: orchestrate watch toy{report} --max-in-flight 1\n" in err
        assert "Traceback" not in err
        assert terminal.workers(), "jobs outlive the terminal"
    assert terminal.counts().get("pending", 0) > 0
    code, out, err = terminal.run("watch")
    assert code == 0, err
    assert out.startswith("4/4 runs"), out
    assert terminal.counts() == {"completed": 4}
    assert set(terminal.executions().values()) == {1}


def test_a_cancel_with_no_loop_alive_is_carried_out_by_watch_once(terminal: Terminal) -> None:
    terminal.sweep_file(steps=2000, step_seconds=0.02)
    first = terminal.type("sweep", "toy.yaml", "--max-in-flight", "2")
    terminal.until(lambda: len(terminal.workers()) == 2)
    first.kill()
    first.communicate()
    assert len(terminal.workers()) == 2
    code, _, err = terminal.run("cancel", "--sweep", "toy", "--yes")
    assert code == 0, err
    assert len(terminal.workers()) == 2, "the request is only a file"
    assert terminal.run("watch", "--once")[0] == 0
    terminal.until(lambda: not terminal.workers())
    assert terminal.run("watch", "--once")[0] == 0
    assert terminal.counts() == {"cancelled": 4}
    saved = list(terminal.space.packs.glob("*/*/checkpoints/step-*"))
    assert len(saved) >= 2, "each could save before it left"


def test_a_worker_that_does_not_listen_is_killed_by_the_next_watch_once(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TERM first; whoever looks again when its time is over makes it leave, though the first loop is long gone."""
    from dataclasses import replace

    from cluster.local_backend import LocalBackend
    from orchestrator.loop import Loop
    from orchestrator.planning import commit, prepare
    from orchestrator.policy import LOCAL
    from orchestrator.requests import write_request

    terminal.sweep_file(steps=2000, step_seconds=0.02, faults={"ignore_signals": True})
    space = terminal.space
    prepared = prepare(space, str(terminal.folder / "toy.yaml"))
    commit(space, prepared)
    policy = replace(LOCAL, probe=False, max_in_flight=1, cancel_grace_s=60.0)
    clock = [1000.0]

    def once() -> None:
        loop = Loop(space, LocalBackend(), policy, code="", clock=lambda: clock[0])
        loop.tick()
        loop.close()

    once()
    (pid,) = terminal.until(terminal.workers)
    terminal.until(lambda: any(path.stat().st_size for path in space.packs.glob("*/*/a1/facts.jsonl")))
    time.sleep(0.1)  # the toy ignores signals right after its started fact
    write_request(space, "cancel", {run.id: 1 for run in prepared.design.runs})
    once()
    once()
    assert terminal.workers() == [pid], "it was asked, and has its time"
    clock[0] += 61.0
    once()
    terminal.until(lambda: not terminal.workers())

    def settled() -> bool:
        once()  # the shim may need a moment longer than its worker
        return terminal.counts() == {"cancelled": 4}

    terminal.until(settled)


def test_json_is_all_that_a_script_reads(terminal: Terminal) -> None:
    terminal.sweep_file()
    code, out, err = terminal.run("sweep", "toy.yaml", "--json")
    assert (code, json.loads(out)["counts"]["completed"]) == (0, 4)
    assert "Report: " in err
    assert "Next: " in err
    code, out, err = terminal.run("watch", "--once", "--report", "--json")
    assert (code, json.loads(out)["done"]) == (0, True)
    assert "Report: " in err
    code, out, _ = terminal.run("sweep", "toy.yaml", "--detach", "--json")
    told = json.loads(out)
    assert (code, told["sweep"]) == (0, "toy")
    terminal.until(lambda: process_token(told["process"]) is None)
    assert "Report: " in Path(told["log"]).read_text()
