"""Whole sweeps of toy runs on a Slurm, fake or real, and the claim that every case must keep: each run finished exactly
once, bit-identical to an undisturbed local sweep. Loaded by path; no test itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from cluster.fake_slurm.control import FakeSlurm
from cluster.local_backend import LocalBackend
from cluster.slurm.commands import Commands
from cluster.slurm.profile import Profile
from cluster.submitit_backend import SlurmBackend
from jobs.durable import replace_file
from jobs.facts import read_closed, read_facts
from jobs.spec import RunSpec, pack_id
from jobs.state import RunState
from jobs.workspace import AttemptDir, Workspace
from orchestrator.loop import Loop, TickReport
from orchestrator.policy import LOCAL, RETRIES, Policy

FAST = Policy(
    requeues="slurm",
    linger_s=120.0,
    quiet_s=6.0,
    lost_after_s=8.0,
    settle_s=1.0,
    verdict_wait_s=8.0,
    poll_s=(0.3, 1.0),
    probe=False,
    cancel_grace_s=10.0,
    batch_size=1000,
    retries={failure: replace(retry, base_s=min(retry.base_s, 0.5)) for failure, retry in RETRIES.items()},
)
"""The default's verdicts and counts, with patience for a cluster that is on this very machine."""


class Sweep:
    """A sweep of toy runs in a folder.

    Args:
        packs: how many packs; members: runs in each.
        steps, step_seconds: of every run.
        reference: results of the same packs undisturbed (``local_digests``), where ``check`` is to compare with them.
        trainer: config of the real trainer's runs, which then take the toy's place (there is no ``hold_at`` then).
        hold_at: nothing goes on beyond this step until ``go_on()``: what a test does to it, it does in time.
        minutes: time limit of its jobs.
        shape: what the plan says of its programs; with ``steps`` in it, time limits are proposed.
    """

    def __init__(
        self,
        folder: Path,
        *,
        packs: int = 4,
        members: int = 2,
        steps: int = 20,
        step_seconds: float = 0.1,
        checkpoint_seconds: float = 0.5,
        resources: Mapping[str, Any] | None = None,
        execution: Mapping[str, Any] | None = None,
        profile: Profile | None = None,
        policy: Policy = FAST,
        settings: Mapping[str, Any] | None = None,
        shape: Mapping[str, Any] | None = None,
        hold_at: int | None = None,
        reference: Callable[..., dict[int, str]] | None = None,
        trainer: Mapping[str, Any] | None = None,
    ) -> None:
        self.reference = reference
        self.attempts_at_end = 0
        self.toy = trainer is None
        self._same: dict[str, Any] = {"packs": packs, "members": members, "steps": steps}
        self.workspace = Workspace(folder / "runs")
        self.profile = profile or Profile(lead_s=40)
        self.policy = policy
        self.settings = {"heartbeat_s": 0.5, **(settings or {})}
        self._gate = folder.parent / f"{folder.name}.hold"
        if hold_at is not None:
            self._gate.touch()
            self.settings["toy"] = {"hold": str(self._gate), "hold_at": hold_at}
        self.seeds: dict[str, int] = {}
        self.steps = steps
        if trainer is not None:
            self._same["trainer"] = trainer
        config = {"steps": steps, "step_seconds": step_seconds} if trainer is None else {**trainer, "steps": steps}
        runner = "toy" if trainer is None else "train"
        lines: list[dict[str, Any]] = [
            {"plan": 1, "sweep": "proof", "digest": "d"},
            {"cell": 0, "stage": "s", "runner": runner, "config": config, "labels": {}}
            | {"shape": shape or {"stack_key": runner}},
        ]
        tail = []
        execution = {"checkpoint_seconds": checkpoint_seconds, "hang_floor_s": 60.0, **(execution or {})}
        for number in range(packs):
            specs = [RunSpec(runner, config, number * members + m) for m in range(members)]
            self.seeds |= {spec.id: spec.seed for spec in specs}
            lines += [{"run": s.id, "cell": 0, "seed": s.seed, "labels": {"seed": s.seed}} for s in specs]
            tail.append(
                {"pack": pack_id([s.id for s in specs]), "runs": [s.id for s in specs], "stage": "s", "order": number}
                | {"resources": {"cpus": 1, **(resources or {})}, "execution": execution}
            )
        self.packs = [record["pack"] for record in tail]
        path = self.workspace.plan("proof")
        path.parent.mkdir(parents=True)
        replace_file(path, b"".join(orjson.dumps(line) + b"\n" for line in [*lines, *tail]))

    def backend(self) -> SlurmBackend:
        commands = Commands(looks_per_minute=6000, orders_per_minute=6000)
        return SlurmBackend(
            self.profile,
            submissions=self.workspace.submissions,
            commands=commands,
            gone_after_s=5.0,
            runaway_after_s=10.0,
        )

    def loop(self, backend: Any = None, policy: Policy | None = None) -> Loop:
        return Loop(
            self.workspace,
            backend or self.backend(),
            policy or self.policy,
            ["proof"],
            code="",
            index=False,
            settings=dict(self.settings),
        )

    def start(self) -> Loop:
        """A loop that has handed everything over."""
        loop = self.loop()
        loop.tick()
        return loop

    def go_on(self) -> None:
        """Let the runs go on beyond ``hold_at``."""
        self._gate.unlink()

    def until(
        self, loop: Loop, what: Callable[[TickReport], object], seconds: float = 400.0, fake: FakeSlurm | None = None
    ) -> TickReport:
        end = time.monotonic() + seconds
        while True:
            report = loop.tick()
            if what(report):
                return report
            assert time.monotonic() < end, f"waited {seconds} s: {report}\n{self.story()}"
            time.sleep(0.3)
            if fake is not None:
                fake.advance(1.0)

    def finish(self, loop: Loop, seconds: float = 600.0, fake: FakeSlurm | None = None) -> None:
        """Tick until all is done, then check the claim."""
        self.until(loop, lambda report: report.done, seconds, fake)
        assert self.in_queue() == [], "a loop that is done leaves nothing in the queue"
        self.attempts_at_end = len(self.attempts())
        self.check()

    def in_queue(self) -> list[str]:
        """Lines of the queue that are ours, of jobs that are not over."""
        done = subprocess.run(
            ["squeue", "-h", "-a", "-o", "%i %T %r %k"], capture_output=True, text=True, check=True, timeout=120
        )
        return [line for line in done.stdout.splitlines() if f"{self.workspace.submissions}/" in line]

    # What is on disk

    def attempts(self, pack: str = "") -> list[AttemptDir]:
        """Of one pack, or of all."""
        return [attempt for one in ([pack] if pack else self.packs) for attempt in self.workspace.attempts(one)]

    def begun(self, pack: str = "") -> int:
        """Attempts whose worker has made a checkpoint."""
        return sum(b'"checkpointed"' in a.facts.read_bytes() for a in self.attempts(pack) if a.facts.exists())

    def jobs(self) -> dict[str, str]:
        """Attempt path -> id of the job that claimed it."""
        found = {}
        for attempt in self.attempts():
            if attempt.claimed.exists():
                found[str(attempt.path)] = json.loads(attempt.claimed.read_bytes())["job"].split("/")[1]
        return found

    def array(self) -> str:
        """Id of the first array that was submitted."""
        answers = sorted(self.workspace.submissions.glob("*/array-0.id.json"), key=lambda path: path.stat().st_mtime)
        return json.loads(answers[0].read_bytes())["id"]

    def finished(self) -> Counter[str]:
        """Run -> how many completed facts count."""
        counts: Counter[str] = Counter()
        for attempt in self.attempts():
            counts.update(fact.run for fact in self._facts(attempt) if fact.fact == "finished")
        return counts

    def digests(self) -> dict[int, str]:
        return {
            self.seeds[fact.run]: str(fact.summary["digest"]) if self.toy else repr(sorted(fact.summary.items()))
            for attempt in self.attempts()
            for fact in self._facts(attempt)
            if fact.fact == "finished" and fact.status == "completed"
        }

    @staticmethod
    def _facts(attempt: AttemptDir) -> list[Any]:
        closed = read_closed(attempt.closed)
        return read_facts(attempt.facts, 0, closed.facts_bytes if closed else None)[0]

    def executed_steps(self) -> int:
        """Steps that were executed, over all attempts, as far as heartbeats and facts tell."""
        total = 0
        for attempt in self.attempts():
            facts = self._facts(attempt)
            started = next((fact.step for fact in facts if fact.fact == "started"), None)
            reached = max((fact.step for fact in facts if fact.fact in ("checkpointed", "finished")), default=0)
            total += max(0, reached - started) if started is not None else 0
        return total

    def check(self) -> None:
        """Every run finished exactly once, and its result is that of an undisturbed local sweep."""
        assert self.finished() == dict.fromkeys(self.seeds, 1), self.story()
        if self.toy:
            assert self.digests() == expected(sorted(self.seeds.values()), self.steps), self.story()
        if self.reference is not None:
            assert self.digests() == self.reference(**self._same), self.story()

    def story(self) -> str:
        """What happened, for a failed test."""
        lines = []
        for attempt in self.attempts():
            closed = read_closed(attempt.closed)
            claimed = json.loads(attempt.claimed.read_bytes())["job"] if attempt.claimed.exists() else "unclaimed"
            ended = attempt.exit.read_text() if attempt.exit.exists() else "no exit"
            how = f"{closed.by} {closed.outcome} {closed.failure} {closed.message}" if closed else "open"
            lines.append(f"{attempt.pack}/{attempt.path.name}: {claimed}: {how}; {ended}")
        said = [(path.name, path.read_text()) for path in sorted(self.workspace.submissions.glob("*/*.out"))]
        lines += [f"--- {name}: {text[-1500:]}" for name, text in said if text]
        return "\n".join(lines)


def expected(seeds: Sequence[int], steps: int) -> dict[int, str]:
    """Seed -> digest of an undisturbed run on this machine, by the runner itself."""
    from jobs.toy import _begin, _step
    from jobs.toy_config import ToyConfig

    config = ToyConfig(steps=steps)
    found = {}
    for seed in seeds:
        member: Any = type("Member", (), {"seed": seed, "inputs": {}})()
        state = _begin(member)
        for step in range(1, steps + 1):
            _step(state, config, seed, step)
        found[seed] = state.digest
    return found


def local_digests(folder: Path, **options: Any) -> dict[int, str]:
    """The same sweep, undisturbed, on the local backend."""
    sweep = Sweep(folder, step_seconds=0.0, policy=LOCAL, **options)
    report = sweep.loop(LocalBackend(), LOCAL).watch()
    assert report.total(RunState.COMPLETED) == len(sweep.seeds)
    return sweep.digests()


LAUNCHER = """
import sys, time
from importlib.util import spec_from_file_location, module_from_spec
spec = spec_from_file_location("proof", sys.argv[1])
proof = module_from_spec(spec); sys.modules["proof"] = proof; spec.loader.exec_module(proof)
import pathlib
from orchestrator.loop import Loop
workspace = proof.Workspace(pathlib.Path(sys.argv[2]))
commands = proof.Commands(looks_per_minute=6000, orders_per_minute=6000)
backend = proof.SlurmBackend(proof.Profile(lead_s=40), submissions=workspace.submissions, commands=commands)
from dataclasses import replace
policy = replace(proof.FAST, max_in_flight=int(sys.argv[3]) or None)
loop = Loop(workspace, backend, policy, ["proof"], code="", index=False, settings={"heartbeat_s": 0.5})
while not loop.tick().done:
    time.sleep(0.2)
"""


def launcher(sweep: Sweep, max_in_flight: int = 0) -> subprocess.Popen[bytes]:
    """A loop in a process of its own, to be killed."""
    command = [sys.executable, "-P", "-c", LAUNCHER, str(Path(__file__)), str(sweep.workspace.root), str(max_in_flight)]
    return subprocess.Popen(command, env=dict(os.environ))
