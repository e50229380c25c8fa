"""Packs of real training runs, carried out in this process with the session that a worker would get."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from torch import Tensor

from jobs.checkpoint import newest_checkpoint
from jobs.durable import read_log
from jobs.facts import Event, Finished, Started, read_facts
from jobs.launch import Launch
from jobs.pack_loop import TENSORS
from jobs.ranks import Ranks
from jobs.recorder import SilentRecorder
from jobs.runners import RUNNERS, load, validate_config
from jobs.session import Member, Session
from jobs.workspace import AttemptDir, Workspace


class Killed(Exception):
    """The process is gone: nothing after this moment happens."""


@dataclass
class Entry:
    """One run of a pack under test."""

    config: Mapping[str, Any]
    seed: int
    inputs: Mapping[str, Path] = field(default_factory=dict)


class DyingSession(Session):
    """A session whose process dies at its ``moment``-th sign of life, before or after it took effect."""

    moment: int = -1
    seen: int = 0

    def _sign(self) -> None:
        self.seen += 1
        if self.seen == self.moment:
            raise Killed

    def advance(self, step: int, steps: int) -> bool:
        self._sign()
        leave = super().advance(step, steps)
        self._sign()
        return leave

    def save(self, step: int, write: Callable[[Path], None]) -> None:
        self._sign()
        super().save(step, write)
        self._sign()

    def metrics(self, run: str, step: int, values: Mapping[str, float]) -> None:
        self._sign()
        super().metrics(run, step, values)

    def finish(self, run: str, step: int, *args: Any, **kwargs: Any) -> None:
        self._sign()
        super().finish(run, step, *args, **kwargs)
        self._sign()


class TrainingPack:
    """One pack in a workspace of its own; attempts are carried out one after another."""

    def __init__(self, root: Path, runner: str, entries: Sequence[Entry]) -> None:
        self.root, self.runner, self.entries = root, runner, entries
        self.runs = [f"r{n:015d}" for n in range(len(entries))]
        self.attempts = 0
        self.died_at: list[int] = []
        self._typed = [validate_config(runner, entry.config) for entry in entries]

    def attempt(self, number: int) -> AttemptDir:
        return Workspace(self.root).attempt("p0", number)

    def go(
        self,
        *,
        die_at: int = -1,
        done: Sequence[int] = (),
        asked: Callable[[], str | None] = lambda: None,
        ranks: Ranks | None = None,
        **launch: Any,
    ) -> Session:
        """Carry out the next attempt; raises Killed where it was to die. ``ranks``: as one of several processes, of
        which the first goes first."""
        silent = ranks is not None and ranks.rank > 0
        self.attempts += not silent
        attempt = self.attempt(self.attempts)
        attempt.path.mkdir(parents=True, exist_ok=silent)
        before = self.finished()
        finished = {run for run in self.runs if run in before} | {self.runs[n] for n in done}
        members = [
            Member(run, entry.seed, typed, entry.inputs, run in finished)
            for run, entry, typed in zip(self.runs, self.entries, self._typed, strict=True)
        ]
        settings: dict[str, Any] = {"checkpoint_seconds": None, **launch}
        described = Launch(
            pack="p0",
            attempt=self.attempts,
            name="orc-p0",
            runner=self.runner,
            members=(),
            configs=(),
            root=str(self.root),
            **settings,
        )
        checkpoint, _ = newest_checkpoint(attempt.checkpoints, done=finished)
        session = DyingSession(
            attempt,
            described,
            members,
            checkpoint=checkpoint,
            requested=asked,
            ranks=ranks,
            recorder=SilentRecorder() if silent else None,
        )
        session.moment = die_at
        try:
            load(RUNNERS[self.runner].run)(session)
            session.commit()
        except Killed:
            self.died_at.append(session.progress.step)
            raise
        finally:  # a dead process's files are closed, and what it had not handed over is lost
            for log in () if silent else (session.recorder._facts, session.recorder._metrics):
                if log is not None:
                    log._file.close()
        return session

    def go_until(self, die_at: int, **options: Any) -> bool:
        """Carry out the next attempt, which dies at that sign of life; True where it had ended before."""
        try:
            self.go(die_at=die_at, **options)
        except Killed:
            return False
        return True

    def _facts(self, kind: type) -> list[Any]:
        found = []
        for number in range(1, self.attempts + 1):
            found += [f for f in read_facts(self.attempt(number).facts)[0] if isinstance(f, kind)]
        return found

    def finished(self) -> dict[str, Finished]:
        """Run -> its one finished fact."""
        facts: list[Finished] = self._facts(Finished)
        assert len({f.run for f in facts}) == len(facts), "a run finished twice"
        return {f.run: f for f in facts}

    def started(self) -> list[Started]:
        return self._facts(Started)

    def events(self) -> list[Event]:
        return self._facts(Event)

    def rows(self) -> dict[tuple[str, int], dict[str, float]]:
        """(run, step) -> metrics; a later attempt's rows win from its first step on."""
        found: dict[tuple[str, int], dict[str, float]] = {}
        for number in range(1, self.attempts + 1):
            rows, _ = read_log(self.attempt(number).metrics)
            for row in rows:
                found[row.pop("run"), row.pop("step")] = row
        return found

    def product(self, run: int, name: str) -> Path:
        return self.attempt(self.attempts).path / self.finished()[self.runs[run]].products[name].path

    def saved(self) -> dict[str, Tensor]:
        """Tensors of the newest checkpoint."""
        checkpoint, _ = newest_checkpoint(self.attempt(1).checkpoints, done=self.runs)
        assert checkpoint is not None
        return load_file(checkpoint.path / TENSORS)


MakePack = Callable[..., TrainingPack]


@pytest.fixture
def training_pack(tmp_path: Path) -> MakePack:
    """``training_pack("train", [(config, seed), ...])``: a pack in a workspace of its own."""
    made = 0

    def make(runner: str, entries: Sequence[tuple[Any, ...]]) -> TrainingPack:
        nonlocal made
        made += 1
        return TrainingPack(tmp_path / str(made), runner, [Entry(*entry) for entry in entries])

    return make


@pytest.fixture
def memorize() -> dict[str, Any]:
    """A config of 12 steps on a table of 36 pairs."""
    return {
        "task": {"name": "memorize", "values": 6},
        "model": {"width": 8, "heads": 2, "init_std": 0.1},
        "optimizer": {"name": "adamw", "lr": 0.01},
        "steps": 12,
        "warmup_steps": 2,
        "batch_size": 8,
        "evaluate": {"points": 3},
    }
