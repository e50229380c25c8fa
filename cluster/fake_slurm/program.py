"""One program, many names: which command was called, under which faults."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from cluster.fake_slurm.engine import Engine
from cluster.fake_slurm.options import Refusal
from cluster.fake_slurm.store import Store

COMMANDS = ("sbatch", "srun", "squeue", "sacct", "scontrol", "scancel", "sinfo", "sacctmgr", "fakeslurm")


def main(directory: str, name: str, words: Sequence[str]) -> int:
    """Run one command over the state in ``directory``. Returns its exit status."""
    store = Store(Path(directory))
    try:
        return _run(store, name, words)
    except Refusal as refusal:
        print(refusal, file=sys.stderr)
        return refusal.code
    except BrokenPipeError:
        return 1


def _run(store: Store, name: str, words: Sequence[str]) -> int:
    from cluster.fake_slurm import administer, control, show, submit

    if name == "fakeslurm":
        return control.command(store, words)
    if name == "srun":
        return submit.srun(words)
    with store.open() as state:
        switches = dict(state["switches"])
        state["calls"][name] = state["calls"].get(name, 0) + 1
    if name in switches["slow"]:
        time.sleep(switches["slow"][name])
    away = switches["controller_down"] and not (name == "scontrol" and words[:2] == ["show", "hostnames"])
    if away and name not in ("sacct", "sacctmgr"):
        time.sleep(switches["message_timeout_s"])
        what = "Unable to contact slurm controller (connect failure)"
        if name == "scancel":
            raise Refusal(f"scancel: error: Kill job error on job id {words[-1]}: {what}", 8)
        raise Refusal(
            f"sbatch: error: Batch job submission failed: {what}"
            if name == "sbatch"
            else f"slurm_load_jobs error: {what}"
        )
    if name == "sbatch":
        return submit.sbatch(store, words)
    command: Callable[[Engine, Sequence[str]], int] = {
        "squeue": show.squeue,
        "sacct": show.sacct,
        "sinfo": show.sinfo,
        "scontrol": administer.scontrol,
        "scancel": administer.scancel,
        "sacctmgr": control.sacctmgr,
    }[name]
    with store.open() as state:
        engine = Engine(store, state)
        if not switches["controller_down"]:
            engine.tick()
        return command(engine, words)
