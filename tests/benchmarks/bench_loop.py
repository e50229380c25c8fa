"""O3, O8-O11: what the control plane costs, against floors timed in the same run.

Every benchmark has a workspace of its own under a temporary folder. O9 and O11 run real processes; the packs of O3 and
O10 are carried out in this process, so that only the loop's own time is seen.
"""

from __future__ import annotations

import importlib.util
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import orjson

from cluster.backend import JobHandle, JobReport, JobState, LaunchRequest
from cluster.fake_backend import FakeBackend
from cluster.local_backend import LocalBackend
from jobs.durable import AppendLog
from jobs.state import RunState, read_pack
from jobs.workspace import Workspace
from orchestrator.loop import Loop
from orchestrator.policy import LOCAL, Policy

Row = dict[str, Any]
LIGHT = ("numpy", "pyarrow", "torch", "mlflow", "ray", "submitit", "matplotlib", "scipy", "pandas", "omegaconf")
POLICY = replace(LOCAL, quiet_s=0.5, probe=False)


def _lab() -> ModuleType:
    path = Path(__file__).parents[1] / "orchestrator" / "lab.py"
    spec = importlib.util.spec_from_file_location("orchestrator_lab", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _timed(action: Callable[[], Any], times: int = 3) -> float:
    """The fastest of some times, seconds."""
    durations = []
    for _ in range(times):
        begin = time.perf_counter()
        action()
        durations.append(time.perf_counter() - begin)
    return min(durations)


def _finished_workspace(lab: ModuleType, folder: Path, runs: int, per_pack: int) -> tuple[Workspace, FakeBackend]:
    """A sweep of which everything has finished, as its workers would have left it."""
    workspace = Workspace(folder / "w")
    specs = lab.cell({"steps": 1}, range(runs))
    lab.write_plan(workspace, "s", [specs[n : n + per_pack] for n in range(0, runs, per_pack)])
    fake = FakeBackend(folder / "c.json", execute=lambda entry, job: lab.pretend(Path(entry["cwd"]), job), slots=10**6)
    loop = Loop(workspace, fake, Policy(probe=False), code="")
    while not loop.tick().done:
        fake.step()
    loop.close()
    return workspace, fake


def resume(lab: ModuleType, folder: Path) -> list[Row]:
    """O3: from process start to 'nothing to do' with 10,000 runs finished, against scandir + stat of 10,000 folders."""
    workspace, _ = _finished_workspace(lab, folder / "o3", 10_000, 16)
    many = folder / "many"
    for n in range(10_000):
        (many / f"{n % 100:02d}" / f"r{n:05d}").mkdir(parents=True)

    def floor() -> None:
        for shard in os.scandir(many):
            for entry in os.scandir(shard.path):
                entry.stat()

    code = (
        "import sys; from pathlib import Path; from cluster.local_backend import LocalBackend\n"
        "from jobs.workspace import Workspace; from orchestrator.loop import Loop\n"
        "assert Loop(Workspace(Path(sys.argv[1])), LocalBackend(), code='').tick().done"
    )
    argv = [sys.executable, "-P", "-c", code, str(workspace.root)]
    imports = "import orchestrator.loop, cluster.local_backend"
    empty = _timed(lambda: subprocess.run([*argv[:3], imports], check=True))
    seconds = _timed(lambda: subprocess.run(argv, check=True))
    base = _timed(floor)
    what = f"resume, 10k finished, nothing to do (imports alone: {empty:.2f} s)"
    return [_row("O3", what, (seconds - empty) / base, "<= 5 x scandir+stat of 10k, 0.5 s", seconds)]


def command(folder: Path) -> list[Row]:
    """O8: `orchestrate --help` and `status` in fresh processes; how many heavy modules they import."""
    rows = []
    workspace = folder / "o3" / "w"
    start = _timed(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True))
    for words in (["--help"], ["--root", str(workspace), "status", "s"]):
        code = (
            "import sys\nfrom orchestrator.cli.main import main\n"
            f"try: main({words!r})\nexcept SystemExit as e: code = e.code\n"
            f"heavy = [m for m in {LIGHT!r} if m in sys.modules]\n"
            "print('\\nHEAVY', len(sys.modules), *heavy)\nsys.exit(code)"
        )
        run = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
        modules = run.stdout.rpartition("HEAVY")[2].split()
        seconds = _timed(
            lambda c=code: subprocess.run([sys.executable, "-P", "-c", c], capture_output=True, check=True)
        )
        verb = "--help" if words == ["--help"] else "status"
        what = f"orchestrate {verb}: {modules[0]} modules, heavy: {' '.join(modules[1:]) or 'none'}"
        rows.append(_row("O8", what, seconds / start, "no heavy module, < 0.30 s", seconds))
    return rows


def _touch(path: str) -> int:
    """What a durable no-op costs a worker at least: its result appended and on the disk."""
    log = AppendLog(Path(path))
    log.append({"done": 1})
    log.flush(sync=True)
    log.close()
    return 1


def floor_loop(folder: Path, runs: int) -> float:
    """Seconds a run of a bare loop: a pool of two workers, a durable result each, a durable journal line each."""
    journal = AppendLog(folder / "journal")
    begin = time.perf_counter()
    with ProcessPoolExecutor(2) as pool:
        for n, _ in enumerate(pool.map(_touch, [str(folder / f"result-{n % 4}") for n in range(runs)])):
            journal.append({"run": n})
            journal.flush(sync=n % 16 == 15)
    journal.close()
    return (time.perf_counter() - begin) / runs


def overhead(lab: ModuleType, folder: Path) -> list[Row]:
    """O9: no-op runs on the local backend, everything durable, in packs as the planner makes them for tiny runs."""
    (folder / "floor").mkdir()
    base = floor_loop(folder / "floor", 2000)
    rows = []
    for per_pack, runs in ((48, 960), (256, 3072)):
        workspace = Workspace(folder / f"o9-{per_pack}")
        specs = lab.cell({"steps": 1}, range(runs))
        lab.write_plan(workspace, "s", [specs[n : n + per_pack] for n in range(0, runs, per_pack)])
        loop = Loop(workspace, LocalBackend(), POLICY, code="")
        begin = time.perf_counter()
        report = loop.watch()
        seconds = (time.perf_counter() - begin) / runs
        loop.close()
        assert report.total(RunState.COMPLETED) == runs
        what = f"overhead a no-op run, packs of {per_pack} ({1e3 * seconds:.2f} ms a run, floor {1e3 * base:.2f} ms)"
        rows.append(_row("O9", what, seconds / base, "<= 5 x floor loop, 2 ms", seconds))
    return rows


class Instant:
    """A backend that costs nothing: it keeps what was submitted until ``finish`` does it, here, as a worker would."""

    name = "fake"

    def __init__(self, lab: ModuleType) -> None:
        self._lab = lab
        self._waiting: list[LaunchRequest] = []

    def submit(self, batch: str, requests: Sequence[LaunchRequest]) -> list[JobHandle]:
        self._waiting += requests
        return [JobHandle(self.name, request.name, request.name) for request in requests]

    def find(self, names: Sequence[str]) -> dict[str, JobHandle]:
        return {}

    def poll(self, handles: Sequence[JobHandle]) -> dict[JobHandle, JobReport]:
        return dict.fromkeys(handles, JobReport(JobState.RUNNING))

    def cancel(self, handles: Sequence[JobHandle], *, grace_s: float = 30.0) -> None:
        return

    def free_slots(self, in_flight: int, limit: int | None) -> int:
        return 8 - in_flight

    def finish(self) -> None:
        for request in self._waiting:
            for _ in self._lab.pretend(Path(request.cwd), f"{request.name}/1/0"):
                pass
        self._waiting.clear()


def scaling(lab: ModuleType, folder: Path) -> list[Row]:
    """O10: the loop's own time for a pass that sees 8 packs end and launches 8, with 1,000 and 50,000 runs queued."""
    cost, inits = {}, {}
    for queued in (1_000, 50_000):
        workspace = Workspace(folder / f"o10-{queued}")
        specs = lab.cell({"steps": 1}, range(queued))
        lab.write_plan(workspace, "s", [specs[n : n + 2] for n in range(0, queued, 2)])
        backend = Instant(lab)
        begin = time.perf_counter()
        loop = Loop(workspace, backend, POLICY, code="")
        loop.tick()
        inits[queued] = time.perf_counter() - begin
        spent = []
        for _ in range(60):
            backend.finish()
            begin = time.perf_counter()
            report = loop.tick()
            spent.append(time.perf_counter() - begin)
            assert report.acted.launched == 8
        loop.close()
        cost[queued] = statistics.median(spent)
    ratio = cost[50_000] / cost[1_000]
    what = f"8 packs end, 8 are launched: 50k runs queued against 1k ({1e3 * cost[1_000]:.1f} ms a pass)"
    return [
        _row("O10", what, ratio, "<= 1.3", cost[50_000]),
        _row("O10", "start of a loop on 50k queued runs (1k)", inits[50_000] / inits[1_000], "<= 50", inits[50_000]),
    ]


def kills(lab: ModuleType, folder: Path) -> list[Row]:
    """O11: kill -9 of the orchestrator at 20 random points of a 2,000-run sweep."""
    workspace = Workspace(folder / "o11")
    specs = lab.cell({"steps": 1}, range(2000))
    packs = lab.write_plan(workspace, "s", [specs[n : n + 50] for n in range(0, 2000, 50)])
    code = (
        "import sys; from pathlib import Path; from dataclasses import replace\n"
        "from cluster.local_backend import LocalBackend; from jobs.workspace import Workspace\n"
        "from orchestrator.loop import Loop; from orchestrator.policy import LOCAL\n"
        "policy = replace(LOCAL, quiet_s=0.3, probe=False)\n"
        "loop = Loop(Workspace(Path(sys.argv[1])), LocalBackend(), policy, code='')\n"
        "loop.tick(); print('up', flush=True); loop.watch()"
    )
    argv = [sys.executable, "-P", "-c", code, str(workspace.root)]
    dice, killed, restarts = random.Random(5), 0, []
    while True:
        begin = time.perf_counter()
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as loop:
            assert loop.stdout is not None
            loop.stdout.readline()
            restarts.append(time.perf_counter() - begin)
            if killed == 20:
                assert loop.wait(300) == 0
                break
            time.sleep(dice.uniform(0.0, 0.25))
            if loop.poll() is None:
                loop.kill()
                killed += 1
    redone, finished = 0, set()
    for pack in packs:
        for record in read_pack(workspace.pack(pack)):
            now = {fact.run for fact in record.facts if fact.fact == "finished"}
            redone += len(finished & now)
            finished |= now
    lost = 2000 - len(finished)
    what = f"kill -9 of the orchestrator, {killed} times in 2,000 runs: {redone} redone, {lost} lost; worst restart"
    return [_row("O11", what, float(redone + lost), "0 redone, 0 lost, <= 1 s", max(restarts))]


def _row(id: str, what: str, ratio: float, target: str, seconds: float) -> Row:
    return {"id": id, "what": what, "ratio": ratio, "target": target, "seconds": seconds}


def main() -> list[Row]:
    """All rows; under two minutes on two cores."""
    lab = _lab()
    folder = Path(tempfile.mkdtemp(prefix="bench-loop-"))
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    try:
        return [
            *resume(lab, folder),
            *command(folder),
            *overhead(lab, folder),
            *scaling(lab, folder),
            *kills(lab, folder),
        ]
    finally:
        if before is None:
            del os.environ["XDG_CACHE_HOME"]
        else:
            os.environ["XDG_CACHE_HOME"] = before
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    print(orjson.dumps(main(), option=orjson.OPT_INDENT_2).decode())
