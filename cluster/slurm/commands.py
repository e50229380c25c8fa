"""Running Slurm's commands: with a time limit, a clean environment, and no more often than a site likes."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cluster.backend import PermanentError, TemporaryError

KEPT = frozenset({"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT", "SLURM_CLUSTERS"})
"""Of the caller's ``SLURM_*``, ``SBATCH_*`` and ``SRUN_*`` only these reach a command or a job: they say which cluster,
all others speak of a job or a terminal that we happen to be started from."""
SCRUBBED = ("SLURM_", "SBATCH_", "SRUN_", "SALLOC_", "SQUEUE_", "SACCT_", "SINFO_", "SCANCEL_", "SLURMD_")
MEETING = frozenset(
    {"MASTER_ADDR", "MASTER_PORT", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "RAY_ADDRESS"}
)
"""Where the processes of somebody's other job meet, and which of them one is: no job of ours goes there."""
ORDERS = frozenset({"sbatch", "scancel", "scontrol"})
PROMISE_S = 30.0
"""Somebody who was refused a call and does not come back for so long after his time is not waited for."""
TIMEOUTS_S: Mapping[str, float] = {"sbatch": 60.0, "squeue": 60.0, "sacct": 90.0, "scontrol": 30.0, "scancel": 60.0}


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """A caller's environment without the traces of the job or allocation it may run in."""
    return {
        name: value
        for name, value in environ.items()
        if name in KEPT or not (name.startswith(SCRUBBED) or name in MEETING)
    }


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command said. ``code`` None: no answer within its time limit."""

    code: int | None
    out: str
    err: str

    @property
    def ok(self) -> bool:
        return self.code == 0

    @property
    def trouble(self) -> str:
        """One line saying what went wrong."""
        if self.code is None:
            return "no answer in time"
        lines = [line.strip() for line in self.err.splitlines() if line.strip()]
        return lines[-1] if lines else f"exit status {self.code}"


class Bucket:
    """At most ``per_minute`` takes a minute in the long run, and ``burst`` at once. Who was refused has his turn before
    those who come more often: what he needs is kept for him for a while.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(self, per_minute: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = per_minute / 60.0
        self._burst = burst
        self._clock = clock
        self._tokens = burst
        self._at = clock()
        self._promised: dict[str, tuple[int, float]] = {}
        """Who was refused -> how many he needs, and until when they are kept for him; the longest waiting first."""

    def _fill(self) -> None:
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._at) * self._rate)
        self._at = now
        self._promised = {who: kept for who, kept in self._promised.items() if now < kept[1]}

    def _before(self, who: str) -> int:
        """Tokens that are kept for others who have waited longer."""
        before = 0
        for name, (need, _) in self._promised.items():
            if name == who:
                break
            before += need
        return before

    def take(self, who: str = "", count: int = 1) -> bool:
        """``count`` tokens, all or none. ``who``: a name under which they are kept after a refusal, "" for none."""
        self._fill()
        if self._tokens - self._before(who) < count:
            if who:  # a place in the line is kept, the time by which he must be back is not
                until = self._clock() + 2 * self.wait_s(who, count) + PROMISE_S
                self._promised[who] = (count, until)
            return False
        self._promised.pop(who, None)
        self._tokens -= count
        return True

    def give_back(self, count: int = 1) -> None:
        """Tokens that were taken and turned out not to be needed."""
        self._tokens = min(self._burst, self._tokens + count)

    def wait_s(self, who: str = "", count: int = 1) -> float:
        """Seconds until ``take`` succeeds, if nobody else takes."""
        self._fill()
        return max(0.0, (count + self._before(who) - self._tokens) / self._rate)


class Backoff:
    """Longer and longer pauses while a thing fails, with jitter so that many loops do not knock in step."""

    def __init__(self, base_s: float, cap_s: float, clock: Callable[[], float], jitter: random.Random | None = None):
        self._base, self._cap, self._clock = base_s, cap_s, clock
        self._jitter = jitter or random.Random()
        self._failures = 0
        self._until = 0.0

    def failed(self) -> float:
        """One more failure; the pause in seconds."""
        pause = min(self._cap, self._base * 2.0 ** min(self._failures, 20)) * self._jitter.uniform(0.75, 1.25)
        self._failures += 1
        self._until = self._clock() + pause
        return pause

    def succeeded(self) -> None:
        self._failures, self._until = 0, 0.0

    @property
    def resting(self) -> bool:
        return self._clock() < self._until


Run = Callable[[Sequence[str], float], Answer]
"""(argv, time limit in seconds) -> what it said."""


def run_command(argv: Sequence[str], timeout_s: float) -> Answer:
    """Run a command in a process group of its own, and end all of it when its time is up.

    Raises:
        PermanentError: there is no such command here.
    """
    env = {**clean_environment(os.environ), "SLURM_BITSTR_LEN": "0", "SLURM_TIME_FORMAT": "standard", "LC_ALL": "C"}
    if argv[0] == "sbatch":  # its environment becomes the job's
        env = clean_environment(os.environ)
    try:
        process = subprocess.Popen(
            argv,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            process_group=0,
        )
    except FileNotFoundError as error:
        raise PermanentError(f"{argv[0]} is not on PATH: this is no machine that can submit to Slurm") from error
    except OSError as error:
        raise TemporaryError(f"cannot run {argv[0]}: {error}") from error
    with process:
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            return Answer(None, out, err)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return Answer(process.returncode, out, err)


class Commands:
    """Slurm's commands, paced.

    Args:
        looks_per_minute: for squeue and sacct together.
        orders_per_minute: for sbatch, scontrol and scancel together.
        run: replaces the running of processes, for tests.
    """

    def __init__(
        self,
        *,
        looks_per_minute: float = 4.0,
        orders_per_minute: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
        run: Run = run_command,
        timeouts_s: Mapping[str, float] = TIMEOUTS_S,
    ) -> None:
        self.looks = Bucket(looks_per_minute, max(2.0, looks_per_minute / 2), clock)
        self.orders = Bucket(orders_per_minute, orders_per_minute, clock)
        self._run = run
        self._timeouts = timeouts_s
        self.calls: dict[str, int] = {}
        """Command -> how often it was called."""
        self.orders_given = 0
        """Calls that may have changed the queue."""

    def __call__(self, *argv: str) -> Answer:
        """Run a command now; the caller has taken a token."""
        self.calls[argv[0]] = self.calls.get(argv[0], 0) + 1
        self.orders_given += argv[0] in ORDERS and "show" not in argv
        return self._run(argv, self._timeouts.get(argv[0], 60.0))

    def order(self, *argv: str) -> Answer:
        """Run a command that changes something.

        Raises:
            TemporaryError: too many of them lately.
        """
        if not self.orders.take():
            raise TemporaryError("enough scheduler calls for this minute", max(1.0, self.orders.wait_s()))
        return self(*argv)
