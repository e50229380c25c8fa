"""For tests: make a fake cluster, move its clock, throw its switches. The command ``fakeslurm`` does the same.

slurm = FakeSlurm(tmp_path, nodes=2)
subprocess.run(["sbatch", "job.sh"], env={**os.environ, **slurm.env()})
slurm.advance(60)
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cluster.fake_slurm import processes
from cluster.fake_slurm.engine import Engine
from cluster.fake_slurm.jobs import LIVE, Job, end_job, name_of, select
from cluster.fake_slurm.options import Refusal
from cluster.fake_slurm.program import COMMANDS
from cluster.fake_slurm.store import SWITCHES, Store, now, stamp

_LAUNCHER = """#!/bin/sh
exec "{python}" -S -I -c 'import sys; sys.path.insert(0, sys.argv.pop(1))
from cluster.fake_slurm.program import main
sys.exit(main(*sys.argv[1:3], sys.argv[3:]))' "{root}" "{directory}" {name} "$@"
"""


class FakeSlurm:
    """A fake cluster in a directory.

    Args:
        frozen: the clock stands still and only ``advance`` moves it; else it runs, and ``advance`` shifts it.
        config: what ``scontrol show config`` shows and the fake obeys: MaxArraySize, MaxJobCount, MinJobAge,
            KillWait, RequeueWait (seconds), MaxSubmit (jobs of a user, None for no limit), Partitions
            (name -> PreemptMode).
    """

    def __init__(
        self,
        directory: Path,
        *,
        nodes: int = 4,
        cpus: int = 16,
        gpus: int = 8,
        memory_mb: int = 65536,
        frozen: bool = False,
        **config: Any,
    ) -> None:
        self.directory = directory.absolute()
        self.bin = self.directory / "bin"
        self._store = Store(self.directory)
        self._store.create(nodes, cpus, gpus, memory_mb, config, frozen)
        root = Path(__file__).parents[2]
        for name in COMMANDS:
            path = self.bin / name
            path.write_text(_LAUNCHER.format(python=sys.executable, root=root, directory=self.directory, name=name))
            path.chmod(0o755)

    def env(self) -> dict[str, str]:
        """What to add to an environment so that the commands are found."""
        return {"PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}"}

    @property
    def state(self) -> dict[str, Any]:
        """A copy of the state, brought up to the present."""
        self.tick()
        return json.loads(self._store.path.read_bytes())

    @property
    def calls(self) -> dict[str, int]:
        """How often each command was called."""
        return json.loads(self._store.path.read_bytes())["calls"]

    def now(self) -> float:
        return now(json.loads(self._store.path.read_bytes()))

    def tick(self) -> None:
        with self._store.open() as state:
            Engine(self._store, state).tick()

    def advance(self, seconds: float) -> None:
        """Move the clock."""
        with self._store.open() as state:
            if state["frozen"] is not None:
                state["frozen"] += seconds
            else:
                state["offset"] += seconds
            Engine(self._store, state).tick()

    def switch(self, **switches: Any) -> None:
        """Throw fault switches (``store.SWITCHES``)."""
        unknown = set(switches) - set(SWITCHES)
        if unknown:
            raise ValueError(f"no such switch: {sorted(unknown)}; there are {sorted(SWITCHES)}")
        with self._store.open() as state:
            state["switches"].update(switches)

    def configure(self, **config: Any) -> None:
        with self._store.open() as state:
            state["config"].update(config)

    def jobs(self) -> dict[str, Job]:
        """Id -> record of every job that ever was; of an id that was given twice, the later one."""
        return {name_of(job): job for job in self.state["jobs"]}

    def live(self) -> list[str]:
        return [name_of(job) for job in self.state["jobs"] if job["state"] in LIVE]

    def finish(self, job: str, code: int = 0, signal: int = 0) -> None:
        """End a running job that is not executed (switch ``execute`` off)."""
        with self._engine() as engine:
            for one in select(engine.state, job):
                engine.finish(one, (code, signal))
            engine.tick()

    def end(self, job: str, word: str, code: int = 0, signal: int = 0, reason: str = "None") -> None:
        """Give a job any final state, as its processes die."""
        with self._engine() as engine:
            for one in select(engine.state, job):
                if one["token"]:
                    processes.kill(engine.base(one["token"]))
                end_job(engine.state, one, word, (code, signal), reason)

    def preempt(self, job: str) -> None:
        with self._engine() as engine:
            for one in select(engine.state, job):
                engine.preempt(one)

    def fail_node(self, name: str, *, processes_live: bool = False) -> None:
        """A node is gone; ``processes_live``: the old copies of its jobs run on unseen (a cut network)."""
        with self._engine() as engine:
            engine.fail_node(name, processes_live=processes_live)

    def return_node(self, name: str) -> None:
        with self._engine() as engine:
            engine.return_node(name)
            engine.tick()

    def crash_controller(self, forget_s: float = 5.0) -> None:
        """kill -9 of slurmctld and a restart: jobs younger than ``forget_s`` are forgotten and their ids given again;
        their accounting rows stay as they are."""
        with self._engine() as engine:
            state, moment = engine.state, engine_now(engine)
            lost = [job for job in state["jobs"] if moment - job["submit"] < forget_s and not job["runs"]]
            if lost:
                state["next_id"] = min(job["array"] or job["raw"] for job in lost)
            for job in lost:
                job.update(purged=True, state="LOST" if job["state"] == "RUNNING" else "FORGOTTEN")
                job["runs"] = [{**_row(job), "seen": moment}]

    @contextlib.contextmanager
    def _engine(self):
        with self._store.open() as state:
            engine = Engine(self._store, state)
            engine.tick()
            yield engine

    def close(self) -> None:
        """End every process of every job."""
        with self._store.open() as state:
            engine = Engine(self._store, state)
            for job in state["jobs"]:
                if job["token"]:
                    processes.kill(engine.base(job["token"]))
                if job["state"] in LIVE:
                    job.update(state="CANCELLED", end=now(state), then=None)
            for orphan in state["orphans"]:
                processes.kill(engine.base(orphan["token"]))


def engine_now(engine: Engine) -> float:
    return now(engine.state)


def _row(job: Job) -> dict[str, Any]:
    word = "RUNNING" if job["start"] is not None else "PENDING"
    keys = ("exit", "nodes", "submit", "start", "raw", "reason")
    return {"state": word, "end": None, "steps": [], **{key: job[key] for key in keys}}


def sacctmgr(engine: Engine, words: Sequence[str]) -> int:
    """``show assoc`` and ``show qos``, as far as limits go; ``show cluster``."""
    if engine.state["switches"]["accounting_off"] or engine.state["switches"]["dbd_down"]:
        raise Refusal("sacctmgr: error: Problem talking to the database: Connection refused")
    what = next((word for word in words if word in ("assoc", "qos", "cluster", "associations")), "")
    fields = next((w.partition("=")[2] for w in words if w.lower().startswith("format=")), "").lower().split(",")
    limit = engine.state["config"]["MaxSubmit"]
    known = {"maxsubmit": limit, "maxsubmitjobs": limit, "cluster": "fake", "name": "normal", "user": "", "account": ""}
    if what:
        print("|".join(str(known.get(field) or "") for field in fields))
    return 0


def command(store: Store, words: Sequence[str]) -> int:
    """``fakeslurm advance SECONDS | set SWITCH=JSON | fail NODE | return NODE | preempt JOB | crash | jobs | tick``."""
    slurm = FakeSlurm.__new__(FakeSlurm)
    slurm.directory, slurm._store, slurm.bin = store.directory, store, store.directory / "bin"
    match list(words):
        case ["tick"]:
            slurm.tick()
        case ["advance", seconds]:
            slurm.advance(float(seconds))
        case ["set", *given]:
            slurm.switch(**{key: json.loads(value) for key, _, value in (word.partition("=") for word in given)})
        case ["fail", node]:
            slurm.fail_node(node)
        case ["return", node]:
            slurm.return_node(node)
        case ["preempt", job]:
            slurm.preempt(job)
        case ["crash"]:
            slurm.crash_controller()
        case ["jobs"]:
            for name, job in slurm.jobs().items():
                print(name, job["state"], job["reason"], stamp(job["submit"]), sep="|")
        case _:
            raise Refusal(command.__doc__ or "", 2)
    return 0
