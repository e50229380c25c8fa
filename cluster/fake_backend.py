"""A scheduler in a JSON file: a real backend whose queue, clock, lies and failures a test can script.

    fake = FakeBackend(tmp_path / "cluster.json", clock=clock)
    fake.fail("submit", "accept_then_timeout")          # the next submit takes the jobs and then times out
    fake.fail("poll", "timeout", times=25)
    fake.say("orc-p1-a1", "SIGNALING")                  # a word that nobody knows

All its state is in the file, so that several orchestrator processes can share one cluster and any of them may die.
Jobs either run really (``run="really"``: a detached launch shim each, as on the local backend) or are pretended: they
begin ``start_s`` after they were accepted, and either last ``run_s`` and exit with 0, or do what ``execute`` does, one
step per ``step()``.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from cluster.backend import JobHandle, JobReport, JobState, LaunchRequest, PermanentError, TemporaryError
from cluster.batch_file import BATCH_FILE, read_entry
from cluster.launch_shim import held_by_other, leave_record
from cluster.local_backend import LocalBackend

Operation = Literal["submit", "find", "poll", "cancel"]
Fault = Literal["timeout", "accept_then_timeout", "refuse", "forbid"]
Execute = Callable[[Mapping[str, Any], str], Generator[None, None, int]]
"""(entry of the batch file, job token) -> steps; the generator's return value is the exit code."""


class FakeBackend:
    """See the module and ``cluster.backend.Backend``.

    Args:
        path: the cluster; made where it does not exist.
        clock: seconds; must mean the same in every process that shares ``path``.
        slots: jobs that run at once.
        lag_s: for so long after it was accepted nobody who asks is told of a job.
        retry_s: what a TemporaryError asks for.
        limit: most jobs that may be queued or running; more are refused as a scheduler does (TemporaryError).
    """

    name = "fake"

    def __init__(
        self,
        path: Path | str,
        *,
        clock: Callable[[], float] = time.time,
        run: Literal["really", "pretend"] = "pretend",
        execute: Execute | None = None,
        slots: int = 1000,
        start_s: float = 0.0,
        run_s: float = 1.0,
        lag_s: float = 0.0,
        retry_s: float = 10.0,
        limit: int | None = None,
    ) -> None:
        self._path = Path(path)
        self._clock = clock
        self._execute = execute
        self._local = LocalBackend() if run == "really" else None
        self._slots = slots
        self._start_s, self._run_s, self._lag_s, self._retry_s = start_s, run_s, lag_s, retry_s
        self._limit = limit
        self._glances = 0
        self._running: dict[str, Generator[None, None, int]] = {}
        if not self._path.exists():
            self._path.write_text(json.dumps({"next": 1, "jobs": [], "faults": [], "calls": {}}))

    # Scripting

    def fail(self, operation: Operation, fault: Fault, times: int = 1) -> None:
        """The next ``times`` calls of an operation go wrong. ``refuse``: a TemporaryError without effect, ``forbid``: a
        PermanentError, ``timeout``: as refuse, ``accept_then_timeout``: with all its effect."""
        with self._cluster() as cluster:
            cluster["faults"] += [[operation, fault]] * times

    def say(self, name: str, word: str) -> None:
        """From now on the scheduler uses this word for a job, whatever it does."""
        self._change(name, word=word)

    def vanish(self, name: str) -> None:
        """The scheduler forgets a job, which goes on all the same."""
        self._change(name, forgotten=True)

    def end(self, name: str, *, cause: str | None = None, word: str = "FAILED", code: int | None = None) -> None:
        """A running or queued job is over, without another step."""
        self._change(name, state="ended", cause=cause, word=word, code=code)

    def jobs(self) -> list[dict[str, Any]]:
        """Every job that was ever accepted, in order."""
        with self._cluster() as cluster:
            return cluster["jobs"]

    def calls(self) -> dict[str, int]:
        """Operation -> how often it was asked for."""
        with self._cluster() as cluster:
            return cluster["calls"]

    def step(self) -> bool:
        """Let time pass: begin what is due and take one step of every running job. Returns whether anything lives."""
        with self._cluster() as cluster:
            self._advance(cluster)
            for job in cluster["jobs"]:
                if job["state"] == "running" and job["id"] in self._running:
                    self._one_step(job)
            return any(job["state"] != "ended" for job in cluster["jobs"])

    # The protocol

    def submit(self, batch: str, requests: Sequence[LaunchRequest]) -> list[JobHandle]:
        with self._cluster() as cluster:
            fault = self._fault(cluster, "submit")
            if fault is not None and fault != "accept_then_timeout":
                self._raise(fault, "submit")
            there = {job["name"]: job for job in cluster["jobs"] if self._visible(job)}
            handles = []
            for index, request in enumerate(requests):
                job = there.get(request.name)
                if job is None:
                    alive = sum(job["state"] != "ended" for job in cluster["jobs"])
                    if self._limit is not None and alive >= self._limit:
                        raise TemporaryError(f"{self._limit} jobs are queued, which is the limit", self._retry_s)
                    job = self._accept(cluster, batch, index, request.name)
                handles.append(self._handle(job))
            self._advance(cluster)
        if fault is not None:
            self._raise(fault, "submit")
        return handles

    def _accept(self, cluster: dict[str, Any], batch: str, index: int, name: str) -> dict[str, Any]:
        job: dict[str, Any] = {"id": str(cluster["next"]), "name": name, "batch": batch, "index": index}
        job |= {"state": "queued", "word": "PENDING", "submitted": self._clock(), "forgotten": False}
        cluster["next"] += 1
        cluster["jobs"].append(job)
        return job

    def find(self, names: Sequence[str]) -> dict[str, JobHandle]:
        with self._cluster() as cluster:
            self._raise(self._fault(cluster, "find"), "find")
            self._advance(cluster)
            wanted = set(names)
            return {j["name"]: self._handle(j) for j in cluster["jobs"] if j["name"] in wanted and self._visible(j)}

    def poll(self, handles: Sequence[JobHandle]) -> dict[JobHandle, JobReport]:
        with self._cluster() as cluster:
            self._raise(self._fault(cluster, "poll"), "poll")
            self._advance(cluster)
            jobs = {job["id"]: job for job in cluster["jobs"] if self._visible(job)}
            return {handle: self._report(handle, jobs.get(handle.id)) for handle in handles}

    def cancel(self, handles: Sequence[JobHandle], *, grace_s: float = 30.0) -> None:
        with self._cluster() as cluster:
            self._raise(self._fault(cluster, "cancel"), "cancel")
            ids = {handle.id for handle in handles}
            for job in cluster["jobs"]:
                if job["id"] not in ids or job["state"] == "ended":
                    continue
                if self._local is not None and job["state"] == "running":
                    self._local.cancel([JobHandle("local", job["token"], job["name"])], grace_s=grace_s)
                else:
                    job |= {"state": "ended", "word": "CANCELLED", "cause": "cancelled", "code": None}

    def in_queue(self, *, ask: bool = False) -> tuple[int, dict[JobHandle, JobState]]:
        """Jobs that are queued or running, and the number of this look."""
        with self._cluster() as cluster:
            self._advance(cluster)
            self._glances += 1
            there = [job for job in cluster["jobs"] if job["state"] != "ended" and self._visible(job)]
            return self._glances, {self._handle(job): JobState(job["state"]) for job in there}

    def free_slots(self, in_flight: int, limit: int | None) -> int:
        return max(0, (self._slots if limit is None else limit) - in_flight)

    # The cluster

    @contextlib.contextmanager
    def _cluster(self) -> Iterator[dict[str, Any]]:
        """The file's content, ours alone until the block ends; what changed is written back, also after an error."""
        with open(self._path.with_suffix(".lock"), "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            before = self._path.read_text()
            cluster = json.loads(before)
            try:
                yield cluster
            finally:
                after = json.dumps(cluster)
                if after != before:
                    aside = self._path.with_suffix(".new")
                    aside.write_text(after)
                    os.replace(aside, self._path)

    def _change(self, name: str, **changes: Any) -> None:
        with self._cluster() as cluster:
            named = [job for job in cluster["jobs"] if job["name"] == name]
            if not named:
                raise PermanentError(f"no job is called {name}")
            for job in named:
                job |= changes
                if changes.get("state") == "ended":
                    self._running.pop(job["id"], None)

    def _fault(self, cluster: dict[str, Any], operation: Operation) -> str | None:
        cluster["calls"][operation] = cluster["calls"].get(operation, 0) + 1
        for fault in cluster["faults"]:
            if fault[0] == operation:
                cluster["faults"].remove(fault)
                return fault[1]
        return None

    def _raise(self, fault: str | None, operation: Operation) -> None:
        if fault == "forbid":
            raise PermanentError(f"{operation}: invalid partition specified")
        if fault is not None:
            raise TemporaryError(f"{operation}: socket timed out on send/recv operation", self._retry_s)

    def _visible(self, job: Mapping[str, Any]) -> bool:
        return not job["forgotten"] and self._clock() >= job["submitted"] + self._lag_s

    def _handle(self, job: Mapping[str, Any]) -> JobHandle:
        return JobHandle(self.name, job["id"], job["name"])

    def _advance(self, cluster: dict[str, Any]) -> None:
        now = self._clock()
        alive = sum(job["state"] == "running" for job in cluster["jobs"])
        for job in cluster["jobs"]:
            if job["state"] == "queued" and now >= job["submitted"] + self._start_s and alive < self._slots:
                self._begin(job, now)
                alive += 1
            if job["state"] == "running" and self._local is not None:
                self._follow(job)
            elif job["state"] == "running" and self._execute is None and now >= job["begun"] + self._run_s:
                self._finish(job, 0)

    def _begin(self, job: dict[str, Any], now: float) -> None:
        job |= {"state": "running", "word": "RUNNING", "begun": now}
        entry = read_entry(Path(job["batch"]) / BATCH_FILE, job["index"])
        if self._local is not None:
            job["token"] = self._local.start(Path(job["batch"]), job["index"], entry).id
        elif self._execute is not None:
            self._running[job["id"]] = self._execute(entry, _token(job))

    def _follow(self, job: dict[str, Any]) -> None:
        """What became of a job that runs really."""
        assert self._local is not None, "only jobs that run really are followed"
        report = self._local.poll([handle := JobHandle("local", job["token"], job["name"])])[handle]
        if report.state in (JobState.ENDED, JobState.GONE):
            failed = report.exit_code != 0
            job |= {"state": "ended", "word": "FAILED" if failed else "COMPLETED", "cause": report.cause}
            job |= {"code": report.exit_code, "signal": report.signal}

    def _one_step(self, job: dict[str, Any]) -> None:
        try:
            next(self._running[job["id"]])
        except StopIteration as end:
            del self._running[job["id"]]
            self._finish(job, end.value)

    def _finish(self, job: dict[str, Any], code: int) -> None:
        job |= {"state": "ended", "word": "FAILED" if code else "COMPLETED", "cause": "exit", "code": code}
        entry = read_entry(Path(job["batch"]) / BATCH_FILE, job["index"])
        if Path(entry["record"]).parent.exists() and not held_by_other(entry["claim"], _token(job)):
            leave_record(Path(entry["record"]), {"job": _token(job), "code": code, "signal": None, "forwarded": []})

    def _report(self, handle: JobHandle, job: Mapping[str, Any] | None) -> JobReport:
        if not handle.id.isdigit():
            return JobReport(JobState.UNKNOWN, "foreign", reason=f"{handle.id} is no job id of this cluster")
        if job is None:
            return JobReport(JobState.GONE, "absent", reason="no such job")
        known = {"PENDING", "RUNNING", "COMPLETED", "FAILED", "CANCELLED", "NODE_FAIL", "TIMEOUT", "OUT_OF_MEMORY"}
        if job["word"] not in known:
            return JobReport(JobState.UNKNOWN, job["word"])
        state = {"queued": JobState.QUEUED, "running": JobState.RUNNING, "ended": JobState.ENDED}[job["state"]]
        return JobReport(state, job["word"], job.get("cause"), job.get("code"), job.get("signal"))


def _token(job: Mapping[str, Any]) -> str:
    return f"{job['name']}/{job['id']}/0"
