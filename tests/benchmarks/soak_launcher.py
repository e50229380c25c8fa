"""The command under test, ``orchestrate sweep``, as a person would type it: started, killed, typed again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

CLI = (sys.executable, "-P", "-c", "from orchestrator.cli.main import main; main()")
RECIPE = Path(__file__).with_name("soak.yaml")
REPOSITORY = Path(__file__).parents[2]


def orchestrate_environment(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Ours is the code beside this file, and the index and the site profile lie in ``folder``."""
    return {
        **environ,
        "PYTHONPATH": str(REPOSITORY),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "ORCHESTRATE_SITE": str(folder / "site.yaml"),
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
    }


class Launcher:
    """One sweep by one command.

    Args:
        root: the workspace; log: what the command says goes there.
    """

    def __init__(
        self, root: Path, log: Path, *, packs: int, backend: str, in_flight: int, environ: Mapping[str, str]
    ) -> None:
        self._base = [*CLI, "--root", str(root)]
        options = ["--backend", backend, "--max-in-flight", str(in_flight), "--yes"]
        self._argv = [*self._base, "sweep", str(RECIPE), f"seeds={packs}", *options]
        self._log = log
        self._environ = dict(environ)
        self._process: subprocess.Popen[bytes] | None = None
        self.exits: Counter[str] = Counter()
        """How the command ended, each time: ``killed``, or its exit code."""
        self.starts = 0

    @property
    def pid(self) -> int | None:
        """Of a living command."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self) -> None:
        self.starts += 1
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                self._argv, env=self._environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0
            )

    def kill(self) -> int | None:
        """kill -9 of the command alone: an sbatch that it has just started lives on. The pid that was killed."""
        process = self._process
        if process is None or process.poll() is not None:
            return None
        process.send_signal(signal.SIGKILL)
        process.wait()
        self._process = None
        self.exits["killed"] += 1
        return process.pid

    def ended(self) -> int | None:
        """Exit code of a command that has left by itself, told once."""
        if self._process is None or (code := self._process.poll()) is None:
            return None
        self._process = None
        self.exits[f"exit {code}"] += 1
        return code

    def verb(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Another verb about the same workspace."""
        return subprocess.run(
            [*self._base, *words],
            env=self._environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def stop(self) -> None:
        """Whatever lives of it, and of what it started in its process group."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
