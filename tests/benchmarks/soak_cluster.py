"""The soak's own Slurm: brought up by tests/slurm/up.sh in a directory and on ports of its own, hurt and mended piece
by piece. Nothing here knows runs."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

SCRIPTS = Path(__file__).parents[1] / "slurm"
OURS = ("SLURM_", "SBATCH_", "SRUN_", "ORCHESTRATE_")


@dataclass(frozen=True)
class Element:
    """One array element as squeue shows it: ``id`` is ``<array>_<task>``, ``raw`` the job's own number."""

    id: str
    raw: str
    state: str
    node: str
    reason: str


class Cluster:
    """Eight nodes of one CPU each, so that a pack has a node to itself.

    Args:
        directory: state, logs and configuration.
    """

    def __init__(self, directory: Path, *, nodes: int = 8, base_port: int = 17400) -> None:
        self.directory = directory
        self.nodes = [f"node{number:03d}" for number in range(1, nodes + 1)]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
        self.environ: Mapping[str, str] = {
            **kept,
            "PATH": f"{kept.get('PATH', '')}:/usr/sbin:/sbin",
            "SLURM_CONF": str(directory / "etc" / "slurm.conf"),
            "SLURM_TEST_DIR": str(directory),
        }
        self._settings = {
            "NODES": str(nodes), "CPUS": "1", "GPUS": "0", "BASE_PORT": str(base_port), "HOSTS": "0", "LINK_ETC": "0",
            "SLURMD_TIMEOUT": "20", "MIN_JOB_AGE": "60", "REQUEUE_WAIT": "10", "KILL_WAIT": "20",
        }  # fmt: skip

    def up(self) -> None:
        """Start whatever is missing; raises CalledProcessError with what was said."""
        self._script("up.sh", 240)

    def down(self) -> None:
        self._script("down.sh", 120)

    def _script(self, name: str, timeout_s: float) -> None:
        argv = ["bash", str(SCRIPTS / name), str(self.directory)]
        done = subprocess.run(
            argv,
            env={**self.environ, **self._settings},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{name}: {done.stderr[-2000:]}")

    # Asking and ordering

    def order(self, *argv: str, timeout_s: float = 15.0) -> str | None:
        """What a command of Slurm's prints; None where it fails or does not answer."""
        try:
            done = subprocess.run(
                argv, env=dict(self.environ), capture_output=True, text=True, timeout=timeout_s, check=False
            )
        except subprocess.TimeoutExpired:
            return None
        return done.stdout if done.returncode == 0 else None

    def queue(self) -> list[Element] | None:
        """Elements that are not over, one a line; None where the controller does not answer."""
        text = self.order("squeue", "-h", "-r", "-a", "-o", "%i|%A|%T|%N|%r")
        if text is None:
            return None
        return [Element(*line.split("|", 4)) for line in text.splitlines() if line.count("|") >= 4]

    def node_states(self) -> dict[str, str]:
        """Node -> state as sinfo says it, empty where the controller does not answer."""
        text = self.order("sinfo", "-h", "-N", "-p", "gpu", "-o", "%N %T") or ""
        return dict(line.split(None, 1) for line in text.splitlines() if " " in line)

    # Hurting

    def pid(self, daemon: str) -> int | None:
        """Of a living daemon (``slurmctld``, ``slurmd.node003``)."""
        try:
            pid = int((self.directory / "run" / f"{daemon}.pid").read_text())
            comm = Path(f"/proc/{pid}/comm").read_text().strip()
        except (OSError, ValueError):
            return None
        return pid if comm == daemon.partition(".")[0] else None

    def kill(self, daemon: str) -> int | None:
        """kill -9; the pid that was killed."""
        pid = self.pid(daemon)
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
        return pid

    def start(self, daemon: str) -> None:
        """As up.sh starts it."""
        if self.pid(daemon) is not None:
            return
        program, _, node = daemon.partition(".")
        argv = ["setsid", program, "-f", str(self.directory / "etc" / "slurm.conf"), *(["-N", node] if node else [])]
        with open(self.directory / "log" / "start.log", "ab") as log:
            subprocess.run(
                argv, env=dict(self.environ), stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=30, check=False
            )

    def steps(self, raw: str) -> list[psutil.Process]:
        """The slurmstepd of a job and everything below it."""
        found: list[psutil.Process] = []
        for process in _processes():
            line = " ".join(process.info["cmdline"] or ())
            if line.startswith(f"slurmstepd: [{raw}.") and self._is_ours(process):
                with contextlib.suppress(psutil.NoSuchProcess):
                    found += [*process.children(recursive=True), process]
        return found

    def _is_ours(self, process: psutil.Process) -> bool:
        """Another cluster of this machine may have given the same number to a job."""
        with contextlib.suppress(psutil.Error, OSError):
            return any(Path(file.path).is_relative_to(self.directory) for file in process.open_files())
        return False

    def kill_steps(self, raw: str) -> int:
        """kill -9; how many processes that were."""
        killed = 0
        for process in self.steps(raw):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
                killed += 1
        return killed

    def settle(self, seconds: float = 90.0) -> list[Element]:
        """Wait until the queue is empty; what is left then."""
        end = time.monotonic() + seconds
        while (left := self.queue()) != [] and time.monotonic() < end:
            time.sleep(0.5)
        return left if left is not None else [Element("?", "?", "the controller does not answer", "", "")]


def _processes() -> Iterator[psutil.Process]:
    return psutil.process_iter(["cmdline"])
