"""Jobs as processes of this machine. They outlive the orchestrator and are found again by name.

A job is a launch shim in a session of its own; its id (``cluster.process_id``) holds its start time, so that a recycled
pid is never taken for it, and its host, so that another machine on the same files does not call it dead. The process
table is the scheduler, and it always answers: a shim that is not there has ended (its record is there) or was killed
(GONE; the command dies with its shim).
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster.backend import JobHandle, JobReport, JobState, LaunchRequest, PermanentError, TemporaryError
from cluster.batch_file import BATCH_FILE, read_entry
from cluster.process_id import Life, life, pid_of, process_token

SHIM = "cluster.launch_shim"


class LocalBackend:
    """See ``cluster.backend.Backend``.

    Args:
        python: the interpreter that runs the shim.
        slots: jobs at once where no limit is given; default: the CPUs this process may use.
        clock: seconds, for the grace of ``cancel``.
    """

    name = "local"

    def __init__(
        self, *, python: str | None = None, slots: int | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._python = python or sys.executable
        self._slots = slots or _cpus()
        self._clock = clock
        self._records: dict[str, str] = {}
        """name -> where its shim leaves how it ended, as far as we submitted or found it."""
        self._deadlines: dict[JobHandle, float] = {}
        self._live: set[str] = set()
        """ids that were alive at the last look."""
        self._children: set[int] = set()

    def submit(self, batch: str, requests: Sequence[LaunchRequest]) -> list[JobHandle]:
        self._records.update({request.name: request.record for request in requests})
        there = self.find([request.name for request in requests])
        handles = []
        for index, request in enumerate(requests):
            handle = there.get(request.name) or self._ended(request) or self._start(Path(batch), index, request)
            handles.append(handle)
        return handles

    def _ended(self, request: LaunchRequest) -> JobHandle | None:
        record = _read_record(request.record)
        return None if record is None else self._handle(record["job"].split("/")[1], request.name)

    def _start(self, batch: Path, index: int, request: LaunchRequest) -> JobHandle:
        return self.start(batch, index, {"name": request.name, "env": request.env, "log": request.log})

    def start(self, batch: Path, index: int, entry: Mapping[str, Any]) -> JobHandle:
        """Start the shim of one entry of a batch file, without looking whether it runs already."""
        name = entry["name"]
        argv = [self._python, "-P", "-m", SHIM, str(batch / BATCH_FILE), str(index), name]
        append = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        try:
            pid = os.posix_spawn(
                self._python,
                argv,
                {**os.environ, **entry["env"]},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 1, entry["log"], append, 0o664),
                    (os.POSIX_SPAWN_DUP2, 1, 2),
                ],
                setsid=True,
                setsigmask=[],
                setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGUSR2, signal.SIGHUP],
            )
        except FileNotFoundError as error:
            raise PermanentError(f"cannot start {name}: {error}") from error
        except OSError as error:  # EAGAIN, ENOMEM: too many processes just now
            raise TemporaryError(f"cannot start {name}: {error}") from error
        self._children.add(pid)  # nobody can be given its pid before we collect it
        if "record" in entry:
            self._records[name] = entry["record"]
        token = process_token(pid, zombies=True)
        assert token is not None, "an uncollected child is in the process table"
        self._live.add(token)
        return self._handle(token, name)

    def _handle(self, id: str, name: str) -> JobHandle:
        return JobHandle(self.name, id, name)

    def find(self, names: Sequence[str]) -> dict[str, JobHandle]:
        import psutil

        wanted = set(names)
        found: dict[str, JobHandle] = {}
        if not wanted:
            return found
        for process in psutil.process_iter():
            try:
                argv = process.cmdline()
            except psutil.Error:
                continue
            if len(argv) < 7 or argv[3] != SHIM or argv[6] not in wanted:
                continue
            token = process_token(process.pid)
            if token is None:
                continue
            try:
                record = read_entry(Path(argv[4]), int(argv[5]))["record"]
            except PermanentError:
                record = ""
            if record and self._records.setdefault(argv[6], record) != record:
                continue  # another workspace carries the same pack, under the same name
            found[argv[6]] = self._handle(token, argv[6])
            self._live.add(token)
        return found

    def poll(self, handles: Sequence[JobHandle]) -> dict[JobHandle, JobReport]:
        self._collect()
        return {handle: self._report(handle) for handle in handles}

    def _report(self, handle: JobHandle) -> JobReport:
        state = life(handle.id)
        if state is Life.ELSEWHERE:
            return JobReport(JobState.UNKNOWN, state.value, reason="it belongs to another host: " + handle.id)
        if state is Life.ALIVE:
            self._live.add(handle.id)
            if self._clock() >= self._deadlines.get(handle, float("inf")):
                _kill_tree(handle.id)
            return JobReport(JobState.RUNNING, "alive")
        self._live.discard(handle.id)
        self._deadlines.pop(handle, None)
        record = _read_record(self._records.get(handle.name, ""))
        if record is None or record["job"].split("/")[1] != handle.id:
            return JobReport(JobState.GONE, "absent", reason="no such process, and its shim left no record")
        cause = "signal" if record["signal"] is not None else "exit"
        details = {key: record[key] for key in ("seconds", "max_rss_mb", "host", "forwarded") if key in record}
        return JobReport(JobState.ENDED, "ended", cause, record["code"], record["signal"], details=details)

    def _collect(self) -> None:
        """Collect children of ours that have ended; a zombie would keep its pid for ever."""
        for pid in list(self._children):
            try:
                if os.waitpid(pid, os.WNOHANG)[0] == 0:
                    continue
            except ChildProcessError:
                pass
            self._children.discard(pid)

    def cancel(self, handles: Sequence[JobHandle], *, grace_s: float = 30.0) -> None:
        for handle in handles:
            if life(handle.id) is Life.ALIVE:
                os.kill(pid_of(handle.id), signal.SIGTERM)
                self._deadlines.setdefault(handle, self._clock() + grace_s)
                if grace_s <= 0:
                    _kill_tree(handle.id)

    def free_slots(self, in_flight: int, limit: int | None) -> int:
        return max(0, (self._slots if limit is None else limit) - in_flight)

    def wait(self, timeout: float) -> None:
        """Return when a job that lives ends, after ``timeout`` seconds at the latest."""
        descriptors: list[int] = []
        try:
            for token in list(self._live):
                if life(token) is not Life.ALIVE:
                    self._live.discard(token)
                    return
                try:
                    descriptors.append(os.pidfd_open(pid_of(token)))
                except (AttributeError, OSError):
                    continue
            ends = select.poll()
            for descriptor in descriptors:
                ends.register(descriptor, select.POLLIN)
            ends.poll(timeout * 1000)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)


def _cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _kill_tree(token: str) -> None:
    import psutil

    try:
        shim = psutil.Process(pid_of(token))
        family = [*shim.children(recursive=True), shim]
    except psutil.NoSuchProcess:
        return
    if life(token) is not Life.ALIVE:
        return
    for process in family:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue


def _read_record(path: str) -> Mapping[str, Any] | None:
    if not path:
        return None
    try:
        return json.loads(Path(path).read_bytes())
    except FileNotFoundError:
        return None
