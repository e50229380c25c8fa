"""One job record: its parts, how it is named, how it moves between states. The engine decides when."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import Any

from cluster.fake_slurm.options import seconds
from cluster.fake_slurm.store import now

State = dict[str, Any]
Job = dict[str, Any]

LIVE = frozenset({"PENDING", "RUNNING", "COMPLETING", "SUSPENDED"})


def new_job(raw: int, spec: str, submitted: float, array: int | None, task: int | None, held: str) -> Job:
    """A pending record. ``held``: the reason it may not start, or ''."""
    return {
        "raw": raw,
        "spec": spec,
        "array": array,
        "task": task,
        "state": "PENDING",
        "reason": held or "None",
        "held": bool(held),
        "restarts": 0,
        "nodes": [],
        "gpus": [],
        "submit": submitted,
        "begin": submitted,
        "start": None,
        "end": None,
        "exit": [0, 0],
        "token": "",
        "then": None,
        "kill_at": None,
        "warned": False,
        "runs": [],
        "split": task is None,
    }


def spec_of(state: State, job: Job) -> dict[str, Any]:
    return state["specs"][job["spec"]]


def name_of(job: Job) -> str:
    """``12`` or ``12_3``."""
    return str(job["raw"]) if job["task"] is None else f"{job['array']}_{job['task']}"


def matches(job: Job, wanted: str) -> bool:
    """Whether an id given on a command line means this job: its own, its array's, or its raw one."""
    return wanted in (name_of(job), str(job["raw"])) or (job["array"] is not None and wanted == str(job["array"]))


def select(state: State, wanted: str) -> list[Job]:
    """Jobs that the controller still knows by this id. ``5_[1-3]`` and ``5_1,2`` are understood too."""
    main, under, tasks = wanted.partition("_")
    if under and ("[" in tasks or "," in tasks):
        numbers = expand(tasks.strip("[]").partition("%")[0])
        return [job for job in known(state) if str(job["array"]) == main and job["task"] in numbers]
    exact = [job for job in known(state) if name_of(job) == wanted]
    array = [job for job in known(state) if job["array"] is not None and str(job["array"]) == wanted]
    return exact or array or [job for job in known(state) if str(job["raw"]) == wanted]


def expand(text: str) -> set[int]:
    """``0-3,7`` -> {0, 1, 2, 3, 7}."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, rest = part.partition("-")
        last, _, step = (rest or first).partition(":")
        found.update(range(int(first), int(last) + 1, int(step or 1)))
    return found


def known(state: State) -> list[Job]:
    """Jobs that the controller has not forgotten."""
    limit = now(state) - state["config"]["MinJobAge"]
    return [job for job in state["jobs"] if not job.get("purged") and (job["end"] is None or job["end"] > limit)]


def compress(numbers: list[int], cut: int | None) -> str:
    """``[0-3,7]`` as Slurm prints it, cut at ``cut`` characters with ``...`` (None: never)."""
    numbers = sorted(numbers)
    steps = {later - earlier for earlier, later in pairwise(numbers)}
    if len(numbers) > 2 and len(steps) == 1 and steps != {1}:
        return f"{numbers[0]}-{numbers[-1]}:{steps.pop()}"
    parts, begin = [], 0
    for index in range(1, len(numbers) + 1):
        if index == len(numbers) or numbers[index] != numbers[index - 1] + 1:
            first, last = numbers[begin], numbers[index - 1]
            parts.append(str(first) if first == last else f"{first}-{last}")
            begin = index
    text = ",".join(parts)
    return text if cut is None or len(text) <= cut else text[:cut].rsplit(",", 1)[0] + ",..."


def bracket_limit() -> int | None:
    """Slurm cuts at 64 characters unless SLURM_BITSTR_LEN says otherwise (0: never)."""
    given = os.environ.get("SLURM_BITSTR_LEN", "64")
    return None if given == "0" else int(given)


def record_run(state: State, job: Job, word: str, exit: tuple[int, int], steps: list[list[Any]]) -> None:
    """Keep an ended run for accounting."""
    moment = now(state)
    job["runs"].append(
        {
            "state": word,
            "exit": list(exit),
            "nodes": job["nodes"],
            "submit": job["submit"],
            "start": job["start"],
            "end": moment,
            "steps": steps,
            "raw": job["raw"],
            "seen": moment + state["switches"]["sacct_end_lag_s"],
            "reason": job["reason"],
        }
    )


def end_job(state: State, job: Job, word: str, exit: tuple[int, int], reason: str = "None") -> None:
    """The job is over: for good, in this state."""
    if word.startswith("CANCELLED"):
        shown, batch = "CANCELLED", ["batch", "CANCELLED", [0, 9]]
    elif word in ("TIMEOUT", "PREEMPTED", "NODE_FAIL"):
        shown, batch = word, ["batch", "CANCELLED", [0, 9]]
    else:
        shown, batch = word, ["batch", "CANCELLED" if exit[1] == 9 else word, list(exit)]
    hidden = word.startswith("CANCELLED") or word in ("TIMEOUT", "PREEMPTED", "NODE_FAIL")
    began = job["start"] is not None
    job["reason"] = reason
    record_run(state, job, word, (0, 0) if hidden else exit, [batch] if began else [])
    job.update(state=shown, exit=list(exit), end=now(state), then=None, kill_at=None)
    free(state, job)


def free(state: State, job: Job) -> None:
    """Nothing runs on its nodes any more."""
    for name in job["nodes"]:
        node = state["nodes"][name]
        if node["state"].startswith("drain"):
            node["state"] = "drained"


def again(state: State, job: Job, word: str, *, wait: bool = True, held: str = "") -> None:
    """Back into the queue; the run that was is an accounting row of state ``word``."""
    record_run(state, job, word, (0, 0), [["batch", "CANCELLED", [0, 9]]])
    moment = now(state)
    free(state, job)
    job.update(
        state="PENDING",
        reason=held or ("BeginTime" if wait else "None"),
        held=bool(held),
        restarts=job["restarts"] + 1,
        submit=moment,
        begin=moment + (state["config"]["RequeueWait"] if wait else 0.0),
        nodes=[],
        gpus=[],
        start=None,
        end=None,
        token="",
        then=None,
        kill_at=None,
        warned=False,
    )


def late(state: State, spec: State, moment: float) -> str | None:
    """Why a job's time limit keeps it from starting now: longer than its partition's, or into a maintenance."""
    config = state["config"]
    limit = seconds(str(spec["options"].get("time", config["DefaultTime"]))) or None
    if config["MaxTime"] is not None and (limit is None or limit > 60 * config["MaxTime"]):
        return "PartitionTimeLimit"
    for start, end in config["Maintenance"].values():
        if moment < end and (limit is None or moment + limit > start):
            return "ReqNodeNotAvail, Reserved for maintenance"
    return None
