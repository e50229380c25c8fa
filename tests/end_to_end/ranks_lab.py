"""Sweeps of real training by several processes, for tests here and on a real Slurm. Loaded by path."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson

from jobs.durable import read_log, replace_file
from jobs.facts import Closed, Finished, Started, read_claimed, read_closed
from jobs.spec import RunSpec, pack_id
from jobs.state import read_pack
from jobs.workspace import AttemptDir, Workspace

CONFIG: dict[str, Any] = {
    "task": {"name": "memorize", "values": 6},
    "model": {"width": 8, "heads": 2, "init_std": 0.1},
    "optimizer": {"lr": 0.01},
    "batch_size": 8,
    "evaluate": {"points": 4},
    "strategy": "ddp",
}


class RanksSweep:
    """Packs of two runs, each pack carried out by several processes."""

    def __init__(self, folder: Path, *, packs: int, steps: int, resources: Mapping[str, Any]) -> None:
        self.workspace = Workspace(folder)
        config = {**CONFIG, "steps": steps}
        head = [{"plan": 1, "sweep": "ranks", "digest": f"{time.time_ns()}"}]
        cell = {"cell": 0, "stage": "s", "runner": "train", "config": config, "labels": {}, "shape": {"stack_key": "t"}}
        members = [[RunSpec("train", config, 2 * n + m) for m in range(2)] for n in range(packs)]
        runs = [
            {"run": s.id, "cell": 0, "seed": s.seed, "labels": {"seed": s.seed}} for specs in members for s in specs
        ]
        self.packs = [pack_id([spec.id for spec in specs]) for specs in members]
        execution = {"checkpoint_steps": 50, "threads": 1, "hang_floor_s": 120.0}
        lines = [
            {"pack": pack, "runs": [s.id for s in specs], "stage": "s", "order": n}
            | {"resources": dict(resources), "execution": execution}
            for n, (pack, specs) in enumerate(zip(self.packs, members, strict=True))
        ]
        path = self.workspace.plan("ranks")
        path.parent.mkdir(parents=True)
        replace_file(path, b"".join(orjson.dumps(line) + b"\n" for line in [*head, cell, *runs, *lines]))

    def attempts(self, pack: int = 0) -> list[AttemptDir]:
        return self.workspace.attempts(self.packs[pack])

    def closed(self, pack: int = 0) -> list[Closed]:
        return [found for a in self.attempts(pack) if (found := read_closed(a.closed)) is not None]

    def started(self, pack: int = 0) -> list[Started]:
        records = read_pack(self.workspace.pack(self.packs[pack]))
        return [fact for record in records for fact in record.facts if isinstance(fact, Started)]

    def claimed(self, pack: int = 0) -> str:
        """The job of the newest attempt: ``<name>/<id>/<restarts>``."""
        record = read_claimed(self.attempts(pack)[-1].claimed)
        assert record is not None
        return record.job

    def saved(self, pack: int = 0) -> bool:
        """Its newest attempt has saved a checkpoint."""
        attempts = self.attempts(pack)
        return bool(attempts) and attempts[-1].facts.exists() and b"checkpointed" in attempts[-1].facts.read_bytes()

    def outcome(self) -> dict[str, Any]:
        """Run -> all that it has to say: how it ended, and every row of metrics, later attempts' over earlier ones'."""
        found: dict[str, Any] = {}
        rows: dict[str, dict[int, Any]] = {}
        for number, pack in enumerate(self.packs):
            for attempt in self.attempts(number):
                for row in read_log(attempt.metrics)[0] if attempt.metrics.exists() else ():
                    rows.setdefault(row["run"], {})[row["step"]] = row
            for record in read_pack(self.workspace.pack(pack)):
                for fact in record.facts:
                    if isinstance(fact, Finished):
                        assert fact.run not in found, "finished twice"
                        found[fact.run] = (fact.status, fact.step, fact.summary, fact.exact)
        return {run: (how, rows[run]) for run, how in found.items()}

    def kill(self, rank: int, pack: int = 0, number: int = signal.SIGKILL) -> None:
        """Signal one process of the newest attempt, on this machine."""
        place = str(self.attempts(pack)[-1].path).encode()
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                environ = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"jobs.worker" in words and place in words and b"RANK=%d" % rank in environ:
                os.kill(int(entry.name), number)
                return
        raise AssertionError(f"no process of rank {rank}")


def tick_until(loop: Any, what: Callable[[Any], object], seconds: float = 120.0) -> Any:
    end = time.monotonic() + seconds
    while True:
        report = loop.tick()
        if what(report):
            return report
        assert time.monotonic() < end, report
        time.sleep(0.1)
