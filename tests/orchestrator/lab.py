"""What tests and benchmarks of the loop share: plans of toy runs, a clock, and pretended workers.

No test itself; loaded by path, because ``tests`` is not a package.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from jobs.admission import claim
from jobs.durable import AppendLog, replace_file
from jobs.facts import Finished, Started, close_attempt, fact_record
from jobs.launch import read_launch
from jobs.spec import InputRef, RunSpec, pack_id
from jobs.workspace import AttemptDir, Workspace


class Clock:
    """A clock that only tests move."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def pass_(self, seconds: float) -> None:
        self.now += seconds


def cell(
    config: Mapping[str, Any], seeds: Sequence[int], inputs: Mapping[str, InputRef] | None = None
) -> list[RunSpec]:
    """Toy runs of one cell."""
    return [RunSpec("toy", config, seed, inputs or {}) for seed in seeds]


def write_plan(
    workspace: Workspace,
    sweep: str,
    packs: Sequence[Sequence[RunSpec]],
    *,
    execution: Mapping[str, Any] | None = None,
    resources: Mapping[str, Any] | None = None,
    shapes: Sequence[str] | None = None,
    digest: str = "",
) -> list[str]:
    """Write ``plan.jsonl``. ``shapes[i]``: stack key of pack i. Returns the pack ids."""
    lines: list[dict[str, Any]] = [{"plan": 1, "sweep": sweep, "digest": digest or f"{time.time_ns()}"}]
    cells: dict[tuple[bytes, str], int] = {}
    runs, rows, ids = [], [], []
    for number, members in enumerate(packs):
        shape = shapes[number] if shapes else "toy"
        for spec in members:
            key = (orjson.dumps(dict(spec.config)), shape)
            if key not in cells:
                cells[key] = len(cells)
                lines.append(
                    {"cell": cells[key], "stage": "s", "runner": "toy", "config": spec.config, "labels": {}}
                    | {"shape": {"stack_key": shape}}
                )
            record = {"run": spec.id, "cell": cells[key], "seed": spec.seed, "labels": {"seed": spec.seed}}
            if spec.inputs:
                record["inputs"] = {name: ref.payload() for name, ref in spec.inputs.items()}
            runs.append(record)
        ids.append(pack_id([spec.id for spec in members]))
        rows.append(
            {"pack": ids[-1], "runs": [spec.id for spec in members], "stage": "s", "order": number}
            | {"resources": resources or {}, "execution": execution or {}}
        )
    path = workspace.plan(sweep)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, b"".join(orjson.dumps(line) + b"\n" for line in [*lines, *runs, *rows]))
    return ids


def pretend(place: Path, job: str, executions: list[tuple[str, int]] | None = None) -> Generator[None, None, int]:
    """A worker in steps, doing to the files what the real one does: claim, start, finish, close."""
    attempt = AttemptDir(place)
    yield
    launch = read_launch(attempt.launch)
    if not claim(attempt, job):
        return 0
    if executions is not None:
        executions.append((launch.pack, launch.attempt))
    yield
    if attempt.closed.exists():
        return 0
    log = AppendLog(attempt.facts)
    log.append(fact_record(Started(time=0.0, step=0, host="lab", pid=1, members=len(launch.members), threads=1)))
    for member in launch.members:
        if not member.done:
            log.append(fact_record(Finished(time=1.0, run=member.run, status="completed", step=1, seconds=1.0)))
    log.close()
    yield
    close_attempt(attempt, by="worker", outcome="completed", step=1)
    return 0
