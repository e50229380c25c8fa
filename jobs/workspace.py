"""Where everything lies: the only file that knows paths.

    <root>/
      workspace.json                    which workspace this is, from its first write on
      sweeps/<name>/plan.jsonl          desired state of one sweep (replaced when it is planned anew)
      sweeps/<name>/history/            plans that were replaced
      sweeps/<name>/frozen.json         the analysis block as it stood at first launch
      sweeps/<name>/report/             what `report` wrote
      requests/<time>-<uuid>.json       what a person asked for: cancel, retry
      submissions/<batch id>/           batch.json, answer.json: one hand-over to a scheduler
      packs/<p12>/<pack id>/a<k>/       one attempt: launch.json claimed.json facts.jsonl metrics.jsonl heartbeat.json
                                        exit.json stop.json closed.json log.txt products/; of several processes
                                        rendezvous.json, and log.txt.rank1, heartbeat.json.rank1, exit.json.rank1, ...
      packs/<p12>/<pack id>/checkpoints/step-<n>/   files, manifest.json last
      code/<tree hash>/                 the code the nodes run
      rates/<pilot>-<digest>.yaml       what a rule chose from a pilot; can be made again from its runs
      tables/                           mlflow.db, outbox.jsonl; all of it can be deleted and gathered again
      tables/<name>/                    runs.parquet, curves.parquet of one sweep

The index is not here: it lies on the disk of the host whose loop wrote it.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path


@dataclass(frozen=True)
class AttemptDir:
    """One attempt's files. Names are ids only; human names live in the plan."""

    path: Path

    @property
    def launch(self) -> Path:
        return self.path / "launch.json"

    @property
    def claimed(self) -> Path:
        return self.path / "claimed.json"

    @property
    def closed(self) -> Path:
        return self.path / "closed.json"

    @property
    def facts(self) -> Path:
        return self.path / "facts.jsonl"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def heartbeat(self) -> Path:
        return self.path / "heartbeat.json"

    @property
    def exit(self) -> Path:
        return self.path / "exit.json"

    @property
    def stop(self) -> Path:
        """A person wants no attempt after this one."""
        return self.path / "stop.json"

    @property
    def log(self) -> Path:
        return self.path / "log.txt"

    @property
    def rendezvous(self) -> Path:
        """Where the processes of an attempt meet, if it has several."""
        return self.path / "rendezvous.json"

    @staticmethod
    def of_rank(path: Path, rank: int) -> Path:
        """Where process ``rank`` writes what the first one writes at ``path``."""
        return path.with_name(f"{path.name}.rank{rank}") if rank else path

    def logs(self) -> dict[int, Path]:
        """Rank -> log, of the processes that have one."""
        names = [entry.name for entry in os.scandir(self.path) if entry.name.startswith(f"{self.log.name}.rank")]
        ranks = sorted(int(tail) for name in names if (tail := name.rpartition(".rank")[2]).isdigit())
        first = {0: self.log} if self.log.exists() else {}
        return first | {rank: self.of_rank(self.log, rank) for rank in ranks}

    @property
    def products(self) -> Path:
        return self.path / "products"

    @property
    def checkpoints(self) -> Path:
        """Shared by all attempts of the pack."""
        return self.path.parent / "checkpoints"

    @property
    def pack(self) -> str:
        return self.path.parent.name

    @property
    def number(self) -> int:
        return int(self.path.name[1:])


@dataclass(frozen=True)
class Workspace:
    """A root directory on a file system that all machines of the backend share."""

    root: Path

    @cached_property
    def identity(self) -> Path:
        """``{"workspace": "<uuid>"}``: what the index of a host is bound to, as a path may be used again."""
        return self.root / "workspace.json"

    @cached_property
    def sweeps(self) -> Path:
        return self.root / "sweeps"

    @cached_property
    def requests(self) -> Path:
        return self.root / "requests"

    @cached_property
    def submissions(self) -> Path:
        return self.root / "submissions"

    @cached_property
    def packs(self) -> Path:
        return self.root / "packs"

    @cached_property
    def code(self) -> Path:
        return self.root / "code"

    @cached_property
    def tables(self) -> Path:
        return self.root / "tables"

    def rates_table(self, pilot: str, digest: str) -> Path:
        """What was chosen from a pilot; ``digest``: of its runs and of how the rule was applied."""
        return self.root / "rates" / f"{pilot}-{digest}.yaml"

    def sweep(self, name: str) -> Path:
        return self.sweeps / name

    def plan(self, name: str) -> Path:
        return self.sweeps / name / "plan.jsonl"

    def report(self, name: str) -> Path:
        return self.sweeps / name / "report"

    def runs_table(self, name: str) -> Path:
        return self.tables / name / "runs.parquet"

    def curves_table(self, name: str) -> Path:
        return self.tables / name / "curves.parquet"

    def plan_history(self, name: str) -> Path:
        """Plans that were replaced, ``<digest>.jsonl``: they still say what their packs hold."""
        return self.sweeps / name / "history"

    def frozen(self, name: str) -> Path:
        return self.sweeps / name / "frozen.json"

    def pack(self, pack: str) -> Path:
        return self.packs / pack[:3] / pack

    def attempt(self, pack: str, number: int) -> AttemptDir:
        """Attempts of a pack count from 1."""
        return AttemptDir(self.pack(pack) / f"a{number}")

    def attempts(self, pack: str) -> list[AttemptDir]:
        """Attempts that were launched, oldest first."""
        try:
            names = [e.name for e in os.scandir(self.pack(pack)) if e.name[0] == "a" and e.name[1:].isdigit()]
        except FileNotFoundError:
            return []
        return [AttemptDir(self.pack(pack) / name) for name in sorted(names, key=lambda n: int(n[1:]))]

    def submission(self, batch: str) -> Path:
        return self.submissions / batch

    @cached_property
    def index(self) -> Path:
        """The disposable index, on this host's own disk (SQLite on NFS corrupts)."""
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        key = hashlib.sha256(str(self.root.resolve()).encode()).hexdigest()[:16]
        return cache / "orchestrate" / key / "index.sqlite"
