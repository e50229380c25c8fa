"""On a node, before the command: which process of the job this is, what the job was given, and whether that is what was
asked for. Called by the launch shim inside Slurm jobs. Standard library only.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cluster.ranks import own_devices, path_of
from cluster.slurm.requeue import Attempt, Stop, last_attempt, moved_entry, read, take_over

FOREIGN_MB = 1024
"""More memory than this in use on a device that was given to us alone: somebody left something behind."""
ROUNDED = 0.98
"""Of the memory asked for so much may be missing: sites and kernels round."""
WRONG, DIRTY = 83, 84
FOLLOW_S = 120.0


def prepare(entry: Mapping[str, Any], environ: Mapping[str, str], token: str) -> dict[str, Any]:
    """The entry as this process is to run it.

    Raises:
        Stop: there is nothing to run here.
    """
    rank = int(environ.get("SLURM_PROCID", "0"))
    if int(environ.get("SLURM_RESTART_COUNT", "0") or 0) > 0:
        entry = take_over(entry, token) if rank == 0 else _follow(entry, token)
    ranks = int(entry.get("ranks", 1))
    env = rank_variables(environ) if ranks > 1 else {}
    got = allocation(environ)
    if rank == 0:
        _check({**entry, "ranks_here": env.get("LOCAL_WORLD_SIZE", 1)}, got, token)
    changed = {**entry, "env": {**env, **entry["env"], "ORCHESTRATE_ALLOCATION": json.dumps(got, sort_keys=True)}}
    if env:  # Slurm starts the ranks, a shim each
        changed |= {"ranks": 1, "peers": ranks} if rank == 0 else {"ranks": 1}
    if rank:  # rank 0 alone claims and records; the others keep what they say apart
        changed |= {name: path_of(entry[name], rank) for name in ("log", "record")} | {"claim": ""}
    return changed


def _follow(entry: Mapping[str, Any], token: str) -> dict[str, Any]:
    """What rank 0 of a restarted job goes on with."""
    if not entry["claim"]:
        return dict(entry)
    first = Path(entry["claim"]).parent
    end = time.monotonic() + FOLLOW_S
    while time.monotonic() < end:
        last = last_attempt(first)
        if last.closed is None:
            # What an earlier start of this job claimed is still to be closed by rank 0, which then goes on elsewhere.
            if last.claimed is None or last.claimed.get("job") == token:
                return moved_entry(entry, first, last.path)
        elif last.closed["outcome"] not in ("preempted", "lost"):
            raise Stop(f"{last.path.name} is over ({last.closed['outcome']}); nothing is left to do here")
        time.sleep(0.2)
    raise Stop("rank 0 did not go on")


def rank_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """torch's variables from the allocation; packed processes of a node share its devices out."""
    size = int(environ.get("SLURM_NTASKS") or environ.get("SLURM_STEP_NUM_TASKS") or 1)
    if size <= 1:
        return {}
    local = int(environ.get("SLURM_LOCALID", "0"))
    nodes = int(environ.get("SLURM_NNODES", "1"))
    here = max(1, size // nodes)
    variables = {
        "RANK": environ["SLURM_PROCID"],
        "LOCAL_RANK": str(local),
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(here),
        "GROUP_RANK": environ.get("SLURM_NODEID", "0"),
    }
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        if name in environ:
            variables[name] = environ[name]
    return variables | own_devices(environ, here, local)


def allocation(environ: Mapping[str, str]) -> dict[str, Any]:
    """What this job was given on this node, as far as it can be seen: flat JSON values."""
    devices = environ.get("CUDA_VISIBLE_DEVICES", "")
    got: dict[str, Any] = {
        "node": environ.get("SLURMD_NODENAME", ""),
        "job": environ.get("SLURM_JOB_ID", ""),
        "cpus_on_node": int(environ.get("SLURM_CPUS_ON_NODE", "0") or 0),
        "affinity": len(os.sched_getaffinity(0)),
        "machine_cpus": os.cpu_count() or 1,
        "gpus": len([d for d in devices.split(",") if d]),
        "devices": devices,
        "memory_mb": int(environ.get("SLURM_MEM_PER_NODE", "0") or 0),
        "memory_limit_mb": memory_limit_mb(),
        "open_files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "locked_kb": resource.getrlimit(resource.RLIMIT_MEMLOCK)[0],
    }
    return got


def memory_limit_mb() -> int | None:
    """The tightest memory limit of our cgroup (version 1 or 2), None where there is none to be seen."""
    limits = []
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "" or "memory" in controllers.split(","):
            root = Path("/sys/fs/cgroup" if controllers == "" else "/sys/fs/cgroup/memory")
            name = "memory.max" if controllers == "" else "memory.limit_in_bytes"
            place = root / path.lstrip("/")
            for folder in (place, *place.parents):
                try:
                    text = (folder / name).read_text().strip()
                except OSError:
                    continue
                if text.isdigit() and int(text) < 1 << 60:
                    limits.append(int(text) >> 20)
                if folder == root:
                    break
    return min(limits, default=None)


def differences(entry: Mapping[str, Any], got: Mapping[str, Any]) -> list[str]:
    """In what the job got less than was asked for."""
    wrong = []
    cpus = int(entry.get("cpus", 1))
    if got["cpus_on_node"] and got["cpus_on_node"] < cpus:
        wrong.append(f"{got['cpus_on_node']} CPUs instead of {cpus}")
    bound = max(1, cpus // int(entry.get("ranks_here", 1)))  # each process of the node is bound to its share
    if got["affinity"] < min(bound, got["machine_cpus"]):
        wrong.append(f"bound to {got['affinity']} cores instead of {bound}")
    if got["gpus"] < int(entry.get("gpus", 0)):
        wrong.append(f"{got['gpus']} GPUs ({got['devices'] or 'none'}) instead of {entry['gpus']}")
    memory = int(entry.get("memory_mb", 0))
    given = [mb for mb in (got.get("memory_mb"), got.get("memory_limit_mb")) if mb]  # 0 and None: nobody has said
    if given and min(given) < ROUNDED * memory:
        wrong.append(f"{min(given)} MB of memory instead of {memory}")
    return wrong


def foreign_memory_mb(devices: str) -> dict[str, int]:
    """Device -> megabytes in use on it before we began; empty where nvidia-smi is not there or does not answer."""
    tool = shutil.which("nvidia-smi")
    if tool is None or not devices:
        return {}
    query = [tool, "--query-gpu=index,memory.used", "--format=csv,noheader,nounits", f"--id={devices}"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    used = {}
    for line in done.stdout.splitlines():
        index, _, memory = line.partition(",")
        if memory.strip().isdigit():
            used[index.strip()] = int(memory)
    return used


def _check(entry: Mapping[str, Any], got: Mapping[str, Any], token: str) -> None:
    """Refuse an allocation that is not what was asked for: results would depend on it without a trace."""
    wrong = differences(entry, got)
    failure, code = "wrong_allocation", WRONG
    if not wrong and entry.get("gpus"):
        used = {device: memory for device, memory in foreign_memory_mb(got["devices"]).items() if memory > FOREIGN_MB}
        wrong = [f"device {device} holds {memory} MB that are not ours" for device, memory in used.items()]
        failure, code = "dirty_node", DIRTY
    if not wrong:
        return
    message = f"{got['node'] or 'this node'}: " + "; ".join(wrong)
    print(f"launch shim: {failure}: {message}", file=sys.stderr, flush=True)
    if entry["claim"]:
        attempt = Attempt.load(Path(entry["claim"]).parent)
        if attempt.claimed is None and read(attempt.path / "closed.json") is None:
            attempt.close("failed", failure, message, node=got["node"], allocation=dict(got), job=token)
    raise Stop(message, code)
