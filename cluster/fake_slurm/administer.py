"""scontrol and scancel."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from cluster.fake_slurm.engine import Engine
from cluster.fake_slurm.jobs import LIVE, Job, end_job, known, name_of, select, spec_of
from cluster.fake_slurm.options import Refusal, duration, minutes, seconds
from cluster.fake_slurm.store import stamp


def scontrol(engine: Engine, words: Sequence[str]) -> int:
    words = [word for word in words if word not in ("-o", "--oneliner", "-d", "-dd")]
    match words:
        case ["ping"]:
            print("Slurmctld(primary) at localhost is UP")
        case ["show", "config"]:
            for key, value in engine.state["config"].items():
                if not isinstance(value, dict | type(None)):
                    unit = " sec" if key in ("KillWait", "MinJobAge") else ""
                    print(f"{key:<23} = {value}{unit}")
            print(f"{'AccountingStorageType':<23} = {_storage(engine)}")
            print(f"{'AccountingStoreFlags':<23} = job_comment")
            print(f"{'PreemptMode':<23} = REQUEUE\n{'PreemptType':<23} = preempt/partition_prio")
            print(f"{'JobRequeue':<23} = 1\n{'MessageTimeout':<23} = 10 sec\n{'SLURM_VERSION':<23} = 22.05.8")
        case ["show", "job" | "jobs", *ids]:
            jobs = [job for one in ids for job in select(engine.state, one)] if ids else known(engine.state)
            if ids and not jobs:
                raise Refusal("slurm_load_jobs error: Invalid job id specified")
            for job in jobs:
                print(_job_line(engine, job))
        case ["show", "hostnames", *given]:
            names = given[0] if given else os.environ["SLURM_JOB_NODELIST"]
            print("\n".join(names.split(",")))
        case ["show", "node" | "nodes", *names]:
            for name, node in engine.state["nodes"].items():
                if not names or name in names:
                    state = node["state"].upper()
                    reason = f" Reason={node['reason']}" if node["reason"] else ""
                    print(f"NodeName={name} State={state} CPUTot={node['cpus']} RealMemory={node['mem']}{reason}")
        case ["show", "partition" | "partitions", *_]:
            config = engine.state["config"]
            first = next(iter(config["Partitions"]))
            for name, mode in config["Partitions"].items():
                times = f"Default={'YES' if name == first else 'NO'} DefaultTime={minutes(config['DefaultTime'])}"
                times += f" MaxTime={minutes(config['MaxTime'])}"
                print(f"PartitionName={name} {times} GraceTime=0 PreemptMode={mode} State=UP TotalNodes=1")
        case ["show", "reservation" | "reservations", *_]:
            for name, (start, end) in engine.state["config"]["Maintenance"].items():
                print(
                    f"ReservationName={name} StartTime={stamp(start)} EndTime={stamp(end)} "
                    f"Nodes=ALL Flags=MAINT,IGNORE_JOBS,SPEC_NODES,ALL_NODES State=INACTIVE"
                )
            if not engine.state["config"]["Maintenance"]:
                print("No reservations in the system")
        case [("requeue" | "requeuehold" | "hold" | "uhold" | "release") as verb, *ids]:
            for job in [job for one in ",".join(ids).split(",") for job in _some(engine, one)]:
                _order(engine, verb, job)
        case ["update", *assignments]:
            _update(engine, {key: value for key, _, value in (word.partition("=") for word in assignments)})
        case _:
            raise Refusal(f"invalid keyword: {' '.join(words)}")
    return 0


def _storage(engine: Engine) -> str:
    return f"accounting_storage/{'none' if engine.state['switches']['accounting_off'] else 'slurmdbd'}"


def _some(engine: Engine, wanted: str) -> list[Job]:
    jobs = select(engine.state, wanted)
    if not jobs:
        raise Refusal(f"Invalid job id specified for job {wanted}")
    return jobs


def _order(engine: Engine, verb: str, job: Job) -> None:
    if verb in ("requeue", "requeuehold"):
        if job["state"] == "PENDING":
            raise Refusal(f"Job is pending execution for job {name_of(job)}")
        if not spec_of(engine.state, job)["requeue"]:
            raise Refusal(f"Requested operation is presently disabled for job {name_of(job)}")
        held = "job requeued in held state" if verb == "requeuehold" else ""
        if job["state"] == "COMPLETING" and not job["then"].get("requeue"):
            raise Refusal(f"Job/step already completing or completed for job {name_of(job)}")
        if job["end"] is not None:  # an ended job: its row turns into REQUEUED, its success is forgotten
            from cluster.fake_slurm.jobs import again

            job["runs"].pop()
            again(engine.state, job, "REQUEUED", held=held)
        else:
            engine.stop(job, {"word": "REQUEUED", "requeue": True, "held": held})
    elif verb == "release":
        job.update(held=False, reason="None")
    elif job["state"] == "PENDING":
        job.update(held=True, reason="JobHeldUser" if verb == "uhold" else "JobHeldAdmin")


def _update(engine: Engine, given: dict[str, str]) -> None:
    lower = {key.lower(): value for key, value in given.items()}
    if "nodename" in lower:
        word = lower["state"].lower()
        for name in lower["nodename"].split(","):
            if word == "down":
                engine.fail_node(name)
            elif word in ("resume", "idle", "undrain"):
                engine.return_node(name)
            else:
                engine.state["nodes"][name].update(state="drained", reason=lower.get("reason", ""))
    elif "jobid" in lower:
        for job in _some(engine, lower["jobid"]):
            options = spec_of(engine.state, job)["options"]
            options.update({"time": lower["timelimit"]} if "timelimit" in lower else {})


def _job_line(engine: Engine, job: Job) -> str:
    spec = spec_of(engine.state, job)
    array = f"ArrayJobId={job['array']} ArrayTaskId={job['task']} " if job["task"] is not None else ""
    limit = duration(seconds(str(spec["options"].get("time", 60))))
    return (
        f"JobId={job['raw']} {array}JobName={spec['name']} JobState={job['state']} "
        f"Reason={job['reason'].replace(' ', '_')} Dependency=(null) Requeue={int(spec['requeue'])} "
        f"Restarts={job['restarts']} BatchFlag=1 ExitCode={job['exit'][0]}:{job['exit'][1]} "
        f"RunTime={engine.elapsed(job)} TimeLimit={limit} SubmitTime={stamp(job['submit'])} "
        f"StartTime={stamp(job['start'])} EndTime={stamp(job['end'])} Partition={spec['partition']} "
        f"ReqNodeList=(null) ExcNodeList=(null) NodeList={','.join(job['nodes']) or '(null)'} "
        f"Comment={spec['comment']} "
    )


def scancel(engine: Engine, words: Sequence[str]) -> int:
    number: int | None = None
    batch = full = False
    names: set[str] | None = None
    wanted: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        option, equals, value = word.partition("=")
        if option in ("--signal", "-s"):
            text = value if equals else rest.pop(0)
            number = int(text) if text.isdigit() else getattr(signal, "SIG" + text.removeprefix("SIG"))
        elif option in ("--batch", "-b"):
            batch = True
        elif option in ("--full", "-f"):
            full = True
        elif option in ("--name", "-n", "--jobname"):
            names = set((value if equals else rest.pop(0)).split(","))
        elif word.startswith("-"):
            continue
        else:
            wanted += word.split(",")
    jobs = [job for one in wanted for job in select(engine.state, one)]
    if not wanted and names is not None:
        jobs = known(engine.state)
    code = 0
    if names is not None:  # with a filter an id that is over is an error; without one it is nothing
        for one in wanted:
            if not any(job["state"] in LIVE for job in select(engine.state, one)):
                print(f"scancel: error: Kill job error on job id {one}: Invalid job id specified", file=sys.stderr)
                code = 1
    for job in jobs:
        if names is not None and spec_of(engine.state, job)["name"] not in names:
            continue
        if number is not None:
            if job["state"] == "PENDING":
                text = f"scancel: error: Kill job error on job id {name_of(job)}: Job is pending execution"
                print(text, file=sys.stderr)
            elif job["state"] == "RUNNING":
                engine.signal(job, number, batch=batch or full, others=full or not batch)
        else:
            _cancel(engine, job)
    engine.tick()
    return code


def _cancel(engine: Engine, job: Job) -> None:
    who = f"CANCELLED by {os.getuid()}"
    if job["state"] == "PENDING":
        siblings = [other for other in engine.state["jobs"] if other["array"] == job["array"] and other is not job]
        if job["task"] is not None and not job["split"] and siblings:
            job.update(purged=True, unrecorded=True)  # no record anywhere
        end_job(engine.state, job, who, (0, 0), job["reason"])
    elif job["state"] == "RUNNING" or (job["state"] == "COMPLETING" and job["then"].get("requeue")):
        engine.stop(job, {"word": who})
