"""A worker process that trains a real pack is killed with SIGKILL, and the next attempt ends with the same bits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from jobs.checkpoint import newest_checkpoint
from jobs.durable import decide_file, read_log
from jobs.facts import Finished, Started, read_closed, read_facts
from jobs.runners import normalise
from jobs.spec import RunSpec, pack_id
from jobs.workspace import AttemptDir, Workspace

TASK = {"name": "parentheses", "max_pairs": 4, "train": 400, "validation": 40, "test": 40}
CONFIG = {
    "task": TASK,
    "model": {"width": 8, "heads": 2, "init_std": 0.1},
    "optimizer": {"name": "adamw", "lr": 0.01},
    "steps": 120,
    "batch_size": 8,
    "evaluate": {"points": 12},
    "t_task": 60,
}
PACKS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "train": ("train", [CONFIG, {**CONFIG, "steps": 50}, {**CONFIG, "optimizer": {"name": "adamw", "lr": 0.03}}]),
    "search": ("search", [{**CONFIG, "search": {"members": 2}}]),
}
INTERVAL = 10
DEADLINE_S = 60.0


class Pack:
    """One pack in a workspace, its workers started as a node starts them."""

    def __init__(self, root: Path, kind: str) -> None:
        self.root, (self.runner, configs) = root, PACKS[kind]
        self.configs = [normalise(self.runner, config) for config in configs]
        self.runs = [RunSpec(self.runner, config, seed).id for seed, config in enumerate(self.configs)]
        self.id = pack_id(self.runs)

    def attempt(self, number: int) -> AttemptDir:
        return Workspace(self.root).attempt(self.id, number)

    def start(self, number: int) -> subprocess.Popen[bytes]:
        attempt = self.attempt(number)
        attempt.path.mkdir(parents=True)
        done = self.finished()
        members = [
            {"run": run, "config": n, "seed": n, "done": run in done, "inputs": {}} for n, run in enumerate(self.runs)
        ]
        launch = {"pack": self.id, "attempt": number, "name": f"orc-{self.id}-a{number}", "runner": self.runner}
        launch |= {"members": members, "configs": self.configs, "root": str(self.root)}
        assert decide_file(attempt.launch, {**launch, "checkpoint_steps": INTERVAL, "checkpoint_seconds": None})
        argv = [sys.executable, "-P", "-m", "jobs.worker", str(attempt.path)]
        with open(attempt.log, "wb") as log:
            return subprocess.Popen(argv, stdout=log, stderr=log, env={**os.environ, "OMP_NUM_THREADS": "1"})

    def finish(self, number: int) -> None:
        process = self.start(number)
        assert process.wait(timeout=DEADLINE_S) == 0, self.attempt(number).log.read_text()
        closed = read_closed(self.attempt(number).closed)
        assert closed is not None
        assert closed.outcome == "completed"

    def kill_at_checkpoint(self, number: int, wanted: int) -> int:
        """SIGKILL when a checkpoint of at least that step is there; the step it had reached on disk."""
        process = self.start(number)
        deadline = time.monotonic() + DEADLINE_S
        names: list[str] = []
        while not any(int(name[5:13]) >= wanted for name in names):
            assert time.monotonic() < deadline
            assert process.poll() is None, self.attempt(number).log.read_text()
            checkpoints = self.attempt(number).checkpoints
            names = [n for n in os.listdir(checkpoints) if n.startswith("step-")] if checkpoints.exists() else []
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        newest, _ = newest_checkpoint(self.attempt(number).checkpoints, done=self.finished())
        assert newest is not None
        return newest.step

    def facts(self, kind: type) -> list[Any]:
        found: list[Any] = []
        for attempt in Workspace(self.root).attempts(self.id):
            found += [fact for fact in read_facts(attempt.facts)[0] if isinstance(fact, kind)]
        return found

    def finished(self) -> dict[str, Finished]:
        facts = self.facts(Finished)
        assert len({fact.run for fact in facts}) == len(facts), "a run finished twice"
        return {fact.run: fact for fact in facts}

    def outcome(self) -> Any:
        rows: dict[tuple[str, int], Any] = {}
        for attempt in Workspace(self.root).attempts(self.id):
            for row in read_log(attempt.metrics)[0]:
                rows[row.pop("run"), row.pop("step")] = row
        ends = {
            run: (fact.status, fact.step, fact.summary, {name: p.sha256 for name, p in fact.products.items()})
            for run, fact in self.finished().items()
        }
        return rows, ends


@pytest.mark.parametrize("kind", ["train", "search"])
def test_kill_minus_9_loses_less_than_an_interval_and_no_bit(tmp_path: Path, kind: str) -> None:
    whole, killed = Pack(tmp_path / "whole", kind), Pack(tmp_path / "killed", kind)
    whole.finish(1)
    assert set(whole.finished()) == set(whole.runs)
    wanted = {"train": [INTERVAL, 6 * INTERVAL], "search": [4 * INTERVAL]}[kind]
    saved = [killed.kill_at_checkpoint(number, step) for number, step in enumerate(wanted, start=1)]
    assert all(step >= least for step, least in zip(saved, wanted, strict=True))
    killed.finish(len(wanted) + 1)
    starts: list[Started] = killed.facts(Started)
    assert [start.step for start in starts] == [0, *saved]
    assert [start.exact for start in starts] == [None, *["exact"] * len(wanted)]
    assert killed.outcome() == whole.outcome()
