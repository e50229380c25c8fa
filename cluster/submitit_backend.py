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
from cluster.slurm.batches import Batches
from cluster.slurm.commands import Commands
from cluster.slurm.finder import Finder, shown
from cluster.slurm.limits import WITHOUT_ACCOUNTS, Limits, Refused, refused
from cluster.slurm.profile import Profile, load_profile
from cluster.slurm.queue_reader import OVER
from cluster.slurm.reservations import Calendar
from cluster.slurm.states import look_up, waiting
from cluster.slurm.submission import Submitter
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
        self._finder = Finder(self.commands, self._batches, self.watcher)
        self._calendar = Calendar(self.commands, clock)
        self._submitter = Submitter(
            self.commands,
            self.limits,
            self.profile,
            look_up=self._finder.array,
            render=render,
            left_minutes=self._calendar.left_minutes,
            clock=wall,
            steady=clock,
        )
        self.limit_of = self._submitter.limit_of
        """Resources -> the time limit and the warning that such a job would be submitted with now."""
        self._deadlines: dict[JobHandle, float] = {}
        self._releases: dict[JobHandle, int] = {}
        self._looked = (0, 0)
        """The last look at the queue, and how many jobs had been handed over before it."""

    @property
    def notices(self) -> Sequence[str]:
        """What a person should read once."""
        told = [WITHOUT_ACCOUNTS] if self.limits.told_without_accounts else []
        return list(dict.fromkeys([*told, *self.watcher.notices]))

    def exclude(self, nodes: Iterable[str]) -> None:
        """Later jobs avoid these nodes."""
        self._submitter.exclude = frozenset(nodes)

    def machines(self) -> frozenset[str]:
        """Names of all nodes there are.

        Raises:
            TemporaryError: the controller does not answer.
        """
        self._finder.afford("machines", 1)
        return frozenset(shown("sinfo", self.commands("sinfo", "-h", "-N", "-o", "%N")).split())

    # Submitting and finding

    def submit(self, batch: str, requests: Sequence[LaunchRequest]) -> list[JobHandle]:
        directory = Path(batch).absolute()
        self._batches.learn(directory)
        if self.watcher.queued + self._unseen + len(requests) > self.limits.ceiling():
            self.watcher.glance()  # what was handed over may have ended unseen, and left nobody to ask about
            self._note_look()
        ids = self._submitter.submit(directory, requests, self.watcher.queued + self._unseen)
        return [JobHandle(self.name, id, request.name) for id, request in zip(ids, requests, strict=True)]

    def find(self, names: Sequence[str]) -> dict[str, JobHandle]:
        return self._finder.jobs(names)

    # Watching

    def poll(self, handles: Sequence[JobHandle]) -> dict[JobHandle, JobReport]:
        reports = self.watcher.look(handles)
        self._note_look()
        reports = {handle: self._calendar.explain(report) for handle, report in reports.items()}
        for handle in list(self.watcher.stuck):
            if handle in reports:
                reports[handle] = self._free(handle)
        self._enforce(reports)
        return reports

    @property
    def _unseen(self) -> int:
        """Jobs handed over since the last look."""
        return self._submitter.handed - self._looked[1]

    def _note_look(self) -> None:
        if self.watcher.looks != self._looked[0]:
            self._looked = (self.watcher.looks, self._submitter.handed)

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

    def in_queue(self, *, ask: bool = False) -> tuple[int, dict[JobHandle, JobState]]:
        """Jobs of this workspace that are queued or running, whoever submitted them, and the number of the look at the
        queue that says so. ``ask``: look now, if it is not too early, though nobody asks about any job."""
        if ask:
            self.watcher.glance()
            self._note_look()
        states = ((handle, look_up(row.word)[0]) for handle, row in self.watcher.rows.items())
        return self.watcher.looks, {handle: state for handle, state in states if state not in OVER}

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
        self._finder.afford("cancel", 1)
        rows = self.watcher.queue.rows(shown("squeue", self.watcher.queue.read()))
        for handle in handles:
            row = rows.get(handle)
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
        self._deadlines = {
            handle: due
            for handle, due in self._deadlines.items()
            if handle in reports and reports[handle].state not in OVER
        }
        due = [handle for handle, at in self._deadlines.items() if self._clock() >= at]
        for array, part in self._by_array(due).items():
            if self.commands.orders.take() and self._scancel(array, part[:IDS_A_CALL]):
                for handle in part[:IDS_A_CALL]:
                    self._deadlines[handle] = self._clock() + 30.0

    def free_slots(self, in_flight: int, limit: int | None) -> int:
        most = self.limits.ceiling()
        return max(0, (most if limit is None else min(limit, most)) - in_flight)
