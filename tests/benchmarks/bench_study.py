"""K8: the 8 x 8 x 6 study at width 16 and 150 steps on two cores, from the command to the page.

Its floor is what the trainers themselves measured in the same run: seconds of training, shared among the packs that
ran at once. What is above it is the start of processes, imports, waiting, and the report.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from jobs.facts import Finished, read_facts
from jobs.workspace import Workspace

SLOTS = 2


def training_seconds(root: Path) -> tuple[int, float]:
    """(finished runs, seconds of one process that their training took) of all packs of a workspace."""
    finished: list[Finished] = []
    for path in root.glob("packs/*/*/a*/facts.jsonl"):
        facts, _ = read_facts(path)
        finished += [fact for fact in facts if isinstance(fact, Finished)]
    return len({fact.run for fact in finished}), sum(fact.seconds for fact in finished)


def main() -> list[dict[str, Any]]:
    """One row; the study takes some minutes."""
    with tempfile.TemporaryDirectory(prefix="bench-study-") as folder:
        root = Workspace(Path(folder)).root
        argv = [sys.executable, "-P", "-m", "orchestrator.cli", "--root", str(root)]
        argv += ["sweep", "compat.yaml", "preset=bench", "--yes", "--max-in-flight", str(SLOTS)]
        begin = time.perf_counter()
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wall = time.perf_counter() - begin
        runs, seconds = training_seconds(root)
    return [
        {
            "id": "K8",
            "what": f"8 x 8 x 6 study, {runs} runs, 150 steps, width 16, {SLOTS} packs at once: wall / training",
            "ratio": wall / (seconds / SLOTS),
            "target": "<= 6 min",
            "seconds": wall,
        }
    ]


if __name__ == "__main__":
    print(main())
