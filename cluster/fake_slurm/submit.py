"""sbatch and srun."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cluster.fake_slurm.engine import Engine
from cluster.fake_slurm.jobs import LIVE, State, new_job
from cluster.fake_slurm.options import Refusal, array_tasks, gpus_of, parse, script_options, seconds
from cluster.fake_slurm.store import Store, now

FAILED = "sbatch: error: Batch job submission failed: "


def sbatch(store: Store, words: Sequence[str]) -> int:
    """Submit; what is printed is what the real one prints."""
    given, rest = parse(words)
    if "wrap" in given:
        text = f"#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{given['wrap']}\n"
    elif rest:
        try:
            text = Path(rest[0]).read_text()
        except FileNotFoundError as error:
            raise Refusal(f"sbatch: error: Unable to open file {rest[0]}") from error
    else:
        text = sys.stdin.read()
    options = {**script_options(text), **given}
    with store.open() as state:
        hang = _fault(state)
        job_id = _accept(store, state, options, text)
        Engine(store, state).tick()
    if hang:  # the controller took it, the answer never comes
        time.sleep(hang)
        raise Refusal(FAILED + "Socket timed out on send/recv operation")
    print(job_id if "parsable" in options else f"Submitted batch job {job_id}")
    return 0


def _fault(state: State) -> float:
    switches = state["switches"]
    queued = sum(job["state"] in LIVE for job in state["jobs"])
    if switches["reject_with"] and switches["reject_count"] != 0 and queued >= switches["reject_above"]:
        switches["reject_count"] -= 1
        raise Refusal(FAILED + switches["reject_with"])
    if switches["accept_then_timeout"] > 0:
        switches["accept_then_timeout"] -= 1
        return float(switches["hang_s"])
    return 0.0


def _accept(store: Store, state: State, options: dict[str, Any], text: str) -> int:
    config = state["config"]
    partition = str(options.get("partition", next(iter(config["Partitions"]))))
    if partition not in config["Partitions"]:
        raise Refusal(
            f"sbatch: error: invalid partition specified: {partition}\n{FAILED}Invalid partition name specified"
        )
    seconds(str(options.get("time", config["DefaultTime"])))
    tasks, throttle = array_tasks(options["array"], config["MaxArraySize"]) if "array" in options else ([None], None)
    queued = sum(job["state"] in LIVE for job in state["jobs"])
    if config["MaxSubmit"] is not None and queued + len(tasks) > config["MaxSubmit"]:
        raise Refusal(
            "sbatch: error: QOSMaxSubmitJobPerUserLimit\n"
            f"{FAILED}Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
        )
    if queued + len(tasks) > config["MaxJobCount"]:
        raise Refusal(FAILED + "Resource temporarily unavailable")
    spec = _spec(options, partition, throttle)
    largest = max((node["gpus"], node["cpus"]) for node in state["nodes"].values())
    if spec["gpus"] > largest[0] or spec["cpus"] > max(node["cpus"] for node in state["nodes"].values()):
        raise Refusal(FAILED + "Requested node configuration is not available")
    number = state["next_id"]
    state["next_id"] += 1
    if "test-only" in options:
        return number
    key = str(len(state["specs"]) + 1)  # not the id: that may be given again
    script = store.directory / "scripts" / key
    script.write_text(text)
    spec["script"] = str(script)
    state["specs"][key] = spec
    held = "JobHeldUser" if "hold" in options else ""
    array = None if tasks == [None] else number
    for task in tasks:
        state["jobs"].append(new_job(number, key, now(state), array, task, held))
    return number


def _spec(options: dict[str, Any], partition: str, throttle: int | None) -> dict[str, Any]:
    memory = str(options.get("mem", "0"))
    units = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024 * 1024}
    unit = units.get(memory[-1:].upper())
    return {
        "name": options.get("job-name", "wrap" if "wrap" in options else "sbatch"),
        "comment": options.get("comment", ""),
        "partition": partition,
        "options": {key: value for key, value in options.items() if key not in ("wrap", "parsable")},
        "throttle": throttle,
        "requeue": "no-requeue" not in options,
        "cpus": int(options.get("cpus-per-task", 1)) * int(options.get("ntasks-per-node", 1)),
        "gpus": gpus_of(options),
        "nodes": int(str(options.get("nodes", "1")).partition("-")[0]),
        "memory": int(float(memory[:-1]) * unit) if unit else int(memory),
        "cwd": os.getcwd(),
        "env": dict(os.environ),
    }


def srun(words: Sequence[str]) -> int:
    """Inside a job: the command once per task, with the variables of a step; the highest exit status."""
    command = list(words)
    tasks = int(os.environ.get("SLURM_NNODES", "1")) * int(os.environ.get("SLURM_TASKS_PER_NODE", "1"))
    nodes = os.environ["SLURM_JOB_NODELIST"].split(",")
    while command and command[0].startswith("-"):
        option = command.pop(0)
        if option.startswith(("--ntasks=", "-n")):
            tasks = int(option.partition("=")[2] or option[2:])
    each = max(1, tasks // len(nodes))
    children = []
    for rank in range(tasks):
        env = {
            **os.environ,
            "SLURM_PROCID": str(rank),
            "SLURM_LOCALID": str(rank % each),
            "SLURM_NODEID": str(rank // each),
            "SLURM_NTASKS": str(tasks),
            "SLURM_STEP_ID": "0",
            "SLURM_STEP_NUM_TASKS": str(tasks),
            "SLURM_STEP_NODELIST": os.environ["SLURM_JOB_NODELIST"],
            "SLURMD_NODENAME": nodes[rank // each],
        }
        children.append(subprocess.Popen(command, env=env))

    def forward(number: int, _frame: object) -> None:
        for child in children:
            child.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, forward)
    codes = [child.wait() for child in children]
    return max(code if code >= 0 else 128 - code for code in codes)
