"""What a runner is given: its members, where to resume, and the only way to say what happened.

The runner steps and tells; the session decides what reaches the disk when, whether a checkpoint is due, and whether
to go on at all. It never touches a scheduler, and it writes nothing once somebody else has closed the attempt.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from jobs import checkpoint as checkpoints
from jobs.allocation import given
from jobs.checkpoint import Checkpoint
from jobs.errors import JobError
from jobs.facts import Checkpointed, Event, FailureClass, Finished, Product, Started, read_claimed
from jobs.heartbeat import Progress
from jobs.launch import Launch
from jobs.layout import Layout, judge_count, layout_record
from jobs.leaving import Leave, Leaving
from jobs.lineage import Lineage
from jobs.ranks import Ranks
from jobs.recorder import Recorder, plain
from jobs.resume_check import ResumeCheck
from jobs.workspace import AttemptDir

FLUSH_S = 2.0


@dataclass(frozen=True)
class Member:
    """One run of the pack, as the runner sees it.

    Attributes:
        config: typed config of the runner's model.
        inputs: name -> path of the product that is consumed (checked against its sha256).
        done: finished in an earlier attempt: keep its place in the stack, mask it, report nothing for it.
    """

    run: str
    seed: int
    config: Any
    inputs: Mapping[str, Path] = field(default_factory=dict)
    done: bool = False


class Session:
    """One attempt in progress.

    Args:
        job: this worker's claim token; its ``claimed.json`` must hold it.
        checkpoint: where to resume, None for step 0.
        requested: name of the signal that asked us to leave, or None.
        previous: metric rows of earlier attempts, to compare the first losses after a resume with.
        ranks: the processes of this attempt. Of several each has a session, all are told the same, and one writes.
        clock: monotonic seconds.

    Attributes:
        layout: how checkpoints depend on the number of processes; a runner that knows better says so before it saves.
    """

    def __init__(
        self,
        attempt: AttemptDir,
        launch: Launch,
        members: Sequence[Member],
        *,
        job: str = "",
        checkpoint: Checkpoint | None = None,
        recorder: Recorder | None = None,
        progress: Progress | None = None,
        requested: Callable[[], str | None] = lambda: None,
        previous: Sequence[Mapping[str, Any]] = (),
        ranks: Ranks | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.attempt = attempt
        self.launch = launch
        self.members = tuple(members)
        self.checkpoint = checkpoint.path if checkpoint else None
        self.resume_step = checkpoint.step if checkpoint else 0
        self.recorder = recorder or Recorder(attempt)
        self.progress = progress or Progress(self.resume_step, clock=clock)
        self.ranks = ranks or Ranks()
        self.layout = Layout.SUMS
        self._job = job
        self._clock = clock
        self._active = {member.run for member in self.members if not member.done}
        self._outcomes: dict[str, FailureClass | None] = {}
        self._finished_before = [member.run for member in self.members if member.done]
        self._products: dict[str, dict[str, Product]] = {}
        self._flushed = clock()
        self.leaving = Leaving(launch, self.ranks, requested, clock, self.resume_step, checkpoint is not None)
        self._lineage = Lineage(checkpoint.meta if checkpoint else {}, self._flushed)
        self._saved_bytes = checkpoint.bytes if checkpoint else 0
        self._count = judge_count(checkpoint.meta, self.ranks.size) if checkpoint else ("exact", "")
        self._resume = ResumeCheck(previous, self.resume_step) if checkpoint and previous else None

    # What the runner says

    def started(self, step: int, exact: str | None, environment: Mapping[str, Any]) -> None:
        """Models are built, training begins at ``step``.

        Args:
            exact: None for a fresh start, ``"exact"``, or ``"not exact: why"``.
            environment: flat JSON values worth keeping (devices, versions, flags).
        """
        if exact == "exact" and self._count[1]:
            exact = f"{self._count[0]}: {self._count[1]}"
        if exact not in (None, "exact"):
            self._lineage.resumed(step, exact)
        self.recorder.fact(
            Started(
                time=time.time(),
                step=step,
                exact=exact,
                host=socket.gethostname(),
                pid=os.getpid(),
                code=self.launch.code,
                members=len(self._active),
                threads=self.launch.threads,
                environment={**environment, **given()},
            )
        )
        self.recorder.flush()
        self.progress.step = step
        self.progress.busy()
        self.leaving.saved_at = self._clock()
        self._lineage.begin(self.leaving.saved_at)

    def metrics(self, run: str, step: int, values: Mapping[str, float]) -> None:
        """Keep one row. It is on disk before the run's ``finished`` fact, and before the next checkpoint."""
        self._require_active(run)
        self.recorder.metrics(run, step, values)
        if self._resume is not None:
            for finding in self._resume.look(run, step, values):
                self._lineage.found(run, finding.message)
                self.event(finding.name, finding.message, run=run)

    def advance(self, step: int, steps: int) -> bool:
        """``step`` of ``steps`` steps are done. True: save a checkpoint if one is due, and return from ``run``.

        Raises:
            Leave: somebody else closed the attempt.
        """
        self.progress.advance(step, steps)
        self._lineage.account(self._clock(), len(self._active))
        if self.recorder.pending:
            self.commit()
        elif self._clock() - self._flushed > FLUSH_S:
            self.recorder.flush()
            self._flushed = self._clock()
        return self.leaving.decide(step)

    def busy(self) -> None:
        """A long piece of work that is not a step goes on (evaluation, compilation): this is no hang."""
        self.progress.busy()

    def checkpoint_due(self, step: int) -> bool:
        """See ``Leaving.due``. Not when nothing is left to do."""
        return bool(self._active) and self.leaving.due(step)

    def save(self, step: int, write: Callable[[Path], None]) -> None:
        """Make a checkpoint of what ``write(directory)`` puts into a directory. Of several processes the first one
        writes, and the others go on to where all meet next.

        Everything recorded so far is on disk before it, so that a resume from it misses nothing.

        Raises:
            Leave: the attempt isn't ours any more. OSError: it could not be written (ENOSPC: no room).
        """
        if step == self.saved_step:
            return
        if self.ranks.rank:
            self.progress.busy()
            self.leaving.saved = step
            return
        self._require_ours()
        self.commit()
        self.progress.busy()
        began = self._clock()
        saved = checkpoints.write_checkpoint(
            self.attempt.checkpoints,
            step=step,
            attempt=self.launch.attempt,
            write=write,
            expected_bytes=self._saved_bytes,
            meta={
                "finished": [*self._finished_before, *self._outcomes],
                **self._lineage.meta(),
                "job": self._job,
                "pack": self.launch.pack,
                **layout_record(self.layout, self.ranks.size),
            },
        )
        self.progress.busy()
        self._saved_bytes = saved.bytes
        self.leaving.saved, self.leaving.saved_at = step, self._clock()
        self._require_ours()
        took = round(self.leaving.saved_at - began, 6)
        self.recorder.fact(Checkpointed(time=time.time(), step=step, bytes=saved.bytes, seconds=took))
        self.recorder.flush()
        with suppress(OSError):  # a log that can't grow is no reason to stop
            of = f" of {self.progress.steps}" if self.progress.steps else ""
            print(f"saved at step {step}{of}, {len(self.unfinished)} runs to go", file=sys.stderr, flush=True)
        checkpoints.prune(self.attempt.checkpoints, attempt=self.launch.attempt, keep=self.kept_checkpoints)

    def product(self, run: str, name: str, payload: Any) -> None:
        """Keep a JSON product; the run's ``finished`` fact will name it."""
        self._require_active(run)
        self._products.setdefault(run, {})[name] = self.recorder.product(run, name, payload)

    def finish(
        self,
        run: str,
        step: int,
        status: Literal["completed", "failed"],
        summary: Mapping[str, Any],
        failure: FailureClass | None = None,
        message: str = "",
    ) -> None:
        """The run is over at ``step``. Committed together with all others that finish before the next ``advance``."""
        self._require_active(run)
        self._lineage.account(self._clock(), len(self._active))
        self.recorder.fact(
            Finished(
                time=time.time(),
                run=run,
                status=status,
                step=step,
                seconds=round(self._lineage.share_s, 6),
                summary={name: plain(value) for name, value in summary.items()},
                products=self._products.pop(run, {}),
                failure=failure,
                message=message,
                exact=self._lineage.verdicts(run),
            )
        )
        self._active.discard(run)
        self._outcomes[run] = failure
        self.progress.step = max(self.progress.step, step)  # no ``advance`` follows the last step of a pack
        self.progress.busy()

    def event(self, name: str, message: str, **data: Any) -> None:
        """Anything worth keeping that decides nothing."""
        self.recorder.fact(Event(time=time.time(), name=name, message=message, step=self.progress.step, data=data))

    # What the worker does

    @property
    def kept_checkpoints(self) -> int:
        return int(self.launch.settings.get("keep_checkpoints", checkpoints.KEEP))

    @property
    def saved_step(self) -> int | None:
        """Of the newest checkpoint."""
        return self.leaving.saved

    @property
    def unfinished(self) -> frozenset[str]:
        return frozenset(self._active)

    @property
    def outcomes(self) -> dict[str, FailureClass | None]:
        """Runs finished in this attempt, and how they failed (None: they did not)."""
        return dict(self._outcomes)

    def commit(self) -> None:
        """All that was recorded is on disk when this returns; raises Leave where our word doesn't count any more."""
        if self.recorder.pending:
            self._require_ours()
        self.recorder.commit()
        self._flushed = self._clock()

    def closed_elsewhere(self) -> None:
        """Told by the heartbeat thread: leave at the next ``advance``."""
        self.leaving.closed = True

    def _require_active(self, run: str) -> None:
        if run not in self._active:
            raise JobError(f"{run} is not an unfinished member of pack {self.launch.pack}; it cannot report anything")

    def _require_ours(self) -> None:
        """The fence: two live copies can't both write."""
        if self.leaving.closed or self.attempt.closed.exists():
            raise Leave
        if self._job:
            claimed = read_claimed(self.attempt.claimed)
            if claimed is None or claimed.job != self._job:
                raise Leave
