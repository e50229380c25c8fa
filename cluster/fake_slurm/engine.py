"""What the controller does between two commands: collect what ended, end what is over its limit, start what may start.

There is no daemon. Every command, and every batch script that ends, calls ``tick``.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from cluster.fake_slurm import processes
from cluster.fake_slurm.jobs import Job, State, again, end_job, late, name_of, spec_of
from cluster.fake_slurm.options import duration, seconds
from cluster.fake_slurm.store import Store, now


class Engine:
    """The controller over an opened state."""

    def __init__(self, store: Store, state: State) -> None:
        self._store = store
        self.state = state

    def base(self, token: str) -> Path:
        return self._store.directory / "run" / token

    def tick(self) -> None:
        """Bring everything up to the present."""
        moment = now(self.state)
        for job in self.state["jobs"]:
            if job["state"] == "RUNNING":
                self._watch(job, moment)
            if job["state"] == "COMPLETING":
                self._complete(job, moment)
        self._start_pending(moment)

    # What runs

    def _watch(self, job: Job, moment: float) -> None:
        ended = processes.exit_status(self.base(job["token"])) if job["token"] else None
        if ended is not None:
            self.finish(job, ended)
            return
        spec = spec_of(self.state, job)
        limit = seconds(str(spec["options"].get("time", self.state["config"]["DefaultTime"])))
        if not limit:
            return
        left = job["start"] + limit - moment
        who, _, lead = str(spec["options"].get("signal", "")).rpartition("@")
        if lead and not job["warned"] and left <= float(lead):
            job["warned"] = True
            number = getattr(signal, "SIG" + who.rpartition(":")[2].removeprefix("SIG"))
            self.signal(job, number, batch=who.startswith("B:"), others=not who.startswith("B:"))
        if left <= 0:
            self.stop(job, {"word": "TIMEOUT"}, reason="TimeLimit")

    def finish(self, job: Job, ended: tuple[int, int]) -> None:
        """Its batch script has ended by itself."""
        number = ended[1]
        notes = self._notes(job)
        word = "COMPLETED" if ended == (0, 0) else "FAILED"
        reason = {"COMPLETED": "None"}.get(word, "JobLaunchFailure" if number == 9 else "NonZeroExitCode")
        if "oom" in notes:
            word, ended, reason = "OUT_OF_MEMORY", (0, 125), "OutOfMemory"
        end_job(self.state, job, word, ended, reason)
        if "oom-step" in notes:
            job["runs"][-1]["steps"].append(["0", "OUT_OF_MEMORY", [0, 125]])

    def _notes(self, job: Job) -> set[str]:
        """What the script asked the fake to pretend (files ``<token>.note-*``)."""
        base = self.base(job["token"])
        return {path.name.partition(".note-")[2] for path in base.parent.glob(base.name + ".note-*")}

    def signal(self, job: Job, number: int, *, batch: bool, others: bool) -> None:
        if job["token"]:
            processes.send(self.base(job["token"]), number, batch=batch, others=others)

    def stop(self, job: Job, then: dict[str, Any], reason: str = "None") -> None:
        """TERM now, KILL after KillWait; COMPLETING until nothing is left, then what ``then`` says."""
        job.update(state="COMPLETING", then=then, reason=reason)
        job["kill_at"] = now(self.state) + self.state["config"]["KillWait"]
        self.signal(job, signal.SIGCONT, batch=True, others=True)
        self.signal(job, signal.SIGTERM, batch=True, others=True)
        if not job["token"]:
            job["kill_at"] = now(self.state)

    def _complete(self, job: Job, moment: float) -> None:
        token = job["token"]
        over = not token or processes.exit_status(self.base(token)) is not None
        pid = processes.leader(self.base(token), 0.0) if token else None
        if over and pid is not None and processes.members(pid):
            over = False
        if not over:
            if moment >= job["kill_at"]:
                processes.kill(self.base(token))
            return
        then = job["then"]
        if then.get("requeue"):
            again(self.state, job, then["word"], held=then.get("held", ""))
        else:
            end_job(self.state, job, then["word"], (0, 9), job["reason"])

    # What waits

    def _start_pending(self, moment: float) -> None:
        running: dict[int, int] = {}
        for job in self.state["jobs"]:
            if job["state"] in ("RUNNING", "COMPLETING") and job["array"] is not None:
                running[job["array"]] = running.get(job["array"], 0) + 1
        free = self._free()
        for job in self.state["jobs"]:
            if job["state"] != "PENDING" or job["held"]:
                continue
            spec = spec_of(self.state, job)
            if job["begin"] > moment:
                job["reason"] = "BeginTime"
            elif (blocked := self._blocked(spec)) is not None:
                job["reason"] = blocked
            elif (why := late(self.state, spec, moment)) is not None:
                job["reason"] = why
            elif spec["throttle"] and running.get(job["array"], 0) >= spec["throttle"]:
                job["reason"] = "JobArrayTaskLimit"
            elif (nodes := self._place(spec, free)) is None:
                job["reason"] = "Resources"
            else:
                running[job["array"]] = running.get(job["array"], 0) + 1
                self._start(job, spec, nodes, free)

    def _blocked(self, spec: dict[str, Any]) -> str | None:
        """Why a dependency keeps a job from starting, None where it does not."""
        for part in [p for p in str(spec["options"].get("dependency", "")).replace("?", ",").split(",") if p]:
            kind, _, ids = part.partition(":")
            for wanted in [i for i in ids.split(":") if i]:
                jobs = [j for j in self.state["jobs"] if wanted in (str(j["raw"]), str(j["array"]), name_of(j))]
                if any(job["state"] in ("PENDING", "RUNNING", "COMPLETING") for job in jobs):
                    return "Dependency"
                good = all(job["state"] == "COMPLETED" for job in jobs)  # an unknown id counts as satisfied
                if (kind == "afterok" and not good) or (kind == "afternotok" and jobs and good):
                    return "DependencyNeverSatisfied"
        return None

    def _free(self) -> dict[str, list[int]]:
        """Node -> CPUs and GPUs that are free on it."""
        free = {
            name: [node["cpus"], node["gpus"]]
            for name, node in self.state["nodes"].items()
            if node["state"] in ("idle", "allocated", "mixed")
        }
        for job in self.state["jobs"]:
            if job["state"] in ("RUNNING", "COMPLETING"):
                spec = spec_of(self.state, job)
                for name in job["nodes"]:
                    if name in free:
                        free[name][0] -= spec["cpus"]
                        free[name][1] -= spec["gpus"]
        return free

    def _place(self, spec: dict[str, Any], free: dict[str, list[int]]) -> list[str] | None:
        excluded = set(str(spec["options"].get("exclude", "")).split(","))
        fitting = [
            name
            for name, (cpus, gpus) in free.items()
            if cpus >= spec["cpus"] and gpus >= spec["gpus"] and name not in excluded
        ]
        return fitting[: spec["nodes"]] if len(fitting) >= spec["nodes"] else None

    def _start(self, job: Job, spec: dict[str, Any], nodes: list[str], free: dict[str, list[int]]) -> None:
        if set(nodes) & set(self.state["switches"]["prolog_fails"]):
            for name in nodes:
                self.state["nodes"][name].update(state="drained", reason="Prolog error")
                free.pop(name, None)
            job.update(nodes=nodes, start=now(self.state))
            if spec["requeue"]:
                again(self.state, job, "NODE_FAIL", wait=False, held="launch failed requeued held")
            else:
                end_job(self.state, job, f"CANCELLED by {os.getuid()}", (0, 0))
            return
        if not job["split"]:
            siblings = [j for j in self.state["jobs"] if j["array"] == job["array"] and not j["split"]]
            if len(siblings) > 1:  # the one that is split off last keeps the array's own id
                job["raw"] = self.state["next_id"]
                self.state["next_id"] += 1
            job["split"] = True
        job.update(state="RUNNING", reason="None", nodes=nodes, start=now(self.state), warned=False)
        job["gpus"] = self._devices(spec["gpus"], nodes[0], job)
        for name in nodes:
            free[name][0] -= spec["cpus"]
            free[name][1] -= spec["gpus"]
        if self.state["switches"]["execute"]:
            self._execute(job, spec)

    def _devices(self, count: int, node: str, job: Job) -> list[int]:
        taken = {
            gpu
            for other in self.state["jobs"]
            if other is not job and other["state"] in ("RUNNING", "COMPLETING") and node in other["nodes"]
            for gpu in other["gpus"]
        }
        return [gpu for gpu in range(self.state["nodes"][node]["gpus"]) if gpu not in taken][:count]

    def _execute(self, job: Job, spec: dict[str, Any]) -> None:
        job["token"] = f"{job['raw']}.{job['restarts']}.{job['spec']}"
        env = {**spec["env"], **self.environment(job, spec)}
        options = spec["options"]
        output = self._path(options.get("output", "slurm-%j.out" if job["task"] is None else "slurm-%A_%a.out"), job)
        error = self._path(options["error"], job) if "error" in options else output
        chdir = options.get("chdir", spec["cwd"])
        folders = [Path(chdir), (Path(chdir) / output).parent, (Path(chdir) / error).parent]
        if not all(folder.is_dir() for folder in folders):
            job["token"] = ""
            end_job(self.state, job, "FAILED", (0, 53), "JobLaunchFailure")
            return
        control = self._store.directory / "bin" / "fakeslurm"
        append = options.get("open-mode", "truncate") == "append"
        processes.start(Path(spec["script"]), self.base(job["token"]), control, env, chdir, output, error, append)

    def _path(self, pattern: str, job: Job) -> str:
        array = job["array"] if job["array"] is not None else job["raw"]
        task = job["task"] if job["task"] is not None else 4294967294
        values = {"%%": "%", "%j": job["raw"], "%A": array, "%a": task, "%x": spec_of(self.state, job)["name"]}
        for mark, value in values.items():
            pattern = pattern.replace(mark, str(value))
        return pattern

    def environment(self, job: Job, spec: dict[str, Any]) -> dict[str, str]:
        """What a batch script sees, named as the real one names it."""
        nodes = ",".join(job["nodes"])
        env = {
            "SLURM_JOB_ID": job["raw"],
            "SLURM_JOBID": job["raw"],
            "SLURM_JOB_NAME": spec["name"],
            "SLURM_JOB_NODELIST": nodes,
            "SLURM_NODELIST": nodes,
            "SLURM_JOB_NUM_NODES": len(job["nodes"]),
            "SLURM_NNODES": len(job["nodes"]),
            "SLURM_CPUS_ON_NODE": spec["cpus"],
            "SLURM_JOB_CPUS_PER_NODE": spec["cpus"],
            "SLURM_TASKS_PER_NODE": spec["options"].get("ntasks-per-node", 1),
            "SLURM_JOB_PARTITION": spec["partition"],
            "SLURM_JOB_UID": os.getuid(),
            "SLURM_SUBMIT_DIR": spec["cwd"],
            "SLURM_CLUSTER_NAME": self.state["config"]["ClusterName"],
            "SLURM_NODEID": 0,
            "SLURM_PROCID": 0,
            "SLURM_LOCALID": 0,
            "SLURMD_NODENAME": job["nodes"][0],
            "FAKE_SLURM_RUN": self.base(job["token"]),
        }
        if "cpus-per-task" in spec["options"]:
            env["SLURM_CPUS_PER_TASK"] = spec["options"]["cpus-per-task"]
        if "mem" in spec["options"]:
            env["SLURM_MEM_PER_NODE"] = spec["memory"]
        if job["task"] is not None:
            env |= {"SLURM_ARRAY_JOB_ID": job["array"], "SLURM_ARRAY_TASK_ID": job["task"]}
        if job["restarts"]:
            env["SLURM_RESTART_COUNT"] = job["restarts"]
        if spec["gpus"]:
            devices = ",".join(map(str, job["gpus"]))
            env |= {"CUDA_VISIBLE_DEVICES": devices, "SLURM_JOB_GPUS": devices, "SLURM_GPUS_ON_NODE": spec["gpus"]}
        return {name: str(value) for name, value in env.items()}

    def elapsed(self, job: Job) -> str:
        end = job["end"] if job["end"] is not None else now(self.state)
        return duration(end - job["start"] if job["start"] is not None else 0)

    # Nodes

    def fail_node(self, name: str, *, processes_live: bool = False) -> None:
        """A node is gone. ``processes_live``: the network is cut and its jobs' old copies run on."""
        self.state["nodes"][name].update(state="down", reason="Not responding")
        for job in self.state["jobs"]:
            if job["state"] not in ("RUNNING", "COMPLETING") or name not in job["nodes"]:
                continue
            if job["token"] and processes_live:
                self.state["orphans"].append({"token": job["token"], "node": name})
            elif job["token"]:
                processes.kill(self.base(job["token"]))
            if spec_of(self.state, job)["requeue"]:
                again(self.state, job, "NODE_FAIL")
            else:
                end_job(self.state, job, "NODE_FAIL", (0, 0), "NodeDown")

    def return_node(self, name: str) -> None:
        """A node is back; what ran on unseen is ended."""
        self.state["nodes"][name].update(state="idle", reason="")
        for orphan in [o for o in self.state["orphans"] if o["node"] == name]:
            processes.kill(self.base(orphan["token"]))
            self.state["orphans"].remove(orphan)

    def preempt(self, job: Job) -> None:
        """A job of a higher partition takes its place."""
        mode = self.state["config"]["Partitions"].get(spec_of(self.state, job)["partition"], "REQUEUE")
        again_ = mode != "CANCEL" and spec_of(self.state, job)["requeue"]
        self.stop(job, {"word": "PREEMPTED", "requeue": again_})
