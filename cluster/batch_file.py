"""``batch.json``: one hand-over to a scheduler, as the intent that is written before the effect.

    {"batch": "<id>", "entries": {"0": {"name", "argv", "env", "cwd", "log", "record", "claim", "cpus", "gpus"}, ...}}

and "ranks" where the command is several processes. The key of an entry is its array index. One entry is one attempt:
all that the shim must know lies in it. Standard library only, because the shim reads it on every node.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster.backend import LaunchRequest, PermanentError

BATCH_FILE = "batch.json"
ANSWER_FILE = "answer.json"


def batch_payload(batch: str, requests: Sequence[LaunchRequest], claims: Sequence[str] | None = None) -> dict[str, Any]:
    """The JSON of a batch.

    ``claims[i]`` is the path of the file in which the command of request i records which job executes it (a JSON
    object with the job's token under "job"); "" where commands do not claim.
    """
    claims = claims or [""] * len(requests)
    return {
        "batch": batch,
        "entries": {
            str(index): {
                "name": request.name,
                "argv": list(request.argv),
                "env": dict(request.env),
                "cwd": request.cwd,
                "log": request.log,
                "record": request.record,
                "claim": claim,
                "cpus": request.resources.cpus,
                "gpus": request.resources.gpus,
                **({"memory_mb": mb} if (mb := request.resources.memory_mb) else {}),
                **({"ranks": request.resources.ranks} if request.resources.ranks > 1 else {}),
            }
            for index, (request, claim) in enumerate(zip(requests, claims, strict=True))
        },
    }


def read_entry(path: Path, index: int) -> Mapping[str, Any]:
    """Entry ``index`` of the batch file at ``path``.

    Raises:
        PermanentError: there is no such file or no such index; running anything else would be a guess.
    """
    try:
        entries = json.loads(path.read_bytes())["entries"]
    except FileNotFoundError as error:
        raise PermanentError(f"{path}: no such batch file") from error
    if str(index) not in entries:
        raise PermanentError(f"{path} has no index {index}; it holds 0 to {len(entries) - 1}")
    return entries[str(index)]
