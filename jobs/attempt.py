"""Carrying out one attempt, from claim to ``closed.json``: what the worker does besides training."""

from __future__ import annotations

import faulthandler
import os
import socket
import sys
import threading
import traceback
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from jobs import checkpoint as checkpoints
from jobs import signals
from jobs.admission import check_code, resolve_members
from jobs.errors import JobError
from jobs.facts import ExitCode, FailureClass, close_attempt, read_closed
from jobs.failures import classify_exception, one_line
from jobs.heartbeat import INTERVAL_S, Progress, Pulse
from jobs.joining import admit, choose_checkpoint, join
from jobs.launch import Launch, read_launch
from jobs.ranks import PeerLost, PeersSilent, Ranks, Seat
from jobs.recorder import Recorder, SilentRecorder, previous_rows
from jobs.rendezvous import Meeting
from jobs.runners import load, runner
from jobs.session import Leave, Session
from jobs.workspace import AttemptDir

JOB_VARIABLE = "ORCHESTRATE_JOB"
CODE_VARIABLE = "ORCHESTRATE_CODE"

_EXIT_CODES = {
    FailureClass.USER_ERROR: ExitCode.CONFIG,
    FailureClass.DISK: ExitCode.DISK,
    FailureClass.GPU_OUT_OF_MEMORY: ExitCode.GPU_OUT_OF_MEMORY,
    FailureClass.PORT_CLASH: ExitCode.PORT_CLASH,
    FailureClass.HANG: ExitCode.HANG,
}


def carry_out(
    path: Path, environ: Mapping[str, str] = os.environ, *, imported: Callable[[], None] = lambda: None
) -> int:
    """Claim and carry out the attempt at ``path``. Returns the exit code (``ExitCode``).

    Of several processes the first claims, and the others take part if it has won; all leave with the same code.

    Args:
        imported: called once, when all modules that the runner needs are imported.
    """
    attempt = AttemptDir(Path(os.path.abspath(path)))
    launch = read_launch(attempt.launch)
    job = environ.get(JOB_VARIABLE) or f"{launch.name}/{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex[:8]}"
    seat = Seat.of(environ)
    try:
        ours, meeting = admit(attempt, launch, job, seat)
    except PeerLost as error:
        print(f"{launch.name}: {error}", file=sys.stderr)
        return ExitCode.PEER_LOST
    if not ours:
        print(f"{launch.name} is claimed or closed already; nothing to do here", file=sys.stderr)
        return ExitCode.DONE
    return _Attempt(attempt, launch, job, environ, seat, meeting, imported).run()


class _Attempt:
    """A claimed attempt, as one of its processes carries it out.

    Args:
        meeting: where the first process is met, for the others.
        imported: see ``carry_out``.
    """

    def __init__(
        self,
        attempt: AttemptDir,
        launch: Launch,
        job: str,
        environ: Mapping[str, str],
        seat: Seat,
        meeting: Meeting | None,
        imported: Callable[[], None],
    ) -> None:
        self._attempt = attempt
        self._launch = launch
        self._job = job
        self._environ = environ
        self._seat = seat
        self._meeting = meeting
        self._imported = imported
        self._ranks = Ranks()
        self._progress = Progress()
        self._session: Session | None = None
        self._recorder: Recorder | None = None
        self._pulse: Pulse | None = None

    def run(self) -> int:
        try:
            try:
                session = self._prepare()
                if not session.leaving.request(session.resume_step):
                    run = load(runner(self._launch.runner).run)
                    self._imported()
                    run(session)
                session.commit()
                self._ranks.agree((0,))  # all have come this far
            finally:
                if self._pulse is not None:
                    self._pulse.stop()
            return self._close(session)
        except Leave:
            return self._yield()
        except PeersSilent as error:
            self._fail(FailureClass.HANG, str(error))
            return ExitCode.HANG
        except PeerLost as error:
            return self._follow(error)
        except BaseException as error:
            traceback.print_exc()
            failure = classify_exception(error)
            self._fail(failure, one_line(error))
            return _EXIT_CODES.get(failure, 1)
        finally:
            self._ranks.close()
            sys.stderr.flush()

    def _prepare(self) -> Session:
        attempt, launch = self._attempt, self._launch
        if unheard := signals.unheard(self._environ):
            known = ", ".join(number.name for number in signals.LEAVE_SIGNALS)
            raise JobError(f"we would be asked to leave with {unheard}, but this worker listens to {known} only")
        code = self._environ.get(CODE_VARIABLE)
        if code:
            check_code(code)
        members = resolve_members(launch)
        first = not self._seat.rank
        recorder = self._recorder = Recorder(attempt) if first else SilentRecorder()
        self._pulse = Pulse(
            attempt,
            self._progress,
            hang_floor_s=launch.hang_floor_s,
            interval_s=float(launch.settings.get("heartbeat_s", INTERVAL_S)),
            on_closed=lambda: self._session.closed_elsewhere() if self._session else None,
            on_hang=self._hang,
            path=attempt.of_rank(attempt.heartbeat, self._seat.rank),
            waiting=lambda: self._ranks.waiting,
        )
        self._pulse.start()
        newest, passed = choose_checkpoint(attempt, launch, members, self._seat, self._meeting)
        self._ranks, clash = join(attempt, launch, self._job, self._seat, self._meeting, newest)
        self._progress.step = newest.step if newest else 0
        session = self._session = Session(
            attempt,
            launch,
            members,
            job=self._job,
            checkpoint=newest,
            recorder=recorder,
            progress=self._progress,
            requested=signals.requested,
            previous=previous_rows(attempt) if newest and first else (),
            ranks=self._ranks,
        )
        if clash:
            session.event("port_clash", clash)
        for checkpoint in passed:
            session.event(
                "checkpoint_passed_over",
                f"{checkpoint.path.name}: {checkpoint.verdict}",
                checkpoint=checkpoint.path.name,
                verdict=checkpoint.verdict,
            )
        left = len(session.unfinished)
        who = f" (rank {self._seat.rank} of {self._seat.size})" if self._seat.size > 1 else ""
        print(f"{launch.name}{who}: {left} of {len(members)} runs, from step {session.resume_step}", file=sys.stderr)
        return session

    def _close(self, session: Session) -> int:
        """The runner has returned."""
        recorder = session.recorder
        unfinished = len(session.unfinished)
        step = session.progress.step
        code = ExitCode.DONE
        if self._launch.max_steps is not None:
            median = session.progress.median_step_s()
            record: dict[str, Any] = {
                "outcome": "completed",
                "message": f"probe of {step - session.resume_step} steps",
                "step": step,
                "evidence": {"probe": True, "median_step_s": median},
            }
        elif not unfinished:
            outcomes = session.outcomes
            record = {"outcome": "completed", "message": f"{len(outcomes)} runs finished", "step": step}
            if outcomes and all(failure is FailureClass.DIVERGED for failure in outcomes.values()):
                code = ExitCode.DIVERGED
        elif asked := session.leaving.asked:
            saved = session.saved_step
            record = {
                "outcome": "preempted",
                "failure": FailureClass.PREEMPTED,
                "message": f"asked to leave by {asked}; " + ("nothing saved" if saved is None else f"saved at {saved}"),
                "step": saved,
                "evidence": {"signal": asked, "reached": step},
            }
            code = ExitCode.CHECKPOINTED
        else:
            message = f"the runner returned at step {step} with {unfinished} runs unfinished"
            record = {"outcome": "failed", "failure": FailureClass.UNKNOWN, "message": message, "step": step}
            code = 1
        recorder.close()
        if not self._seat.rank:
            ours = close_attempt(self._attempt, by="worker", **record)
            if ours and not unfinished:
                checkpoints.prune(self._attempt.checkpoints, attempt=self._attempt.number, keep=0)
        with suppress(PeerLost):  # whoever ends first must not look like a failure to those who start and watch us
            self._ranks.agree((0,))
        return code

    def _yield(self) -> int:
        """Somebody else closed the attempt: what isn't committed is not ours to say."""
        message = "closed by somebody else; leaving"
        print(f"{self._launch.name}: {message}", file=sys.stderr)
        if self._session is not None and self._recorder is not None:
            self._recorder.abandon()
            try:
                self._session.event("yield", message)
                self._recorder.close()
            except OSError:
                traceback.print_exc()
        return ExitCode.DONE

    def _follow(self, error: PeerLost) -> int:
        """Another process is gone. It has closed the attempt if it could; else its shim, or the scheduler, says how it
        ended. What is recorded here stays."""
        print(f"{self._launch.name}: rank {self._seat.rank} leaves: {error}", file=sys.stderr)
        closed = read_closed(self._attempt.closed)
        if closed is not None and closed.by != "worker":
            return self._yield()
        self._keep_finished()
        return ExitCode.PEER_LOST

    def _keep_finished(self) -> None:
        """What members have finished is handed over, unless the attempt is closed already; then it is too late."""
        try:
            if self._recorder is not None:
                if self._attempt.closed.exists():
                    self._recorder.abandon()
                self._recorder.commit()
                self._recorder.close()
        except OSError:
            traceback.print_exc()

    def _fail(self, failure: FailureClass, message: str) -> None:
        """Close as failed. Whatever members have finished is kept; a full disk may leave only the exit code to tell.

        Of several processes the first to fail says why; what comes after it follows from that."""
        step = self._progress.step
        evidence: dict[str, Any] = {}
        if self._seat.size > 1:
            message = f"rank {self._seat.rank}: {message}"
            evidence = {"rank": self._seat.rank, "host": socket.gethostname()}
        self._keep_finished()
        try:
            close_attempt(
                self._attempt,
                by="worker",
                outcome="failed",
                failure=failure,
                message=message,
                step=step,
                evidence=evidence,
            )
        except OSError:
            traceback.print_exc()

    def _hang(self, limit_s: float) -> None:
        """In the heartbeat thread; the main thread is stuck, perhaps in a write to a dead file system."""
        message = f"no step for {limit_s:.3g} s"
        if self._ranks.waiting:
            message += ", waiting for the other processes"
        print(f"{self._launch.name} hangs at step {self._progress.step}: {message}", file=sys.stderr, flush=True)
        faulthandler.dump_traceback(all_threads=True)

        def close() -> None:
            if self._session is not None:
                self._session.event("hang", message)
            self._fail(FailureClass.HANG, message)

        closing = threading.Thread(target=close, daemon=True)
        closing.start()
        closing.join(timeout=10)
        os._exit(ExitCode.HANG)
