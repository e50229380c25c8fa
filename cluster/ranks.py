"""A command that is several processes (ranks): what each of them is told, and which of them failed first. Standard
library only, because the shim uses it on every node.

The variables are torch's: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster.ports import free_port

PEER_LOST = 82
"""Exit code of a rank that left because another one is gone: it says nothing about why."""
ORDERLY = (0, 75, 76)
"""Exit codes that all ranks leave with together, at one step boundary."""
WAIT_S = 10.0
"""After a rank has failed, the others have so long to notice and leave."""


def path_of(path: str, rank: int) -> str:
    """Where rank ``rank`` writes what rank 0 writes at ``path``."""
    return f"{path}.rank{rank}" if rank else path


def share(devices: Sequence[str], processes: int, index: int) -> list[str]:
    """The devices of process ``index`` of ``processes``: a slice of what was given, never more than that. With fewer
    devices than processes, neighbours share one."""
    if not devices:
        return []
    if processes >= len(devices):
        return [devices[index * len(devices) // processes]]
    each, rest = divmod(len(devices), processes)
    begin = index * each + min(index, rest)
    return list(devices[begin : begin + each + (index < rest)])


def own_devices(environ: Mapping[str, str], processes: int, local: int) -> dict[str, str]:
    """Variables that show a process its own devices alone; torch then counts them from 0."""
    devices = environ.get("CUDA_VISIBLE_DEVICES")
    if not devices:
        return {}
    mine = ",".join(share(devices.split(","), processes, local))
    return {"CUDA_VISIBLE_DEVICES": mine, "LOCAL_RANK": "0", "ORCHESTRATE_LOCAL_RANK": str(local)}


def local_environments(size: int, environ: Mapping[str, str]) -> list[dict[str, str]]:
    """What tells ``size`` processes of this machine who they are; nothing where there is one."""
    if size == 1:
        return [{}]
    port = str(free_port())
    return [
        {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(size),
            "LOCAL_WORLD_SIZE": str(size),
            "GROUP_RANK": "0",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            **own_devices(environ, size, rank),
        }
        for rank in range(size)
    ]


def first_to_fail(ends: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """(rank, how) of the end that explains the others; ``how`` is an exit code, or minus the signal's number.

    Args:
        ends: in the order in which they came.
    """
    bad = [end for end in ends if end[1] not in ORDERLY]
    return next((end for end in bad if end[1] != PEER_LOST), bad[0] if bad else None)


def explained(
    ended: Mapping[str, Any], record: str, size: int, token: str, patience_s: float = WAIT_S
) -> dict[str, Any]:
    """How rank 0 ended, or, where it left because another rank was gone, how that one did.

    Every rank's shim leaves a record; those of other nodes may take a moment to be seen here, and that of a node that
    died never comes. The order of ends on several machines is nobody's to know: of several the earliest by their own
    clocks is taken.

    Args:
        record: path of rank 0's.
    """
    if ended["code"] != PEER_LOST:
        return {**ended, "ranks": size}
    missing = set(range(1, size))
    found: list[tuple[float, int, int]] = []
    hosts: dict[int, str] = {}
    end = time.monotonic() + patience_s
    while missing:
        for rank in sorted(missing):
            try:
                other = json.loads(Path(path_of(record, rank)).read_bytes())
            except (FileNotFoundError, json.JSONDecodeError):
                continue
            missing.discard(rank)
            if other.get("job") == token:
                how = other["code"] if other["code"] is not None else -other["signal"]
                found.append((other["time"], rank, how))
                hosts[rank] = other.get("host", "")
        if missing and time.monotonic() >= end:
            break
        if missing:
            time.sleep(0.05)
    said = {**ended, "ranks": size, "silent": sorted(missing)}
    first = first_to_fail([(rank, how) for _, rank, how in sorted(found)])
    if first is None or first[1] == PEER_LOST:
        return said
    code = first[1]
    said |= {"rank": first[0], "failed_on": hosts[first[0]]}
    return {**said, "code": code if code >= 0 else None, "signal": -code if code < 0 else None}
