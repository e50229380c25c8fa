"""Slurm. submitit checks the parameters and writes the ``#SBATCH`` lines; one array script a batch runs our shim.

submitit's pickles, its watcher and its requeue from a rank are not used: deciding, polling and verdicts are ours, so
that they mean the same on every backend. What is known about Slurm lies in ``cluster/slurm/``.
"""

from __future__ import annotations

import getpass
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from cluster.backend import JobHandle, JobReport, JobState, LaunchRequest, PermanentError, TemporaryError
from cluster.slurm.batches import Batches, array_name
from cluster.slurm.commands import Answer, Commands
from cluster.slurm.limits import Limits, Refused, refused
from cluster.slurm.parse import ACCOUNT_FIELDS, AccountRow, account_rows, queue_rows, split_id
from cluster.slurm.profile import Profile, load_profile
from cluster.slurm.reservations import Calendar
from cluster.slurm.states import look_up, waiting
from cluster.slurm.submission import Submitter, read_arrays
from cluster.slurm.watch import GONE_AFTER_S, RUNAWAY_AFTER_S, Watcher

RELEASES = 3
"""How often a job that Slurm holds after a failed launch is released before we give it up."""
IDS_A_CALL = 400


def render(folder: Path, parameters: dict[str, Any], shell: str, setup: Sequence[str]) -> str:
    """A batch script, written by submitit from parameters that it has checked.

    Raises:
        ValueError: a parameter that submitit does not know (the message lists the valid ones).
        PermanentError: submitit finds no Slurm on this machine.
    """
    from submitit import SlurmExecutor

    try:
        executor = SlurmExecutor(folder=folder)
    except RuntimeError as error:
        raise PermanentError(f"{error} `srun` is not on PATH; use --backend local here") from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        executor.update_parameters(**parameters, setup=list(setup) or None)
    return executor._make_submission_file_text(shell, "")


def _shown(command: str, answer: Answer) -> str:
    """What a command printed.

    Raises:
        TemporaryError: it does not answer.
    """
    if not answer.ok:
        raise TemporaryError(f"{command}: {answer.trouble}", 15.0)
    return answer.out


def _over(word: str) -> bool:
    return look_up(word)[0] in (JobState.ENDED, JobState.GONE)


class SlurmBackend:
    """See ``cluster.backend.Backend``.

    Args:
        site: name or path of a site profile (default: ``$ORCHESTRATE_SITE``), or the profile itself.
        submissions: directory that holds the batches, where it is known before the first of them is submitted.
        clock: seconds, monotonic; ``wall``: wall clock.
        commands: how Slurm's commands are run, for tests.
        gone_after_s, runaway_after_s: how long both sources must have lost a job before it is called gone, without and
            with an accounting row that says RUNNING for ever.
    """

    name = "slurm"

    def __init__(
        self,
        site: str | Profile | None = None,
        *,
        submissions: Path | str | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        commands: Commands | None = None,
        gone_after_s: float = GONE_AFTER_S,
        runaway_after_s: float = RUNAWAY_AFTER_S,
    ) -> None:
        self.profile = site if isinstance(site, Profile) else load_profile(site)
        self._clock = clock
        self.commands = commands or Commands(looks_per_minute=self.profile.looks_per_minute, clock=clock)
        self._batches = Batches(Path(submissions) if submissions is not None else None)
        self.limits = Limits(self.commands, clock=clock, most_queued=self.profile.max_queued)
        self._user = getpass.getuser()
        self.watcher = Watcher(
            self.commands,
            self._batches,
            user=self._user,
            clock=clock,
            gone_after_s=gone_after_s,
            runaway_after_s=runaway_after_s,
        )
        self._calendar = Calendar(self.commands, clock)
        self._submitter = Submitter(
            self.commands,
            self.limits,
            self.profile,
            look_up=self._array_job,
            render=render,
            left_minutes=self._calendar.left_minutes,
            clock=wall,
            steady=clock,
        )
        self.limit_of = self._submitter.limit_of
        """Resources -> the time limit and the warning that such a job would be submitted with now."""
        self._deadlines: dict[JobHandle, float] = {}
        self._releases: dict[JobHandle, int] = {}
        self._accepted = 0
        """Jobs handed over since the queue was last looked at."""

    @property
    def notices(self) -> Sequence[str]:
        """What a person should read once."""
        return self.watcher.notices

    def exclude(self, nodes: Iterable[str]) -> None:
        """Later jobs avoid these nodes."""
        self._submitter.exclude = frozenset(nodes)

    def machines(self) -> frozenset[str]:
        """Names of all nodes there are.

        Raises:
            TemporaryError: the controller does not answer.
        """
        self._afford("machines", 1)
        return frozenset(_shown("sinfo", self.commands("sinfo", "-h", "-N", "-o", "%N")).split())

    # Submitting and finding

    def submit(self, batch: str, requests: Sequence[LaunchRequest]) -> list[JobHandle]:
        directory = Path(batch).absolute()
        self._batches.learn(directory)
        ids = self._submitter.submit(directory, requests, self.watcher.queued + self._accepted)
        self._accepted += len(ids)
        return [JobHandle(self.name, id, request.name) for id, request in zip(ids, requests, strict=True)]

    def _array_job(self, name: str) -> str | None:
        """Id of the array that carries this name: the queue's word, then accounting's."""
        recent = self.watcher.recent()
        accounting = self.watcher.accounting
        self._afford("submit", (recent is None) + accounting)
        queue = _shown("squeue", recent or self.watcher.queue())
        found = next((split_id(row.id)[0] for row in queue_rows(queue) if row.name == name), None)
        if not accounting:
            return found
        if found is not None:
            self.commands.looks.give_back()
            return found
        accounts = self._accounts("-X", "-D", "--name", name)
        return next((split_id(row.id)[0] for row in accounts if row.name == name and _over(row.word)), None)

    def _afford(self, who: str, calls: int) -> None:
        """Calls that show something, all or none: the queue is not asked where accounting would not have its turn.

        Raises:
            TemporaryError: asked often enough.
        """
        looks = self.commands.looks
        if calls and not looks.take(who, calls):
            raise TemporaryError("enough looks at the scheduler for this minute", max(1.0, looks.wait_s(who, calls)))

    def _accounts(self, *options: str) -> list[AccountRow]:
        """Rows of sacct since our first batch; none where this site keeps no accounts.

        Raises:
            TemporaryError: it does not answer.
        """
        answer = self.commands("sacct", "-n", "-P", "-S", self.watcher.since(), *options, "-o", ACCOUNT_FIELDS)
        if "accounting storage is disabled" in answer.err and not answer.ok:
            self.watcher.accounting = False
            return []
        return account_rows(_shown("sacct", answer))

    def find(self, names: Sequence[str]) -> dict[str, JobHandle]:
        wanted = set(names)
        if not wanted:
            return {}
        accounting = self.watcher.accounting
        self._afford("find", 1 + accounting)
        found: dict[str, JobHandle] = {}
        live: set[str] = set()
        for row in queue_rows(_shown("squeue", self.watcher.queue())):
            name = self._batches.name_of_row(row)
            if name not in wanted or name in live:
                continue
            found[name] = JobHandle(self.name, row.id, name)
            if not _over(row.word):
                live.add(name)
        arrays = {
            array_name(directory.name, array.first)
            for directory in self._batches.holders(wanted - found.keys())
            for array in read_arrays(directory)
        }
        if not accounting:
            return found
        if not arrays:
            self.commands.looks.give_back()
            return found
        for row in self._accounts("-X", "--name", ",".join(sorted(arrays))):
            name = self._batches.name_of_row(row)
            # What accounting calls running and the queue does not know is a row that nobody ended.
            if name in wanted and name not in live and name not in found and _over(row.word):
                found[name] = JobHandle(self.name, row.id, name)
        return found

    # Watching

    def poll(self, handles: Sequence[JobHandle]) -> dict[JobHandle, JobReport]:
        looks = self.watcher.looks
        reports = self.watcher.look(handles)
        if self.watcher.looks > looks:
            self._accepted = 0
        reports = {handle: self._calendar.explain(report) for handle, report in reports.items()}
        for handle in list(self.watcher.stuck):
            if handle in reports:
                reports[handle] = self._free(handle)
        self._enforce(reports)
        return reports

    def _free(self, handle: JobHandle) -> JobReport:
        """A job that cannot start: release it where that may help, else take it out of the queue and say why."""
        row = self.watcher.stuck.pop(handle)
        why = waiting(row.reason)
        tries = self._releases.get(handle, 0)
        if why.release and tries < RELEASES:
            if self.commands.orders.take() and self.commands("scontrol", "release", handle.id).ok:
                self._releases[handle] = tries + 1
            said = f"{why.words}; released {self._releases.get(handle, 0)} times"
            return JobReport(JobState.QUEUED, row.word, reason=said, details={"slurm_reason": row.reason})
        if not self.commands.orders.take() or not self._scancel(row.name, [handle]):
            return JobReport(JobState.QUEUED, row.word, reason=why.words, details={"slurm_reason": row.reason})
        self.watcher.mark_cancelled(handle)
        cause = "prolog_failed" if why.release else why.cause
        said = f"{why.words}; taken out of the queue"
        return JobReport(JobState.ENDED, row.word, cause, reason=said, details={"slurm_reason": row.reason})

    # Stopping

    def cancel(self, handles: Sequence[JobHandle], *, grace_s: float = 30.0) -> None:
        if any(not self.watcher.array_of(handle) for handle in handles):
            self._learn(handles)
        for array, part in self._by_array(handles).items():
            waits = [h for h in part if grace_s <= 0 or self.watcher.state_of(h) is JobState.QUEUED]
            asked = [h for h in part if h not in waits and h not in self._deadlines]
            if waits:
                self._order_cancel(array, waits)
                for handle in waits:
                    if self.watcher.state_of(handle) is JobState.QUEUED:
                        self.watcher.mark_cancelled(handle)
            if asked:
                # The batch shell alone: it passes the signal on once, and does not ask for a requeue afterwards.
                self._order_cancel(array, asked, "--signal=TERM", "--batch")
                self._deadlines |= dict.fromkeys(asked, self._clock() + grace_s)

    def _learn(self, handles: Sequence[JobHandle]) -> None:
        """Which arrays jobs belong to that we have not seen in the queue (those that are not there need no cancel)."""
        self._afford("cancel", 1)
        rows = self.watcher.rows(_shown("squeue", self.watcher.queue()))
        for handle in handles:
            row = rows.get((handle.id, handle.name))
            if row is not None:
                self.watcher.note(handle, row)

    def _by_array(self, handles: Sequence[JobHandle]) -> dict[str, list[JobHandle]]:
        """Handles by the name of their array, so many as a command line takes. An id alone never cancels anything:
        Slurm gives ids again."""
        groups: dict[str, list[JobHandle]] = {}
        for handle in handles:
            array = self.watcher.array_of(handle)
            if array:
                groups.setdefault(array, []).append(handle)
        return groups

    def _order_cancel(self, array: str, handles: Sequence[JobHandle], *options: str) -> None:
        for begin in range(0, len(handles), IDS_A_CALL):
            if not self.commands.orders.take():
                raise TemporaryError("enough scheduler calls for this minute", max(1.0, self.commands.orders.wait_s()))
            if not self._scancel(array, handles[begin : begin + IDS_A_CALL], *options) and not options:
                raise TemporaryError("scancel: the controller does not answer", 15.0)

    def _scancel(self, array: str, handles: Sequence[JobHandle], *options: str) -> bool:
        answer = self.commands("scancel", f"--name={array}", *options, *[handle.id for handle in handles])
        return answer.ok or (
            answer.code is not None and refused(answer) is Refused.NEVER
        )  # "Invalid job id": it is over

    def _enforce(self, reports: dict[JobHandle, JobReport]) -> None:
        """End what was asked to leave and had its time."""
        over = (JobState.ENDED, JobState.GONE)
        self._deadlines = {
            handle: due
            for handle, due in self._deadlines.items()
            if handle in reports and reports[handle].state not in over
        }
        due = [handle for handle, at in self._deadlines.items() if self._clock() >= at]
        for array, part in self._by_array(due).items():
            if self.commands.orders.take() and self._scancel(array, part[:IDS_A_CALL]):
                for handle in part[:IDS_A_CALL]:
                    self._deadlines[handle] = self._clock() + 30.0

    def free_slots(self, in_flight: int, limit: int | None) -> int:
        most = self.limits.ceiling()
        return max(0, (most if limit is None else min(limit, most)) - in_flight)
