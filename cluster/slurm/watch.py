"""What became of jobs: one squeue and at most one sacct a look, whatever the number of jobs.

Silence decides nothing. A job is over when squeue or sacct says a final word about *our* job (name and comment are
checked: ids are given again), or gone when both have answered, again and again, that there is none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from cluster.backend import JobHandle, JobReport, JobState
from cluster.slurm.batches import Batches
from cluster.slurm.commands import Answer, Backoff, Commands
from cluster.slurm.limits import WITHOUT_ACCOUNTS
from cluster.slurm.parse import ACCOUNT_FIELDS, AccountRow, QueueRow, account_rows
from cluster.slurm.queue_reader import OVER, QueueReader
from cluster.slurm.states import look_up, waiting
from cluster.slurm.track import Track
from cluster.slurm.verdict import NEVER_BEGAN, verdict_of

GONE_AFTER_S = 60.0
"""Both sources must say for so long, and at least twice, that there is no such job."""
RUNAWAY_AFTER_S = 900.0
"""The queue does not know it and accounting says RUNNING for ever: a controller that lost its memory."""
FINAL_AFTER_S = 90.0
"""How long to wait for accounting's details about a job that the queue says is over."""
MOST_IDS = 300
"""Ids of single elements in one sacct call; beyond that whole arrays are asked for."""
WATCH = "watch"
"""Under this name the calls of a look are kept (``Bucket``)."""


class Watcher:
    """Looks for one backend.

    Args:
        user: whose jobs to ask for; default: ours.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        commands: Commands,
        batches: Batches,
        *,
        user: str,
        clock: Callable[[], float] = time.monotonic,
        gone_after_s: float = GONE_AFTER_S,
        runaway_after_s: float = RUNAWAY_AFTER_S,
    ) -> None:
        self._commands = commands
        self._batches = batches
        self._clock = clock
        self.queue = QueueReader(commands, batches, user=user, clock=clock)
        self._gone_after = gone_after_s
        self._runaway_after = runaway_after_s
        self._tracks: dict[JobHandle, Track] = {}
        self._backoff = Backoff(15.0, 300.0, clock)
        self._accounts_backoff = Backoff(15.0, 300.0, clock)
        self._owed = False
        """Accounting was to be asked at the last look, and there was no call left for it."""
        self._paid = 0
        """Calls that this look has taken beforehand and not made."""
        self.accounting = True
        self.notices: list[str] = []
        """What a person should read once (no accounting here)."""
        self.rows: dict[JobHandle, QueueRow] = {}
        """Jobs of ours in the queue at the last look, also ended ones, ..."""
        self.queued = 0
        """... how many of them are not over, ..."""
        self.looks = 0
        """... and how often the queue was looked at."""
        self.stuck: dict[JobHandle, QueueRow] = {}
        """Jobs that wait for something that will not happen."""

    def look(self, handles: Sequence[JobHandle]) -> dict[JobHandle, JobReport]:
        """A report for each; from memory where it is too early to ask again."""
        tracks = {handle: self._tracks.setdefault(handle, Track()) for handle in handles}
        self._tracks = tracks
        asked = [handle for handle, track in tracks.items() if not track.final]
        if asked:
            self._look(asked)
        return {handle: self._told(track) for handle, track in tracks.items()}

    def glance(self) -> None:
        """A look at the queue that nobody's handle asks for, unless it is too early."""
        self._look([])

    def mark_cancelled(self, handle: JobHandle) -> None:
        """We took a waiting element out of the queue: Slurm keeps no record of it, so we say it."""
        track = self._tracks.setdefault(handle, Track())
        track.report = JobReport(JobState.ENDED, "CANCELLED", "cancelled", reason="cancelled by us while it waited")
        track.final = True

    def array_of(self, handle: JobHandle) -> str:
        """Name of the array a live job belongs to, "" where the queue has not shown it."""
        track, row = self._tracks.get(handle), self.rows.get(handle)
        return track.array if track is not None and track.array else row.name if row is not None else ""

    def state_of(self, handle: JobHandle) -> JobState:
        """The state at the last look."""
        track, row = self._tracks.get(handle), self.rows.get(handle)
        if track is not None:
            return track.report.state
        return look_up(row.word)[0] if row is not None else JobState.UNKNOWN

    # Asking

    def _look(self, handles: Sequence[JobHandle]) -> None:
        answer = None if self.queue.used else self.queue.recent()
        # Passes may come faster than calls are allowed: where accounting is owed a question, no squeue takes its turn.
        owed = self._owed and self.accounting and not self._accounts_backoff.resting
        calls = (answer is None) + owed
        if self._backoff.resting or (calls and not self._commands.looks.take(WATCH, calls)):
            return
        self._paid = int(owed)
        self._ask(handles, answer or self.queue.read())
        self.queue.used = True
        self._commands.looks.give_back(self._paid)

    def _ask(self, handles: Sequence[JobHandle], answer: Answer) -> None:
        if not answer.ok:
            pause = self._backoff.failed()
            for handle in handles:
                self._unknown(handle, f"the controller does not answer ({answer.trouble}); again in {pause:.0f} s")
            return
        self._backoff.succeeded()
        self.looks += 1
        rows = self.rows = self.queue.rows(answer.out)
        self.queued = sum(1 for row in rows.values() if look_up(row.word)[0] not in OVER)
        self.stuck = {}
        unclear: list[JobHandle] = []
        for handle in handles:
            row = rows.get(handle)
            if row is None or self._take_queue_row(handle, row):
                unclear.append(handle)
        self._owed = False
        if unclear:
            self._account(unclear, rows)

    def note(self, handle: JobHandle, row: QueueRow) -> None:
        """The queue has shown this row of a job."""
        self._tracks.setdefault(handle, Track())
        self._take_queue_row(handle, row)

    def _take_queue_row(self, handle: JobHandle, row: QueueRow) -> bool:
        """Note what squeue says. True: it is over, and accounting may know more."""
        track = self._tracks[handle]
        now = self._clock()
        track.seen, track.word, track.missing, track.misses, track.array = now, row.word, None, 0, row.name
        state, cause = look_up(row.word)
        details = {"node": row.nodes} if row.nodes else {}
        if state in OVER:
            if cause == "cancelled" and not row.nodes:
                cause, row = "launch_failed", replace(row, reason=NEVER_BEGAN)
            track.ended = track.ended if track.ended is not None else now
            track.report = self._by_record(
                handle, JobReport(state, row.word, cause, reason=_reason(row.reason), details=details)
            )
            track.final = row.word == "COMPLETED" or now - track.ended > FINAL_AFTER_S
            return not track.final
        track.ended = None
        reason = _reason(row.reason)
        if state is JobState.QUEUED:
            why = waiting(row.reason)
            reason = why.words
            details["slurm_reason"] = row.reason
            if why.never or why.release:
                self.stuck[handle] = row
        elif state is JobState.UNKNOWN:
            reason = f"Slurm says {row.word}, which is not in our table"
        track.report = JobReport(state, row.word, cause, reason=reason, details=details)
        return False

    # Accounting

    def _account(self, handles: Sequence[JobHandle], queue: Mapping[JobHandle, QueueRow]) -> None:
        """Ask accounting about jobs that the queue does not know, or knows as over."""
        absent = [handle for handle in handles if handle not in queue]
        if not self.accounting:
            for handle in absent:
                self._missing(handle, "the queue does not know it, and this site keeps no accounts")
            return
        resting = self._accounts_backoff.resting
        self._owed = not resting and not self._pay()  # then both have their turn at the next look
        if resting or self._owed:
            for handle in absent:
                self._unknown(handle, "not in the queue; accounting was not asked just now")
            return
        answer = self._commands(
            "sacct", "-n", "-P", "-D", "-S", self.since(), "-j", _ids(handles), "-o", ACCOUNT_FIELDS
        )
        if not answer.ok:
            self._no_accounts(answer, absent)
            return
        self._accounts_backoff.succeeded()
        runs: dict[tuple[str, str], list[AccountRow]] = {}
        for row in account_rows(answer.out):
            name = self._batches.name_of_row(row)
            if name is not None:
                runs.setdefault((row.id, name), []).append(row)
        for handle in handles:
            found = runs.get((handle.id, handle.name))
            if found:
                self._take_account(handle, found, absent=handle not in queue)
            elif handle not in queue:
                self._missing(handle, "neither the queue nor accounting knows it")

    def _pay(self) -> bool:
        """For one sacct."""
        if self._paid:
            self._paid -= 1
            return True
        return self._commands.looks.take()

    def _no_accounts(self, answer: Answer, absent: Iterable[JobHandle]) -> None:
        if "accounting storage is disabled" in answer.err:
            self.accounting = False
            self.notices.append(WITHOUT_ACCOUNTS)
            for handle in absent:
                self._missing(handle, "the queue does not know it, and this site keeps no accounts")
            return
        self._accounts_backoff.failed()
        for handle in absent:
            self._unknown(handle, f"not in the queue, and accounting does not answer ({answer.trouble})")

    def since(self) -> str:
        """A day before the oldest batch we know: never sacct's own window, which ends at midnight."""
        oldest = self._batches.oldest()
        begin = datetime.fromtimestamp(oldest) if oldest is not None else datetime.now() - timedelta(days=30)
        return (begin - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%S")

    def _take_account(self, handle: JobHandle, runs: Sequence[AccountRow], *, absent: bool) -> None:
        track = self._tracks[handle]
        row = runs[-1]
        state, _ = look_up(row.word)
        if state is JobState.ENDED:
            track.seen, track.word, track.missing = self._clock(), row.word, None
            track.report, track.final = verdict_of(runs), True
        elif absent:
            # Two sources, two opinions: accounting may be late, or the controller may have forgotten the job.
            self._missing(handle, f"accounting says {row.word}, the queue does not know it", self._runaway_after)

    # What is said

    def _missing(self, handle: JobHandle, why: str, patience_s: float | None = None) -> None:
        track = self._tracks[handle]
        now = self._clock()
        track.missing = track.missing if track.missing is not None else now
        track.misses += 1
        marked = self._by_record(handle, JobReport(JobState.ENDED, "absent", "exit", reason=why))
        if marked.exit_code is not None or marked.signal is not None:
            track.report = marked  # two sources: the queue, and the end marker that our shim left
        elif track.misses >= 2 and now - track.missing >= (patience_s or self._gone_after):
            track.report = JobReport(JobState.GONE, "absent", reason=why)
        else:
            self._unknown(handle, why, patience_s or self._gone_after)

    def _by_record(self, handle: JobHandle, report: JobReport) -> JobReport:
        """A report with the exit code that the shim left, where the scheduler did not tell it (yet)."""
        if report.cause != "exit" or (record := self._batches.record(handle)) is None:
            return report
        cause = "signal" if record["signal"] is not None else "exit"
        return replace(report, cause=cause, exit_code=record["code"], signal=record["signal"])

    def _unknown(self, handle: JobHandle, why: str, missing_s: float | None = None) -> None:
        track = self._tracks[handle]
        if track.report.state is not JobState.ENDED:
            details = {} if missing_s is None else {"misses": track.misses}
            track.report = JobReport(JobState.UNKNOWN, track.word, reason=why, details=details, missing_s=missing_s)

    def _told(self, track: Track) -> JobReport:
        """The report with the age of what it rests on: "RUNNING, last seen 14 min ago"."""
        if track.seen is None or track.report.state is not JobState.UNKNOWN or not track.word:
            return track.report
        age = self._clock() - track.seen
        said = f"{track.word}, last seen {age / 60:.0f} min ago; {track.report.reason}"
        return replace(track.report, reason=said, details={**track.report.details, "last_seen_s": round(age, 1)})


def _reason(text: str) -> str:
    return "" if text in ("None", "(null)", "") else text


def _ids(handles: Sequence[JobHandle]) -> str:
    ids = sorted({handle.id for handle in handles})
    return ",".join(ids if len(ids) <= MOST_IDS else sorted({id.partition("_")[0] for id in ids}))
