"""O1 and O2: planning 100,000 runs into a plan file, and planning them again when nothing has changed.

The floor is what no planner can do without: a hash and a line of JSON for each run, and one bulk write to a bare SQLite
file. Each measurement runs in a process of its own, so that memory is that of the plan alone.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

FILE = """
name: study
runner: toy
config: {steps: 100}
factors:
  task: {path: note, values: [a, b, c, d, e, f, g, h]}
  architecture: {path: level, values: [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]}
seeds: SEEDS
pack: {by: [task, seed], max: 16}
analysis: {baseline: {architecture: 0.1}}
"""


def measure(seeds: int) -> dict[str, Any]:
    """Seconds of a first plan, of the same plan again, and of the floor, for 64 x ``seeds`` runs."""
    from jobs.workspace import Workspace
    from orchestrator.planning import commit, prepare

    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "study.yaml"
        source.write_text(FILE.replace("SEEDS", str(seeds)))
        space = Workspace(Path(folder) / "runs")

        def plan() -> tuple[int, int]:
            prepared = prepare(space, str(source))
            commit(space, prepared)
            return len(prepared.design.runs), len(prepared.design.runs) * prepared.changed

        first, (runs, _) = _timed(plan)
        megabytes = _peak_megabytes()
        again, (_, written) = _timed(plan)
        floor, _ = _timed(lambda: _floor(Path(folder) / "floor.sqlite", runs))
    return {"runs": runs, "first": first, "again": again, "written": written, "floor": floor, "megabytes": megabytes}


def _floor(path: Path, runs: int) -> None:
    rows = []
    for seed in range(runs):
        line = orjson.dumps({"runner": "toy", "config": {"steps": 100, "note": "a", "level": 0.1}, "seed": seed})
        rows.append((hashlib.sha256(line).hexdigest()[:15], line))
    with sqlite3.connect(path) as database:
        database.execute("create table runs (id text primary key, spec blob)")
        database.executemany("insert into runs values (?, ?)", rows)
    database.close()


def _peak_megabytes() -> float:
    """Most memory of this process. Not ``ru_maxrss``: a child begins with that of the process that started it."""
    return int(re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[0]) / 1e3


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def _apart(seeds: int) -> dict[str, Any]:
    done = subprocess.run([sys.executable, __file__, str(seeds)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main() -> list[dict[str, object]]:
    """Rows of O1 (against the floor, and against a tenth of the runs) and O2."""
    small, large = _apart(157), _apart(1563)
    runs, megabytes = large["runs"], large["megabytes"]
    return [
        {
            "id": "O1",
            "what": f"plan {runs} runs, {megabytes:.0f} MB / (hash, serialise, bare sqlite)",
            "ratio": large["first"] / large["floor"],
            "target": "<= 1.5 (3 s, 500 MB)",
            "seconds": large["first"],
        },
        {
            "id": "O1",
            "what": f"plan {runs} runs / plan {small['runs']}",
            "ratio": large["first"] / small["first"],
            "target": "<= 11",
            "seconds": large["first"],
        },
        {
            "id": "O2",
            "what": f"plan the same {runs} runs again, {large['written']} rows written / first plan",
            "ratio": large["again"] / large["first"],
            "target": "0 rows (1.5 s)",
            "seconds": large["again"],
        },
    ]


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
