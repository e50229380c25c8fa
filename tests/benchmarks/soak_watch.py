"""What a sweep costs and what its weights were on the way, seen from outside: a thread that looks again and again.

CPU time is read from the process table, so that of processes which were killed counts up to the last look before it.
Checkpoints are gone when a pack has finished; what is kept of them is the sha256 of their tensors.
"""

from __future__ import annotations

import json
import re
import threading
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import psutil

LOOK_S = 1.0
CHECKPOINT = re.compile(r"step-(\d+)-a(\d+)")
SLURM = ("slurmctld", "slurmd", "slurmstepd", "slurmdbd", "mariadbd", "munged")


def kind_of(cmdline: Sequence[str], root: str, cluster: str) -> str | None:
    """``trainers``, ``shims``, ``launchers`` or ``Slurm``; None: not ours.

    Args:
        root: the workspace; cluster: the directory of our own Slurm, "" for none.
    """
    line = " ".join(cmdline)
    if cluster and cmdline and Path(cmdline[0].rstrip(":")).name in SLURM:
        return "Slurm" if cluster in line or line.startswith("slurmstepd") else None
    if root not in line:
        return None
    if "jobs.worker" in line and "cluster.launch_shim" not in line:
        return "trainers"
    if "cluster.launch_shim" in line:
        return "shims"
    return "launchers" if "orchestrator.cli.main" in line else None


class Watch(threading.Thread):
    """Looks at one workspace until ``stop``.

    Attributes:
        weights: (pack, step) -> sha256 of every checkpoint that was seen there, whichever attempt wrote it.
    """

    def __init__(self, root: Path, cluster: Path | None = None) -> None:
        super().__init__(daemon=True)
        self._root, self._cluster = root, str(cluster or "")
        self._over = threading.Event()
        self._seconds: dict[tuple[int, float], tuple[str, float]] = {}
        self._seen: set[Path] = set()
        self.weights: defaultdict[tuple[str, int], set[str]] = defaultdict(set)

    def run(self) -> None:
        while not self._over.wait(LOOK_S):
            self._look_at_processes()
            self._look_at_checkpoints()

    def stop(self) -> None:
        self._over.set()
        self.join()

    def cpu(self) -> dict[str, float]:
        """Kind -> seconds of CPU so far."""
        total: defaultdict[str, float] = defaultdict(float)
        for kind, seconds in list(self._seconds.values()):
            total[kind] += seconds
        return dict(total)

    def _look_at_processes(self) -> None:
        for process in psutil.process_iter(["pid", "create_time", "cmdline", "cpu_times"]):
            times = process.info["cpu_times"]
            kind = kind_of(process.info["cmdline"] or (), str(self._root), self._cluster)
            if kind is not None and times is not None:
                key = process.info["pid"], process.info["create_time"]
                self._seconds[key] = kind, times.user + times.system

    def _look_at_checkpoints(self) -> None:
        for place in self._root.glob("packs/*/*/checkpoints/step-*"):
            named = CHECKPOINT.fullmatch(place.name)
            if named is None or place in self._seen:
                continue
            try:
                manifest = json.loads((place / "manifest.json").read_bytes())
            except (OSError, ValueError):
                continue  # it is being removed
            self._seen.add(place)
            for name, entry in manifest["files"].items():
                if name.endswith(".safetensors"):
                    self.weights[place.parents[1].name, int(named[1])].add(entry["sha256"])
