"""Site profiles: how one site wants to be asked, as YAML outside the project (docs/slurm.md).

``$ORCHESTRATE_SITE`` is a path or a name; a name is ``~/.config/orchestrate/sites/<name>.yaml`` (``$XDG_CONFIG_HOME``).
Without it, ``default`` if there is such a file, else nothing is asked for that Slurm does not give by itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from cluster.backend import PermanentError

SITE = "ORCHESTRATE_SITE"
OWNED = frozenset(
    {
        "array", "job-name", "comment", "output", "error", "open-mode", "signal", "requeue", "no-requeue", "wrap",
        "parsable", "dependency", "chdir", "export", "export-file", "hold", "wait", "test-only", "wait-all-nodes",
        "input", "kill-on-invalid-dep", "ntasks", "ntasks-per-node", "nodes", "cpus-per-task", "get-user-env", "quiet",
        "tasks-per-node", "workdir", "help", "usage", "version",
    }
)  # fmt: skip
"""sbatch options that we set ourselves, or that would change what we count on."""
OURS_IS = {"time": "minutes", "mem": "memory_mb"}
"""sbatch options that a profile has a key of its own for, since what is proposed depends on them."""


def owned(option: str) -> bool:
    """Whether sbatch would take this long option for one of ours: it understands beginnings as well."""
    return len(option) > 1 and any(name.startswith(option) for name in OWNED)


class Profile(BaseModel):
    """One site. Every field has a value that asks for nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    exclude: str | None = None
    reservation: str | None = None
    gpus_as: Literal["gres", "gpus-per-node"] = "gres"
    """How GPUs are asked for: ``--gres=gpu:N`` or ``--gpus-per-node=N``."""
    gpu_type: str | None = None
    """``a100`` in ``--gres=gpu:a100:4``."""
    minutes: int | None = None
    """Time limit where a run names none and nothing was measured, and the most that is proposed; None: the partition's
    default and its MaxTime."""
    memory_mb: int | None = None
    """Memory a node where a run names none; None: the site's default."""
    container: tuple[str, ...] | str | None = None
    """Words before the command: ``apptainer exec --nv image.sif``. The batch shell stays outside."""
    python: str | None = None
    """Interpreter on the nodes (inside the container); default: the one that runs us."""
    modules: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    """Shell lines before the command."""
    srun: tuple[str, ...] = ()
    """Further words for srun, in jobs of several processes."""
    lead_s: int = 120
    """Seconds before the time limit at which the job is warned (USR2), at least: measured saves may need more."""
    group_readable: bool = False
    """Whatever umask the login has: in jobs (027), and in loops and requests (``share_files``)."""
    looks_per_minute: float = 4.0
    """squeue and sacct together."""
    max_queued: int = 8000
    sbatch: dict[str, str | int | bool] = {}
    """Any other sbatch option, passed through as it stands."""


def load_profile(name: str | None = None, environ: Mapping[str, str] = os.environ) -> Profile:
    """The profile of a site: a path, a name, or what ``$ORCHESTRATE_SITE`` says.

    Raises:
        PermanentError: there is no such file, or it holds mistakes; all of them are named, with their lines.
    """
    folder = Path(environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "orchestrate" / "sites"
    wanted = name or environ.get(SITE)
    if wanted is None:
        path = folder / "default.yaml"
        return read_profile(path) if path.exists() else Profile()
    path = Path(wanted) if "/" in wanted or wanted.endswith((".yaml", ".yml")) else folder / f"{wanted}.yaml"
    if not path.exists():
        there = sorted(file.stem for file in folder.glob("*.yaml"))
        raise PermanentError(f"no site profile {path}; there are: {', '.join(there) or f'none in {folder}'}")
    return read_profile(path)


def read_profile(path: Path) -> Profile:
    """See ``load_profile``."""
    import yaml

    text = path.read_text()
    try:
        node = yaml.compose(text)
        data = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise PermanentError(f"{path}: {error}") from error
    if not isinstance(data, dict) or (node is not None and not isinstance(node, yaml.MappingNode)):
        raise PermanentError(f"{path}: a site profile is a mapping of names to values")
    lines: dict[str, int] = {}
    mistakes: list[str] = []
    for key, _ in node.value if node is not None else ():
        if key.value in lines:
            mistakes.append(f"line {key.start_mark.line + 1}: {key.value} stands here a second time")
        lines[key.value] = key.start_mark.line + 1
    below = data.pop("sbatch", None) or {}
    if not isinstance(below, dict):
        mistakes.append(f"line {lines['sbatch']}: sbatch is a mapping of options to values")
    passed = dict(below) if isinstance(below, dict) else {}
    for key in [key for key in data if key not in Profile.model_fields]:
        # Unknown keys are sbatch options that we have no opinion about.
        value = data.pop(key)
        close = get_close_matches(str(key), Profile.model_fields, 1, 0.85)
        if close:
            mistakes.append(f"line {lines.get(key, '?')}: {key} is unknown; did you mean {close[0]}?")
        passed[str(key)] = value
    for key in passed:
        option = str(key).replace("_", "-").removeprefix("--")
        line = f"line {lines.get(str(key), lines.get('sbatch', '?'))}"
        if owned(option):
            mistakes.append(f"{line}: {key} is set by the orchestrator itself")
        elif option in OURS_IS:
            mistakes.append(f"{line}: {key} is {OURS_IS[option]} here")
        elif not re.fullmatch(r"[a-z][a-z0-9-]+", option):
            mistakes.append(f"{line}: {key} is no sbatch option (its long name is asked for)")
    for name in ("modules", "setup", "srun", "container"):
        if isinstance(data.get(name), list):
            data[name] = tuple(str(item) for item in data[name])
    profile = None
    try:
        profile = Profile.model_validate({**data, "sbatch": {str(k): v for k, v in passed.items()}})
    except ValidationError as error:
        for item in error.errors():
            where = str(item["loc"][0]) if item["loc"] else ""
            mistakes.append(f"line {lines.get(where, '?')}: {'.'.join(map(str, item['loc']))}: {item['msg']}")
    if mistakes or profile is None:
        raise PermanentError(f"{path}:\n  " + "\n  ".join(mistakes))
    return profile


def share_files(profile: Profile) -> None:
    """Where the profile says so, let the group read what this process makes, whatever the login's umask."""
    if profile.group_readable:
        before = os.umask(0o077)
        os.umask(before & ~0o050)


def sbatch_options(profile: Profile) -> dict[str, Any]:
    """The passed-through options under their sbatch names."""
    return {key.replace("_", "-").removeprefix("--"): value for key, value in profile.sbatch.items()}
