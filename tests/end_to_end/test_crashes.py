"""kill -9 of the loop, a worker, or both at 20 moments that provably hit submit, train, save and finish.

A victim is stopped first (SIGSTOP), so that what is on disk cannot change while the moment is looked at; only then is
it killed. Nothing that had finished is lost or run twice, and the results equal those of an undisturbed sweep.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cluster.process_id import process_token
from jobs.facts import Checkpointed, Finished, Started, read_claimed
from jobs.launch import read_launch
from jobs.state import AttemptRecord, finished_facts, read_attempt, read_pack
from jobs.workspace import AttemptDir, Workspace

KILLS = {"submit": 6, "train": 5, "save": 5, "finish": 4}
PACKS = 28
LOOP = """
import sys
from dataclasses import replace
from pathlib import Path
from cluster.local_backend import LocalBackend
from jobs.workspace import Workspace
from orchestrator.loop import Loop
from orchestrator.policy import LOCAL, RETRIES, Retry
retries = {c: Retry(r.tries and max(r.tries, 50), 0.0) for c, r in RETRIES.items()}
policy = replace(LOCAL, quiet_s=0.3, poll_s=(0.02, 0.1), max_in_flight=3, probe=False, retries=retries)
Loop(Workspace(Path(sys.argv[1])), LocalBackend(), policy, code="").watch()
"""


@pytest.fixture(scope="module")
def lab(helpers: Callable[[str], ModuleType]) -> ModuleType:
    return helpers("orchestrator/lab.py")


class Sweep:
    """A sweep on disk, and the processes that work on it."""

    def __init__(self, root: Path, lab: ModuleType, slow: bool) -> None:
        self.workspace = Workspace(root)
        # The second member of a pack trains on when the first has finished; both end products of the same steps.
        cells = [{"steps": 12, "products": ["p"]}, {"steps": 24, "products": ["p"]}]
        packs = [[lab.cell(config, [n])[0] for config in cells] for n in range(PACKS)]
        toy = {"save_seconds": 0.03} if slow else {}
        execution = {"checkpoint_steps": 8, "settings": {"toy": toy, "heartbeat_s": 0.05}}
        self.packs = lab.write_plan(self.workspace, "s", packs, execution=execution)
        self.loop: subprocess.Popen[bytes] | None = None

    def start_loop(self) -> subprocess.Popen[bytes]:
        log = open(self.workspace.root / "loop.log", "ab")  # noqa: SIM115
        with log:
            argv = [sys.executable, "-P", "-c", LOOP, str(self.workspace.root)]
            self.loop = subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        return self.loop

    def log(self) -> str:
        return (self.workspace.root / "loop.log").read_text()

    def open_attempts(self) -> Iterator[AttemptDir]:
        for pack in self.packs:
            for place in self.workspace.attempts(pack)[-1:]:
                if place.launch.exists() and not place.closed.exists():
                    yield place

    def results(self) -> dict[str, Any]:
        facts = {}
        for pack in self.packs:
            facts |= finished_facts(read_pack(self.workspace.pack(pack)))
        return {run: (fact.status, fact.step, fact.summary) for run, fact in facts.items()}

    def finished(self) -> dict[str, int]:
        """Run -> the attempt that finished it."""
        return {
            fact.run: record.number
            for pack in self.packs
            for record in read_pack(self.workspace.pack(pack))
            for fact in record.facts
            if isinstance(fact, Finished)
        }


def submitting(sweep: Sweep) -> bool:
    """An attempt is launched, and nobody has written down what the scheduler answered."""
    answered: set[str] = set()
    for folder in sweep.workspace.submissions.iterdir() if sweep.workspace.submissions.exists() else ():
        if (folder / "answer.json").exists():
            answered |= set((folder / "batch.json").read_text().split('"'))
    return any(f"orc-{place.pack}-a{place.number}" not in answered for place in sweep.open_attempts())


def phase(place: AttemptDir, record: AttemptRecord) -> str:
    """What the worker of an open attempt is doing, by its files."""
    started = any(isinstance(fact, Started) for fact in record.facts)
    finished = sum(isinstance(fact, Finished) for fact in record.facts)
    if not started:
        return "starting"
    if finished + len(record.done) == len(record.members):
        return "finish"
    if place.checkpoints.exists() and any(p.name[0] == "." for p in place.checkpoints.iterdir()):
        return "save"
    return "train"


def worker(place: AttemptDir) -> int | None:
    claimed = read_claimed(place.claimed)
    return claimed.pid if claimed is not None and process_token(claimed.pid) else None


def stop(pid: int) -> bool:
    """SIGSTOP; True once the process stands still. A finished process cannot be stopped."""
    try:
        os.kill(pid, signal.SIGSTOP)
        for _ in range(200):
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            if state in "Tt":
                return True
            if state in "ZX":
                return False
            time.sleep(0.0005)
    except (ProcessLookupError, FileNotFoundError):
        pass
    return False


class Hunter:
    """Waits for a moment, holds it still, and kills."""

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        self.hits: Counter[str] = Counter()
        self.victims: Counter[str] = Counter()

    def hunt(self, wanted: str, victim: str) -> None:
        deadline = time.monotonic() + 60
        attempt = self._submit if wanted == "submit" else lambda v: self._worker(wanted, v)
        while not attempt(victim):
            assert time.monotonic() < deadline, f"{wanted} was never hit\n{self.sweep.log()}"
            assert self.sweep.loop is not None
            assert self.sweep.loop.poll() is None, f"the sweep ended before {wanted} was hit\n{self.sweep.log()}"
            time.sleep(0.0003)
        self.hits[wanted] += 1
        self.victims[victim] += 1

    def _submit(self, victim: str) -> bool:
        assert self.sweep.loop is not None
        if not submitting(self.sweep) or not stop(self.sweep.loop.pid):
            return False
        if not submitting(self.sweep):
            os.kill(self.sweep.loop.pid, signal.SIGCONT)
            return False
        self._kill_loop()
        if victim == "both":
            for pid in [pid for place in self.sweep.open_attempts() if (pid := worker(place)) is not None][:1]:
                os.kill(pid, signal.SIGKILL)
        return True

    def _worker(self, wanted: str, victim: str) -> bool:
        for place in self.sweep.open_attempts():
            if phase(place, read_attempt(place)) != wanted:
                continue
            pid = worker(place)
            if pid is None or not stop(pid):
                continue
            if not place.closed.exists() and phase(place, read_attempt(place)) == wanted:
                if victim in ("loop", "both"):
                    self._kill_loop()
                os.kill(pid, signal.SIGKILL if victim != "loop" else signal.SIGCONT)
                return True
            os.kill(pid, signal.SIGCONT)
        return False

    def _kill_loop(self) -> None:
        assert self.sweep.loop is not None
        self.sweep.loop.kill()
        self.sweep.loop.wait()


def test_kill_minus_nine_twenty_times(tmp_path: Path, lab: ModuleType) -> None:
    calm = Sweep(tmp_path / "calm", lab, slow=False)
    assert calm.start_loop().wait(120) == 0, calm.log()

    sweep = Sweep(tmp_path / "killed", lab, slow=True)
    dice = random.Random(11)
    moments = [(name, who) for name, times in KILLS.items() for who in _victims(name, times)]
    dice.shuffle(moments)
    hunter = Hunter(sweep)
    seen_finished: dict[str, int] = {}
    for wanted, victim in moments:
        if sweep.loop is None or sweep.loop.poll() is not None:
            sweep.start_loop()
        time.sleep(dice.uniform(0.0, 0.1))
        hunter.hunt(wanted, victim)
        seen_finished |= sweep.finished()
    if sweep.loop is None or sweep.loop.poll() is not None:
        sweep.start_loop()
    assert sweep.loop is not None
    assert sweep.loop.wait(120) == 0, sweep.log()

    assert hunter.hits == Counter(KILLS)
    assert hunter.hits.total() == 20
    assert set(hunter.victims) == {"loop", "worker", "both"}
    assert sweep.results() == calm.results(), "bit for bit what an undisturbed sweep gives"
    assert len(sweep.results()) == 2 * PACKS
    finished = sweep.finished()
    assert {run: finished[run] for run in seen_finished} == seen_finished, "nothing finished was lost or finished again"
    _nothing_was_executed_twice(sweep)
    assert "Traceback" not in sweep.log()


def _victims(name: str, times: int) -> list[str]:
    turn: dict[str, Callable[[int], str]] = {
        "submit": lambda n: ("loop", "both")[n % 2],
        "finish": lambda n: ("worker", "both")[n % 2],
    }
    return [turn.get(name, lambda n: ("worker", "both", "loop")[n % 3])(n) for n in range(times)]


def _nothing_was_executed_twice(sweep: Sweep) -> None:
    """Facts of one attempt are of one worker, and a run that has finished is masked from then on."""
    reexecuted = 0
    for pack in sweep.packs:
        done: set[str] = set()
        reached = 0
        for record in read_pack(sweep.workspace.pack(pack)):
            launch = read_launch(sweep.workspace.attempt(pack, record.number).launch)
            assert {member.run for member in launch.members if member.done} == done, (pack, record.number)
            starts = [fact for fact in record.facts if isinstance(fact, Started)]
            assert len(starts) <= 1, "one worker an attempt"
            finished = [fact.run for fact in record.facts if isinstance(fact, Finished)]
            assert len(set(finished)) == len(finished)
            assert not done & set(finished)
            done |= set(finished)
            if starts:
                assert starts[0].step >= reached, "a whole checkpoint was passed over"
                reexecuted += 1
            saved = [fact.step for fact in record.facts if isinstance(fact, Checkpointed)]
            reached = max([reached, *saved])
        assert len(done) == 2
    assert reexecuted >= PACKS
