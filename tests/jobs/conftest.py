"""A pack on disk, and ways to carry its attempts out: in this process, or as the worker process that a node runs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from jobs import signals
from jobs.attempt import carry_out
from jobs.durable import decide_file
from jobs.facts import Event, Fact, Finished, Started, read_facts
from jobs.spec import RunSpec, pack_id
from jobs.state import finished_facts, read_pack
from jobs.workspace import AttemptDir, Workspace


class Pack:
    """One pack of toy runs (seeds 0, 1, ...) in a workspace of its own."""

    def __init__(self, root: Path, configs: list[dict[str, Any]]) -> None:
        self.root = root
        self.configs = configs
        self.runs = [RunSpec("toy", config, seed).id for seed, config in enumerate(configs)]
        self.id = pack_id(self.runs)
        self.path = Workspace(root).pack(self.id)
        self._processes: list[subprocess.Popen[bytes]] = []

    def attempt(self, number: int) -> AttemptDir:
        return Workspace(self.root).attempt(self.id, number)

    def launch(self, **changes: Any) -> AttemptDir:
        """Link the next attempt's ``launch.json`` as the loop does: what has finished is masked."""
        records = read_pack(self.path) if self.path.exists() else []
        done = {run for run, fact in finished_facts(records).items()}
        number = records[-1].number + 1 if records else 1
        attempt = self.attempt(number)
        attempt.path.mkdir(parents=True)
        launch = {
            "pack": self.id,
            "attempt": number,
            "name": f"orc-{self.id}-a{number}",
            "runner": "toy",
            "members": [
                {"run": run, "config": n, "seed": n, "done": run in done, "inputs": {}}
                for n, run in enumerate(self.runs)
            ],
            "configs": self.configs,
            "root": str(self.root),
            "checkpoint_seconds": None,
            **changes,
        }
        assert decide_file(attempt.launch, launch)
        return attempt

    def start(
        self,
        attempt: AttemptDir,
        *,
        env: Mapping[str, str] | None = None,
        preexec_fn: Callable[[], object] | None = None,
        process_group: int | None = None,
    ) -> subprocess.Popen[bytes]:
        """The worker as a process; its output goes to the attempt's log."""
        with open(attempt.log, "ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "jobs.worker", str(attempt.path)],
                stdout=log,
                stderr=log,
                cwd=attempt.path,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
                preexec_fn=preexec_fn,
                process_group=process_group,
            )
        self._processes.append(process)
        return process

    def run(self, attempt: AttemptDir, **options: Any) -> int:
        """The worker as a process, to its end; the exit code (negative: the signal that ended it)."""
        return self.start(attempt, **options).wait(timeout=60)

    def run_here(self, attempt: AttemptDir, environ: Mapping[str, str] | None = None) -> int:
        return carry_out(attempt.path, environ or {})

    def finished(self) -> dict[str, Finished]:
        return finished_facts(read_pack(self.path))

    def digests(self) -> dict[str, Any]:
        """Run -> digest over all that it did."""
        return {run: fact.summary["digest"] for run, fact in self.finished().items()}

    def facts(self, number: int) -> list[Fact]:
        return read_facts(self.attempt(number).facts)[0]

    def events(self, number: int) -> list[Event]:
        return [fact for fact in self.facts(number) if isinstance(fact, Event)]

    def started(self, number: int) -> Started:
        return next(fact for fact in self.facts(number) if isinstance(fact, Started))

    def close(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
                process.wait()


@pytest.fixture
def make_pack(tmp_path: Path) -> Iterator[Callable[..., Pack]]:
    """``make_pack({...}, {...}, name="x")``: a pack with these toy configs, in a workspace named ``name``."""
    packs: list[Pack] = []

    def make(*configs: dict[str, Any], name: str = "runs", root: Path | None = None) -> Pack:
        packs.append(Pack(root or tmp_path / name, list(configs)))
        return packs[-1]

    signals.forget()
    yield make
    signals.forget()
    for pack in packs:
        pack.close()


@pytest.fixture
def until() -> Callable[..., None]:
    """``until(condition)``: poll a condition of another process, for 20 seconds at most."""

    def wait(condition: Callable[[], object], what: str = "the condition") -> None:
        deadline = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < deadline, f"{what} never came true"
            time.sleep(0.005)

    return wait
