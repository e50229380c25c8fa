"""squeue, sinfo and sacct: what is shown, formatted as the real ones format it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from cluster.fake_slurm.engine import Engine
from cluster.fake_slurm.jobs import Job, State, bracket_limit, compress, known, name_of, select, spec_of
from cluster.fake_slurm.options import Refusal, duration, seconds
from cluster.fake_slurm.store import now, stamp

CODES = {
    "PENDING": "PD", "RUNNING": "R", "COMPLETING": "CG", "COMPLETED": "CD", "FAILED": "F", "CANCELLED": "CA",
    "TIMEOUT": "TO", "NODE_FAIL": "NF", "PREEMPTED": "PR", "OUT_OF_MEMORY": "OOM", "DEADLINE": "DL",
}  # fmt: skip
SHOWN = ("PENDING", "RUNNING", "COMPLETING", "SUSPENDED")


def _take(words: Sequence[str], with_value: str, flags: str) -> tuple[dict[str, str], list[str]]:
    """Short and long options of the showing commands: name -> value ('' for a flag), and the rest."""
    found: dict[str, str] = {}
    rest = list(words)
    other: list[str] = []
    values, plain = with_value.split(), flags.split()
    while rest:
        word = rest.pop(0)
        name, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("-"):
            other.append(word)
        elif word.startswith("--"):
            found[name] = value if equals else rest.pop(0) if name in values else ""
        elif word[1] in values:
            found[word[1]] = word[2:] or rest.pop(0)
        else:
            for letter in word[1:]:
                if letter not in plain:
                    raise Refusal(f"invalid option -- '{letter}'")
                found[letter] = ""
    return found, other


def squeue(engine: Engine, words: Sequence[str]) -> int:
    options, _ = _take(words, "j jobs o format t states n name u user p partition S sort w", "h r a l")
    state = engine.state
    if state["switches"]["squeue_empty"]:
        return 0
    wanted = options.get("j", options.get("jobs"))
    jobs = known(state)
    if wanted is not None:
        chosen = [select(state, one) for one in wanted.split(",")]
        jobs = [job for some in chosen for job in some]
        if not jobs and len(chosen) == 1:
            raise Refusal("slurm_load_jobs error: Invalid job id specified")
    states = options.get("t", options.get("states", ",".join(SHOWN))).upper().split(",")
    names = options.get("n", options.get("name"))
    hidden = state["switches"]["hide"]
    jobs = [
        job
        for job in jobs
        if ("ALL" in states or job["state"] in states or CODES.get(job["state"]) in states)
        and (names is None or spec_of(state, job)["name"] in names.split(","))
        and name_of(job) not in hidden
    ]
    line = options.get("o", options.get("format", "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"))
    if "h" not in options and "noheader" not in options:
        print(re.sub(r"%\.?\d*([a-zA-Z])", lambda m: m[1], line))
    for ids, job in _lines(state, jobs, each="r" in options or "array" in options):
        print(_format(line, ids, job, engine))
    return 0


def _lines(state: State, jobs: list[Job], *, each: bool) -> list[tuple[str, Job]]:
    """(id as shown, job): pending elements of an array that have not been split off are one line."""
    lines: list[tuple[str, Job]] = []
    groups: dict[tuple[int, str], list[Job]] = {}
    for job in jobs:
        if job["state"] == "PENDING" and not job["split"] and not each:
            groups.setdefault((job["array"], job["reason"]), []).append(job)
        else:
            lines.append((name_of(job), job))
    for (array, _), members in groups.items():
        lines.append((_bracket(state, array, members, closed=False), members[0]))
    return lines


def _bracket(state: State, array: int, members: list[Job], *, closed: bool) -> str:
    numbers = [job["task"] for job in members]
    throttle = spec_of(state, members[0])["throttle"]
    text = compress(numbers, bracket_limit())
    if text.endswith(",..."):  # squeue forgets the closing bracket, sacct does not
        return f"{array}_[{text}]" if closed else f"{array}_[{text[:-3]}"
    return f"{array}_[{text}{f'%{throttle}' if throttle else ''}]"


def _format(line: str, ids: str, job: Job, engine: Engine) -> str:
    state = engine.state
    spec = spec_of(state, job)
    word = state["switches"]["force_state"].get(name_of(job), job["state"])
    nodes = ",".join(job["nodes"])
    values = {
        "i": ids,
        "A": str(job["raw"]),
        "F": str(job["array"] or job["raw"]),
        "K": "N/A" if job["task"] is None else str(job["task"]),
        "j": spec["name"],
        "T": word,
        "t": CODES.get(word, word),
        "r": job["reason"],
        "R": f"({job['reason']})" if job["state"] == "PENDING" else nodes,
        "M": engine.elapsed(job),
        "l": duration(seconds(str(spec["options"].get("time", 60)))),
        "N": nodes,
        "D": str(spec["nodes"]),
        "P": spec["partition"],
        "u": os.environ.get("USER", "root"),
        "U": str(os.getuid()),
        "k": spec["comment"] or "(null)",
        "V": stamp(job["submit"]),
        "S": stamp(job["start"], "N/A"),
        "e": stamp(job["end"], "N/A"),
        "C": str(spec["cpus"]),
    }
    return re.sub(r"%\.?(\d*)([a-zA-Z])", lambda m: values[m[2]][: int(m[1])] if m[1] else values[m[2]], line)


def sinfo(engine: Engine, words: Sequence[str]) -> int:
    options, _ = _take(words, "o format p partition n t", "h N a l r R")
    busy = {name for job in engine.state["jobs"] if job["state"] == "RUNNING" for name in job["nodes"]}
    line = options.get("o", options.get("format", "%N %T"))
    for name, node in engine.state["nodes"].items():
        word = "mixed" if name in busy and node["state"] == "idle" else node["state"]
        values = {
            "N": name, "n": name, "T": word, "t": word[:5], "E": node["reason"] or "none", "c": str(node["cpus"]),
            "m": str(node["mem"]), "G": f"gpu:{node['gpus']}" if node["gpus"] else "(null)", "P": "gpu*", "D": "1",
        }  # fmt: skip
        print(re.sub(r"%\.?\d*([a-zA-Z])", lambda m, v=values: v.get(m[1], "N/A"), line))
    return 0


def sacct(engine: Engine, words: Sequence[str]) -> int:
    state = engine.state
    if state["switches"]["accounting_off"]:
        raise Refusal("Slurm accounting storage is disabled")
    if state["switches"]["dbd_down"]:
        raise Refusal(
            "sacct: error: slurm_persist_conn_open_without_init: failed to open persistent connection to "
            "host:127.0.0.1:17001: Connection refused\n"
            "sacct: error: Problem talking to the database: Connection refused"
        )
    options, _ = _take(
        words, "j jobs o format S starttime E endtime name s state u user", "n P X D a L noconvert parsable2"
    )
    fields = options.get("o", options.get("format", "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode"))
    wanted = options.get("j", options.get("jobs"))
    names = options.get("name")
    since = _since(state, options)
    if "n" not in options and "noheader" not in options:
        print("|".join(fields.split(",")))
    for row in _rows(state):
        ids = (row["JobID"], row["JobIDRaw"], row["array"], row["element"])
        if wanted is not None and not set(ids) & set(wanted.split(",")):
            continue
        if (names is not None and row["JobName"] not in names.split(",")) or row["until"] < since:
            continue
        if "X" in options and row["step"]:
            continue
        if "D" not in options and "duplicates" not in options and not row["last"]:
            continue
        print("|".join(str(row.get(field.partition("%")[0], "")) for field in fields.split(",")))
    return 0


def _since(state: State, options: dict[str, str]) -> float:
    """The beginning of the window: today's midnight unless ids or a start are given (older ones: even with ids)."""
    given = options.get("S", options.get("starttime"))
    today = datetime.fromtimestamp(now(state)).replace(hour=0, minute=0, second=0, microsecond=0)
    if given is None:
        by_id = "j" in options or "jobs" in options
        return 0.0 if by_id and state["switches"]["sacct_window"] != "midnight" else today.timestamp()
    if given.startswith("now-"):
        amount, unit = re.fullmatch(r"now-(\d+)(\w+)", given).groups()  # type: ignore[union-attr]
        return (datetime.fromtimestamp(now(state)) - timedelta(**{unit: int(amount)})).timestamp()
    return datetime.fromisoformat(given).timestamp()


def _rows(state: State) -> list[dict[str, Any]]:
    """Every accounting row, oldest run first; elements that wait in an array are one row."""
    rows: list[dict[str, Any]] = []
    groups: dict[tuple[int, str], list[Job]] = {}
    lag = state["switches"]["sacct_lag_s"]
    moment = now(state)
    for job in state["jobs"]:
        if job.get("unrecorded"):
            continue
        spec = spec_of(state, job)
        runs = [run for run in job["runs"] if run["seen"] <= moment]
        live = job["state"] in ("PENDING", "RUNNING", "COMPLETING") and job["submit"] + lag <= moment
        if live and job["state"] == "PENDING" and not job["split"]:
            groups.setdefault((job["array"], job["reason"]), []).append(job)
            live = False
        forced = state["switches"]["force_state"].get(name_of(job))
        for index, run in enumerate(runs):
            last = index == len(runs) - 1 and not live
            rows += _run_rows(job, spec, run, last, forced if last else None)
        if live:
            word = "RUNNING" if job["state"] == "COMPLETING" else job["state"]
            if job["state"] == "COMPLETING" and not job["then"].get("requeue"):
                word = job["then"]["word"]
            current = {
                "state": word, "exit": [0, 0], "nodes": job["nodes"], "submit": job["submit"], "start": job["start"],
                "end": None, "steps": [["batch", "RUNNING", [0, 0]]] if job["start"] else [], "raw": job["raw"],
                "reason": job["reason"],
            }  # fmt: skip
            rows += _run_rows(job, spec, current, True, forced)
    for (array, reason), members in groups.items():
        row = {
            **members[0],
            "nodes": [],
            "exit": [0, 0],
            "state": "PENDING",
            "steps": [],
            "reason": reason,
            "end": None,
        }
        ids = _bracket(state, array, members, closed=True)
        made = _run_rows(members[0], spec_of(state, members[0]), row, True, None)
        made[0]["JobID"] = made[0]["element"] = ids
        rows += made
    return rows


def _run_rows(
    job: Job, spec: dict[str, Any], run: dict[str, Any], last: bool, forced: str | None
) -> list[dict[str, Any]]:
    started = run["start"] is not None
    name = name_of(job)
    end = run["end"]
    absent = "None" if end is not None and not started else "Unknown"
    word = forced or run["state"]
    base = {
        "array": str(job["array"]),
        "element": name,
        "last": last,
        "step": "",
        "until": end if end is not None else float("inf"),
        "JobID": name,
        "JobIDRaw": run["raw"],
        "JobName": spec["name"],
        "Comment": spec["comment"],
        "State": word,
        "ExitCode": "{}:{}".format(*run["exit"]),
        "DerivedExitCode": "0:125"
        if any(step[1] == "OUT_OF_MEMORY" and step[0] == "0" for step in run["steps"])
        else "0:0",
        "NodeList": ",".join(run["nodes"]) or "None assigned",
        "Submit": stamp(run["submit"]),
        "Start": stamp(run["start"], absent),
        "End": stamp(end),
        "Elapsed": duration((end or run["start"]) - run["start"] if started else 0),
        "ElapsedRaw": int((end - run["start"]) if started and end is not None else 0),
        "Reason": run["reason"],
        "Partition": spec["partition"],
        "User": os.environ.get("USER", "root"),
        "AllocCPUS": spec["cpus"] if started else 0,
    }
    steps = [
        {**base, "step": step, "JobID": f"{name}.{step}", "JobIDRaw": f"{run['raw']}.{step}", "JobName": step,
         "State": state_word, "ExitCode": "{}:{}".format(*exit), "DerivedExitCode": "", "Comment": "", "Reason": ""}
        for step, state_word, exit in run["steps"]
    ]  # fmt: skip
    return [base, *steps]
