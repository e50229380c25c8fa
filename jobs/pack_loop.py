"""The loop that carries a pack from its first step (or its newest checkpoint) to the end of its last run."""

from __future__ import annotations

import hashlib
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import orjson
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from jobs import metrics, numerics
from jobs.data import one_set
from jobs.errors import JobError
from jobs.evaluation import HeldOut
from jobs.facts import FailureClass
from jobs.pack_state import PackState
from jobs.session import Session
from jobs.stack import Pass, Stack
from jobs.tasks.build import make_task
from jobs.train_config import TrainConfig

TENSORS = "tensors.safetensors"
PROGRESS = "progress.json"


class Program(ABC):
    """What a kind of pack computes; ``PackLoop`` decides when.

    Attributes:
        configs: one a run.
        stack: the models of all runs, those of a run side by side.
        models: how many models each run has.
        data_seeds: one a model, of the held-out sets.
    """

    configs: Sequence[TrainConfig]
    stack: Stack
    models: Sequence[int]
    data_seeds: Sequence[int]

    @abstractmethod
    def step(self, step: int, state: PackState) -> None:
        """Step number ``step`` (from 0) of all active models: mark those that fall, move the others, add up sums."""

    def observe(self, run: int, sums: dict[str, float]) -> dict[str, float]:
        """Metrics of a run at an evaluation beyond those every run has; ``sums`` as ``step`` added them up."""
        return {}

    def judge(self, run: int, state: PackState) -> tuple[FailureClass, str] | None:
        """Why a run that is still going (or has come to its end) has failed, None while it has not."""
        return None

    def products(self, run: int, state: PackState) -> dict[str, Any]:
        """JSON payloads that a completed run leaves."""
        return {}

    def remarks(self, run: int, state: PackState) -> dict[str, float | int | str | None]:
        """Entries of the summary beyond those every run has."""
        return {}

    def tensors(self) -> dict[str, Tensor]:
        """All that training changes."""
        return self.stack.state()

    def restore(self, tensors: dict[str, Tensor]) -> None:
        self.stack.restore(tensors)


class PackLoop:
    """Steps, evaluations, checkpoints and endings. Randomness comes from (seed, step) alone: no generator to save."""

    def __init__(self, session: Session, program: Program) -> None:
        self._session, self._program = session, program
        self._configs = program.configs
        self._state = PackState.fresh(program.models)
        for run, member in zip(self._state.runs, session.members, strict=True):
            run.ended = member.done
        runs, processes = [m.run for m in session.members], session.ranks.size
        self._environment = numerics.environment(session.launch.pack, runs, processes)
        self._task = make_task(self._configs[0].task)
        self._held_out: dict[str, HeldOut] = {}
        self._evaluations = [config.evaluations() for config in program.configs]
        self._step = 0

    def run(self) -> None:
        """Returns when all runs have ended, when asked to leave, or when a probe has done its steps."""
        exact = self._resume()
        told = {name: value for name, value in self._environment.items() if name != "members"}
        self._session.started(self._step, exact, told)
        if self._session.launch.max_steps is not None:
            self._probe(self._session.launch.max_steps)
            return
        while steps := self._last_step():
            leave = self._session.advance(self._step, steps)
            if self._session.checkpoint_due(self._step):
                self._session.save(self._step, self._write)
            if leave:
                return
            self._advance()

    def _last_step(self) -> int:
        """Of the runs still going; 0 where there are none."""
        return max((c.steps for c, r in zip(self._configs, self._state.runs, strict=True) if not r.ended), default=0)

    def _advance(self) -> None:
        self._program.step(self._step, self._state)
        self._step += 1
        self._end_failed()
        going = [n for n, run in enumerate(self._state.runs) if not run.ended]
        due = [n for n in going if self._step in self._evaluations[n]]
        if due:
            self._evaluate(due)
            self._session.busy()
        for n in due:
            if self._step == self._configs[n].steps:
                self._end(n)

    def _end_failed(self) -> None:
        if not bool((self._state.diverged_at >= 0).any()):
            return
        for n, run in enumerate(self._state.runs):
            if not run.ended and self._program.judge(n, self._state) is not None:
                self._end(n)

    def _evaluate(self, due: Sequence[int]) -> None:
        """Look at the held-out sets for these runs; a run's value is the mean over its surviving models."""
        self._require_same()
        rows: dict[int, dict[str, float]] = {n: {} for n in due}
        for split in sorted({split for n in due for split in self._configs[n].evaluate.splits}):
            scores = self._split(split).scores(self._program.stack.model, self._session.ranks)
            for n in due:
                if split in self._configs[n].evaluate.splits:
                    who = self._state.survivors(n).tolist()
                    rows[n][metrics.loss(split)] = sum(scores[p].loss for p in who) / len(who)
                    first = [early for p in who if (early := scores[p].first_loss) is not None]
                    if first:
                        name = metrics.first_loss(split, self._configs[n].evaluate.first_positions)
                        rows[n][name] = sum(first) / len(first)
                    for klass in scores[who[0]].accuracy:
                        values = [scores[p].accuracy[klass] for p in who if klass in scores[p].accuracy]
                        rows[n][metrics.accuracy(split, klass)] = sum(values) / len(values)
        for n in due:
            sums = self._state.take(n)
            row = rows[n]
            row[metrics.TRAIN_LOSS] = sums["loss"] / sums["batches"]
            row[metrics.TRAIN_ACCURACY] = sums["right"] / sums["counted"]
            row[metrics.GRADIENT_NORM] = sums["norms"] / sums["batches"]
            row |= self._program.observe(n, sums)
            self._session.metrics(self._session.members[n].run, self._step, row)
            for name, step in self._configs[n].landmarks().items():
                if step == self._step:
                    self._state.runs[n].landmarks[name] = row

    def _require_same(self) -> None:
        """Processes that make the same updates hold the same weights; on unlike machines they might not."""
        if self._session.ranks.size == 1:
            return
        digest = hashlib.sha256(self._program.stack.flat.values.numpy().data).digest()
        mine = int.from_bytes(digest[:7])
        most, least = self._session.ranks.agree((mine, -mine))
        if most != -least:
            raise JobError(f"at step {self._step} the processes hold different weights; use machines of one kind")

    def _split(self, split: str) -> HeldOut:
        if split not in self._held_out:
            assert split == "validation" or split == "test"
            first = [self._configs[n].evaluate.first_positions for n in self._state.owner.tolist()]
            self._held_out[split] = HeldOut(self._task, one_set(self._task, split, self._program.data_seeds), first)
        return self._held_out[split]

    def _end(self, n: int) -> None:
        """Write a run's products and finish it."""
        run, state = self._session.members[n].run, self._state
        state.runs[n].ended = True
        failed = self._program.judge(n, state)
        step = self._ended_at(n)
        if failed is None:
            for name, payload in self._program.products(n, state).items():
                self._session.product(run, name, payload)
            self._session.finish(run, step, "completed", self._summary(n))
        else:
            self._session.finish(run, step, "failed", self._summary(n), failure=failed[0], message=failed[1])

    def _ended_at(self, n: int) -> int:
        if "final" in self._state.runs[n].landmarks:
            return self._configs[n].steps
        return int(self._state.diverged_at[self._state.places(n)].max())

    def _summary(self, n: int) -> dict[str, float | int | str | None]:
        config, landmarks = self._configs[n], self._state.runs[n].landmarks
        summary: dict[str, float | int | str | None] = {
            "steps": config.steps,
            "lr": config.optimizer.rate,
            "t_task": config.t_task,
            "parameters": self._program.stack.flat.values.shape[1],
        }
        for landmark, row in landmarks.items():
            for split in config.evaluate.splits:
                summary[metrics.at_landmark(split, landmark)] = row[metrics.accuracy(split)]
        summary |= landmarks.get("final", {})
        return summary | self._program.remarks(n, self._state)

    def _write(self, directory: Path) -> None:
        tensors = self._program.tensors() | self._state.tensors()
        save_file({name: t.contiguous() for name, t in tensors.items()}, directory / TENSORS)
        progress = {"step": self._step, "environment": self._environment, "runs": self._state.record()}
        (directory / PROGRESS).write_bytes(orjson.dumps(progress))

    def _resume(self) -> str | None:
        """Take up the newest checkpoint, if any; the verdict on how exactly."""
        directory = self._session.checkpoint
        if directory is None:
            return None
        progress = orjson.loads((directory / PROGRESS).read_bytes())
        tensors = load_file(directory / TENSORS)
        self._program.restore(tensors)
        self._state.restore(tensors, progress["runs"])
        self._step = progress["step"]
        for run, member in zip(self._state.runs, self._session.members, strict=True):
            run.ended = member.done  # a run may have ended after this checkpoint was written
        return numerics.verdict(progress["environment"], self._environment)

    def _probe(self, steps: int) -> None:
        """Time a few steps; nothing is finished and nothing saved."""
        times: list[float] = []
        for _ in range(min(steps, self._last_step())):
            before = time.perf_counter()
            self._program.step(self._step, self._state)
            times.append(time.perf_counter() - before)
            self._step += 1
            self._session.advance(self._step, steps)
        models = sum(self._program.models)
        if times:
            data = {"steps": len(times), "median_step_s": median(times), "models": models, "runs": len(self._configs)}
            self._session.event("probe", f"{1e3 * median(times) / models:.3f} ms a model-step", **data)


def add_training_sums(state: PackState, stack: Stack, done: Pass, *, by_sequence: bool) -> None:
    """Add one step's training losses, gradient norms and hits to the sums of a pack."""
    right, counted = stack.count_hits(done, by_sequence=by_sequence)
    state.add("loss", done.losses.double())
    state.add("norms", stack.norms.double())
    state.add("batches", torch.ones(len(done.losses)))
    state.add("right", right)
    state.add("counted", counted)
