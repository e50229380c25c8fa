"""May this process carry out this attempt, and is everything there that it needs?"""

from __future__ import annotations

import hashlib
import os
import socket
import time
from importlib import import_module
from pathlib import Path

from jobs.durable import decide_file
from jobs.errors import JobError
from jobs.facts import Claimed
from jobs.launch import Launch
from jobs.runners import validate_config
from jobs.session import Member
from jobs.workspace import AttemptDir


def claim(attempt: AttemptDir, job: str) -> bool:
    """Link ``claimed.json``. False: another job has it, or the attempt is over."""
    if attempt.closed.exists():
        return False
    record = Claimed(time=time.time(), job=job, host=socket.gethostname(), pid=os.getpid())
    return decide_file(attempt.claimed, record.model_dump(mode="json"))


def check_code(code: str) -> None:
    """Raises JobError where ``jobs`` or ``models`` is not imported from the snapshot directory ``code``."""
    root = Path(code).resolve()
    for name in ("jobs", "models"):
        file = import_module(name).__file__
        if file is None or not Path(file).resolve().is_relative_to(root):
            raise JobError(f"package {name!r} was imported from {file}, not from the code snapshot {root}")


def resolve_members(launch: Launch) -> tuple[Member, ...]:
    """Typed configs and checked inputs.

    Raises:
        ValidationError: a config is not what its runner takes. JobError: an input is absent or another one.
    """
    configs = [validate_config(launch.runner, config) for config in launch.configs]
    members = []
    for member in launch.members:
        inputs = {name: Path(launch.root) / given.path for name, given in member.inputs.items()}
        for name, given in member.inputs.items():
            try:
                found = hashlib.sha256(inputs[name].read_bytes()).hexdigest()
            except FileNotFoundError:
                raise JobError(f"input {name!r} of run {member.run} is not at {inputs[name]}") from None
            if found != given.sha256:
                raise JobError(f"input {name!r} of run {member.run} ({inputs[name]}) is not the product it was made as")
        members.append(Member(member.run, member.seed, configs[member.config], inputs, member.done))
    return tuple(members)
