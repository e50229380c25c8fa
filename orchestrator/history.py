"""What is known of a pack's attempts, folded from their files piece by piece.

An ``AttemptView`` never reads a byte of facts twice. What it holds is plain data: the index keeps it as JSON.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from cluster.backend import JobHandle, JobReport
from jobs.durable import read_json
from jobs.facts import (
    Checkpointed,
    Closed,
    FailureClass,
    Finished,
    Started,
    read_claimed,
    read_closed,
    read_facts,
    read_heartbeat,
)
from jobs.workspace import AttemptDir


@dataclass(slots=True)
class RunEnd:
    """A ``finished`` fact, as far as deciding and showing need it."""

    completed: bool
    step: int
    seconds: float
    failure: FailureClass | None = None
    message: str = ""
    products: dict[str, tuple[str, str]] = field(default_factory=dict)
    """name -> (path relative to the attempt's directory, sha256)."""
    time: float = 0.0
    """By the worker's clock."""


@dataclass(slots=True)
class Pulse:
    """The last heartbeat, and when it and its step last *changed* on our own clock."""

    beat: int = -1
    step: int = 0
    steps: int = 0
    median_step_s: float | None = None
    time: float = 0.0
    """The worker's own clock."""
    changed: float = 0.0
    moved: float = 0.0


@dataclass(slots=True)
class AttemptView:
    """One attempt. Fields below ``handle`` are folded from files; ``report`` is the scheduler's last word."""

    number: int
    name: str
    carried: tuple[str, ...] = ()
    """Members that were to be trained (not masked)."""
    batch: str = ""
    """Id of the submission that holds it, "" while none is known."""
    entry: int = 0
    backend: str = ""
    """Of the submission, "" while none is known."""
    handle: JobHandle | None = None
    refused: str = ""
    """What the scheduler said when it refused the batch for good."""
    offset: int = 0
    claim: str | None = None
    """Token of the job that executes it: ``<name>/<id>/<restarts>``."""
    claimed: float | None = None
    """When a worker claimed it, by its clock (as all times down to ``last``)."""
    started: float | None = None
    """Time of the started fact."""
    host: str = ""
    placed: str = ""
    """Its machine as the scheduler calls it, "" while it has not said."""
    first_step: int = 0
    exact: str | None = None
    checkpoint: int | None = None
    kept: float | None = None
    """Time up to which nothing can be lost any more."""
    last: float | None = None
    """Last sign of life."""
    hang_floor_s: float = 300.0
    finished: dict[str, RunEnd] = field(default_factory=dict)
    events: int = 0
    pulse: Pulse = field(default_factory=Pulse)
    ended: Mapping[str, Any] | None = None
    """The shim's record, where it is of the job that executes the attempt."""
    ended_at: float | None = None
    """When we first saw that record, on our own clock."""
    closed: Closed | None = None
    fresh: bool = False
    seen: float | None = None
    """When we first knew of it, and ...."""
    over: float | None = None
    """... when we first saw that it was closed, on our own clock."""
    gone: float | None = None
    """Since when the scheduler says without a break that the job does not exist or is over, on our own clock."""
    missing: float | None = None
    """Since when the scheduler, whenever it answered, knew nothing of the job, on our own clock."""
    absent: float | None = None
    """When the scheduler last said that it has no job of this name, on our own clock."""
    stopping: float | None = None
    """When we asked its job to leave, on our own clock."""
    report: JobReport | None = None

    @property
    def live(self) -> bool:
        return self.closed is None

    @property
    def begun(self) -> bool:
        """A worker has it."""
        return self.claim is not None

    @property
    def step(self) -> int:
        return max(self.first_step, self.pulse.step if self.started is not None else 0)

    @property
    def progressed(self) -> bool:
        """It did something that a later attempt can build on."""
        return bool(self.finished) or (self.checkpoint is not None and self.checkpoint > self.first_step)

    @property
    def node(self) -> str:
        """Where it ran, as the scheduler calls it, else by its own word or its shim's; "" where nobody has said."""
        evidence = self.closed.evidence if self.closed is not None else {}
        return self.placed or evidence.get("node", "") or self.host or (self.ended or {}).get("host", "")

    @property
    def moved(self) -> bool:
        """It has made a step, so programs of its shape run here."""
        ended_well = self.closed is not None and self.closed.outcome in ("completed", "preempted")
        return self.started is not None and (self.progressed or ended_well or self.pulse.step > self.first_step)

    @property
    def seconds(self) -> tuple[float, float]:
        """Seconds of work kept and lost so far."""
        if self.started is None or self.last is None:
            return 0.0, 0.0
        kept = self.last if self.closed and self.closed.outcome == "completed" else self.kept or self.started
        return max(0.0, kept - self.started), max(0.0, self.last - kept)

    @property
    def lasted(self) -> float | None:
        """Seconds from its claim to its end, or of its command; None while nobody knows."""
        if self.closed is not None and self.closed.by == "worker" and self.claimed is not None:
            return max(0.0, self.closed.time - self.claimed)
        return None if self.ended is None else self.ended.get("seconds")

    @property
    def peak_mb(self) -> int | None:
        """Most memory that one of its processes has used, as far as its shim has seen it."""
        return (self.ended or {}).get("max_rss_mb") or None

    def executor(self, backend: str) -> JobHandle | None:
        """The job to ask about: the one that claimed the attempt, else the one that was answered."""
        if self.claim is not None and self.claim.count("/") >= 2:
            name, rest = self.claim.split("/", 1)
            return JobHandle(backend, rest.rsplit("/", 1)[0], name)
        return self.handle

    def may_return(self, requeues: str) -> bool:
        """It left, or was lost, and its job is not known to be over: a job that is queued again goes on by itself.

        Args:
            requeues: name of the backend that queues jobs again, "" for none.
        """
        if not requeues or self.closed is None or self.closed.outcome not in ("preempted", "lost"):
            return False
        return self.gone is None and self.backend in ("", requeues) and self.executor(requeues) is not None

    def fold(self, place: AttemptDir, now: float) -> bool:
        """Read what is new on disk. ``now``: our own clock. Returns whether anything but the heartbeat changed."""
        if self.seen is None:
            self.seen = now
        try:
            names = {entry.name: entry for entry in os.scandir(place.path)}
        except FileNotFoundError:
            return False
        changed = False
        closed = read_closed(place.closed) if place.closed.name in names else None
        if self.claim is None and place.claimed.name in names:
            claimed = read_claimed(place.claimed)
            if claimed is not None:
                self.claim, self.claimed = claimed.job, claimed.time
            changed = True
        if closed is not None and closed.facts_bytes is not None and closed.facts_bytes < self.offset:
            self._forget_facts()  # we had read on past the end of what counts
        facts = names.get(place.facts.name)
        if facts is not None and facts.stat().st_size > self.offset:
            changed |= self._fold_facts(place, closed.facts_bytes if closed else None)
        if place.heartbeat.name in names and (closed is None or self.last is not None):
            self._fold_heartbeat(place, now)
        if self.ended is None and place.exit.name in names:
            record = read_json(place.exit)
            if record is not None and (self.claim is None or record.get("job") == self.claim):
                self.ended, self.ended_at, changed = record, now, True
        if closed is not None:
            self.closed, self.over, changed = closed, now, True
        return changed

    def _forget_facts(self) -> None:
        self.offset = self.events = self.first_step = 0
        self.started = self.checkpoint = self.kept = self.last = self.exact = None
        self.finished = {}

    def _fold_facts(self, place: AttemptDir, limit: int | None) -> bool:
        before = self.offset
        facts, self.offset = read_facts(place.facts, self.offset, limit)
        for fact in facts:
            self.last = max(self.last or fact.time, fact.time)
            if isinstance(fact, Started):
                self.started, self.first_step, self.host, self.exact = fact.time, fact.step, fact.host, fact.exact
            elif isinstance(fact, Checkpointed):
                self.checkpoint, self.kept = fact.step, fact.time
            elif isinstance(fact, Finished):
                products = {name: (product.path, product.sha256) for name, product in fact.products.items()}
                self.finished[fact.run] = RunEnd(
                    fact.status == "completed", fact.step, fact.seconds, fact.failure, fact.message, products, fact.time
                )
                self.kept = fact.time
            else:
                self.events += 1
        return self.offset > before

    def _fold_heartbeat(self, place: AttemptDir, now: float) -> None:
        beat = read_heartbeat(place.heartbeat)
        if beat is None or beat.beat == self.pulse.beat:
            return
        moved = now if beat.step != self.pulse.step or self.pulse.beat < 0 else self.pulse.moved
        self.pulse = Pulse(beat.beat, beat.step, beat.steps, beat.median_step_s, beat.time, now, moved)
        if self.started is not None:
            self.last = max(self.last or beat.time, beat.time)

    def to_json(self) -> dict[str, Any]:
        """For the index, as orjson takes it: records inside stay records, which ``asdict`` would copy one by one. What
        the scheduler said is not kept: it is asked again."""
        data = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "report"}
        data["closed"] = None if self.closed is None else self.closed.model_dump(mode="json")
        return data

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> AttemptView:
        view = AttemptView(**{**data, "carried": tuple(data["carried"])})
        view.handle = None if data["handle"] is None else JobHandle(**data["handle"])
        view.pulse = Pulse(**data["pulse"])
        view.closed = None if data["closed"] is None else Closed.model_validate(data["closed"])
        view.finished = {run: run_end_from(end) for run, end in data["finished"].items()}
        return view


def run_end_from(data: Mapping[str, Any]) -> RunEnd:
    end = RunEnd(**data)
    end.failure = None if data["failure"] is None else FailureClass(data["failure"])
    end.products = {name: (path, sha) for name, (path, sha) in data["products"].items()}
    return end


def job_name(pack: str, attempt: int) -> str:
    """The unique name of an attempt's job."""
    return f"orc-{pack}-a{attempt}"


def split_name(name: str) -> tuple[str, int] | None:
    """Pack and attempt of a job name of ours; None for anybody else's."""
    prefix, _, rest = name.partition("-")
    pack, _, attempt = rest.rpartition("-a")
    return (pack, int(attempt)) if prefix == "orc" and pack and attempt.isdigit() else None


def read_view(place: AttemptDir, now: float) -> AttemptView | None:
    """A launched attempt, folded as far as it goes; None where there is no ``launch.json`` (yet)."""
    record = read_json(place.launch)
    if record is None:
        return None
    view = AttemptView(
        place.number,
        record["name"],
        tuple(member["run"] for member in record["members"] if not member.get("done")),
        fresh=not record.get("resume", True),
        hang_floor_s=record.get("hang_floor_s", 300.0),
    )
    view.fold(place, now)
    return view
