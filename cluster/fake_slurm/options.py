"""What sbatch understands: options of the command line and of ``#SBATCH`` lines, arrays, durations."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

SHORT = {
    "J": "job-name", "a": "array", "o": "output", "e": "error", "t": "time", "p": "partition", "A": "account",
    "q": "qos", "c": "cpus-per-task", "N": "nodes", "n": "ntasks", "d": "dependency", "D": "chdir", "H": "hold",
    "C": "constraint", "x": "exclude", "w": "nodelist", "G": "gpus",
}  # fmt: skip
FLAGS = frozenset({"parsable", "hold", "requeue", "no-requeue", "exclusive", "test-only", "overcommit", "quiet"})
VALUES = frozenset(SHORT.values()) - FLAGS | frozenset({
    "comment", "open-mode", "signal", "mem", "mem-per-cpu", "mem-per-gpu", "gres", "gpus-per-node", "gpus-per-task",
    "cpus-per-gpu", "ntasks-per-node", "wrap", "export", "begin", "wckey", "mail-type", "mail-user", "deadline",
    "kill-on-invalid-dep", "reservation", "licenses", "nice", "tmp", "priority", "exclusive", "container", "prefer",
    "cpus-per-task", "distribution", "switches", "threads-per-core", "hint", "get-user-env", "clusters",
})  # fmt: skip


class Refusal(Exception):
    """What the command says on stderr, and its exit status."""

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.code = code


def parse(words: Sequence[str], program: str = "sbatch") -> tuple[dict[str, Any], list[str]]:
    """Options and what stands after them (the script and its arguments).

    Raises:
        Refusal: an option that does not exist or has no value.
    """
    options: dict[str, Any] = {}
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word.startswith("--"):
            name, given, value = word[2:].partition("=")
        else:
            name, value = SHORT.get(word[1], ""), word[2:]
            given = "=" if value else ""
        if name in FLAGS and not given:
            options[name] = True
        elif name in VALUES:
            if not given and not rest:
                raise Refusal(f"{program}: option '{word}' requires an argument")
            options[name] = value if given else rest.pop(0)
        else:
            raise Refusal(
                f"{program}: unrecognized option '{word}'\nTry \"{program} --help\" for more information", 255
            )
    return options, rest


def script_options(text: str) -> dict[str, Any]:
    """Options of the ``#SBATCH`` lines, which end at the first command."""
    options: dict[str, Any] = {}
    for line in text.splitlines():
        if line.startswith("#SBATCH"):
            options |= parse(shlex.split(line[len("#SBATCH") :], comments=True))[0]
        elif line.strip() and not line.startswith("#"):
            break
    return options


def array_tasks(text: str, limit: int) -> tuple[list[int], int | None]:
    """``0-9:2,12%4`` -> the indices and the throttle.

    Raises:
        Refusal: nonsense, or an index that the site does not allow.
    """
    spec, _, throttle = text.partition("%")
    tasks: set[int] = set()
    for part in spec.split(","):
        found = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", part)
        if found is None:
            raise Refusal("sbatch: error: Batch job submission failed: Invalid job array specification")
        first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
        if last >= limit:
            raise Refusal("sbatch: error: Batch job submission failed: Invalid job array specification")
        tasks.update(range(first, last + 1, step))
    return sorted(tasks), int(throttle) if throttle else None


def seconds(text: str) -> float:
    """``minutes``, ``minutes:seconds``, ``hours:minutes:seconds``, ``days-hours[:minutes[:seconds]]``; 0: no limit.

    Raises:
        Refusal: anything else.
    """
    days, dash, rest = text.rpartition("-")
    parts = rest.split(":")
    if not all(part.isdigit() for part in parts) or len(parts) > 3 or (dash and not days.isdigit()):
        raise Refusal("sbatch: error: Invalid --time specification", 255)
    numbers = [int(part) for part in parts]
    if dash:
        hours, minutes, secs = (*numbers, 0, 0)[:3]
        return float(int(days) * 86400 + hours * 3600 + minutes * 60 + secs)
    if len(numbers) == 3:
        return float(numbers[0] * 3600 + numbers[1] * 60 + numbers[2])
    return float(numbers[0] * 60 + (numbers[1] if len(numbers) == 2 else 0))


def duration(total: float | None) -> str:
    """As Slurm prints durations in squeue: ``1:02:03``, ``0:07``, ``2-00:00:00``."""
    if not total:
        return "0:00"
    days, rest = divmod(int(total), 86400)
    hours, rest = divmod(rest, 3600)
    minutes, secs = divmod(rest, 60)
    if days:
        return f"{days}-{hours:02d}:{minutes:02d}:{secs:02d}"
    return f"{hours}:{minutes:02d}:{secs:02d}" if hours else f"{minutes}:{secs:02d}"


def minutes(limit: float | None) -> str:
    """A time limit as scontrol prints that of a partition: ``1-02:30:00``, ``UNLIMITED``."""
    if limit is None:
        return "UNLIMITED"
    days, rest = divmod(int(limit * 60), 86400)
    return (f"{days}-" if days else "") + f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"


def gpus_of(options: dict[str, Any]) -> int:
    """GPUs a node, from whichever option names them."""
    text = str(options.get("gpus-per-node") or options.get("gpus") or "")
    if not text and str(options.get("gres", "")).startswith("gpu"):
        text = options["gres"].removeprefix("gpu").lstrip(":") or "1"
    return int(text.rpartition(":")[2]) if text else 0
