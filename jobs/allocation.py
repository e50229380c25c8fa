"""What the job that we run in was found to have, by the shim that started us."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

VARIABLE = "ORCHESTRATE_ALLOCATION"


def given(environ: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """``{"allocation": {...}}``: cores, binding, devices, limits (``cluster.slurm.node``); {} where nobody looked."""
    said = environ.get(VARIABLE)
    return {"allocation": json.loads(said)} if said else {}
