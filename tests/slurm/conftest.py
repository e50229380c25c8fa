"""``proof``: helpers; ``real``: the real Slurm that run.sh has brought up, and ways to hurt it; ``sweeps``: sweeps that
are compared with what the same packs give where nobody hurts them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture(scope="session")
def proof(helpers: Callable[[str], ModuleType]) -> ModuleType:
    return helpers("slurm/proof.py")


class Real:
    """The cluster in $SLURM_TEST_DIR."""

    def __init__(self) -> None:
        self.directory = Path(os.environ["SLURM_TEST_DIR"])
        self._hurt: set[str] = set()

    def sh(self, command: str) -> str:
        done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout.strip()

    def repair(self) -> None:
        """Start what is missing."""
        up = Path(__file__).with_name("up.sh")
        subprocess.run(["bash", str(up), str(self.directory)], check=True, capture_output=True, timeout=300)

    def heal(self) -> None:
        """Undo what a test has done to daemons and nodes, also one that failed."""
        if self._hurt:
            self.repair()
        for node in self._hurt:
            self.back(node)
        self._hurt = set()

    def pid(self, daemon: str) -> int:
        return int((self.directory / "run" / f"{daemon}.pid").read_text())

    def kill(self, daemon: str) -> None:
        self._hurt.add(daemon.rpartition(".")[2])
        os.kill(self.pid(daemon), signal.SIGKILL)

    def steps(self, job: str) -> list[int]:
        """The slurmstepd of a job (by its raw id) and all below it."""
        import psutil

        found = []
        for process in psutil.process_iter(["cmdline"]):
            if " ".join(process.info["cmdline"] or ()).startswith(f"slurmstepd: [{job}."):
                found += [child.pid for child in process.children(recursive=True)] + [process.pid]
        return found

    def kill_steps(self, job: str) -> int:
        """kill -9; how many processes that were."""
        pids = self.steps(job)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return len(pids)

    def node_of(self, job: str) -> str:
        return self.sh(f"squeue -h -j {job} -o %N")

    def raw(self, job: str) -> str:
        return self.sh(f"squeue -h -j {job} -o %A")

    def state(self, job: str) -> str:
        done = subprocess.run(
            ["squeue", "-h", "-t", "all", "-j", job, "-o", "%T"], capture_output=True, text=True, check=False
        )
        return done.stdout.strip()

    def down(self, node: str) -> None:
        self._hurt.add(node)
        self.sh(f"scontrol update nodename={node} state=down reason=test")

    def back(self, node: str) -> None:
        subprocess.run(["scontrol", "update", f"nodename={node}", "state=resume"], check=False, capture_output=True)

    @staticmethod
    def until(what: Callable[[], object], seconds: float = 400.0) -> None:
        end = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < end, f"waited {seconds} s in vain"
            time.sleep(0.2)


@pytest.fixture(scope="session")
def real() -> Iterator[Real]:
    assert "SLURM_CONF" in os.environ, "no cluster: use tests/slurm/run.sh"
    real = Real()
    yield real
    subprocess.run("squeue -h -o %A | sort -un | xargs -r scancel", shell=True, check=False)


class Sweeps:
    """Makes sweeps (``proof.Sweep``) and keeps them for a second look."""

    def __init__(self, proof: ModuleType, places: pytest.TempPathFactory) -> None:
        self._proof = proof
        self._places = places
        self._known: dict[str, dict[int, str]] = {}
        self.made: list[Any] = []

    def make(self, folder: Path, profile: Any, **options: Any) -> Any:
        self.made.append(self._proof.Sweep(folder, profile=profile, reference=self.undisturbed, **options))
        return self.made[-1]

    def undisturbed(self, **options: Any) -> dict[int, str]:
        """Results of the same packs on the local backend, left alone; each once."""
        key = json.dumps(options, sort_keys=True)
        if key not in self._known:
            self._known[key] = self._proof.local_digests(self._places.mktemp("local") / "s", **options)
        return self._known[key]


@pytest.fixture(scope="session")
def sweeps(proof: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Sweeps:
    return Sweeps(proof, tmp_path_factory)
