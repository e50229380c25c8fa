"""The batch script: what is asked for, and the shell around the shim. Pure.

The batch shell owns the requeue at a time limit: warned by USR2 it passes the signal on, and where the command leaves
with 75 ("checkpointed") it asks Slurm to queue the job again. A rank never does, and a container never has to.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cluster.backend import PermanentError, Resources
from cluster.batch_file import BATCH_FILE
from cluster.launch_shim import WARNING
from cluster.slurm.profile import Profile, owned, sbatch_options
from cluster.slurm.time_limit import LEAD

CHECKPOINTED = 75
PORT_CLASH = 79
PEERS_S = 30
"""Once a rank has ended, the others have so long to end too. Those that live notice by themselves that one is gone;
this is for those that do not."""
PREEMPTION_PATIENCE_S = 300

_SHELL = """\
asked= woken= child=
trap 'asked=limit; woken=1; [ -z "$child" ] || kill -{warning} "$child" 2>/dev/null' {warning}
trap 'asked=end; woken=1; [ -z "$child" ] || kill -TERM "$child" 2>/dev/null' TERM
{command} &
child=$!
[ "$asked" != limit ] || kill -{warning} "$child" 2>/dev/null
[ "$asked" != end ] || kill -TERM "$child" 2>/dev/null
code=
while [ -z "$code" ]; do
  woken=
  wait "$child"; got=$?
  [ -n "$woken" ] || code=$got
done
child=
early=$((128 + $(kill -l {warning})))  # the warning came before the shim could take it: nothing has begun
if [ "$asked" = limit ] && {{ [ "$code" = {checkpointed} ] || [ "$code" = "$early" ]; }}; then
  # Never by $SLURM_JOB_ID: that of one element is the array's own id, and means all of them.
  element="${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID"
  echo "batch shell: left before the time limit; asking Slurm to queue $element again" >&2
  if scontrol requeue "$element"; then sleep 60 & wait $!; fi
{preempted}fi
exit "$code"
"""
_PREEMPTED = """\
elif [ "$code" = {checkpointed} ] && [ -z "$asked" ]; then
  echo "batch shell: the step was told to leave and we were not: waiting for Slurm to preempt this job" >&2
  sleep {patience} & wait $!
"""


def parameters(resources: Resources, profile: Profile) -> dict[str, Any]:
    """submitit's parameters (``additional_parameters`` holds what it has no name for).

    Raises:
        PermanentError: ``resources.extra`` names an option that is ours to set.
    """
    each = resources.ranks_a_node
    found: dict[str, Any] = {
        "nodes": resources.nodes,
        "ntasks_per_node": each,
        "cpus_per_task": max(1, resources.cpus // each),
        "partition": profile.partition,
        "account": profile.account,
        "qos": profile.qos,
        "constraint": profile.constraint,
        "exclude": profile.exclude,
        "time": resources.minutes if resources.minutes is not None else profile.minutes,
        "wckey": None,
        "stderr_to_stdout": True,
        "use_srun": False,
    }
    memory = resources.memory_mb if resources.memory_mb is not None else profile.memory_mb
    if memory is not None:
        found["mem"] = f"{memory}M"
    if resources.gpus and profile.gpus_as == "gpus-per-node":
        found["gpus_per_node"] = f"{profile.gpu_type}:{resources.gpus}" if profile.gpu_type else resources.gpus
    elif resources.gpus:
        found["gres"] = f"gpu:{profile.gpu_type}:{resources.gpus}" if profile.gpu_type else f"gpu:{resources.gpus}"
    further = sbatch_options(profile)
    if "exclude" in further:  # passed through, and to be added to all the same
        found["exclude"] = ",".join(filter(None, (found["exclude"], str(further.pop("exclude")))))
    if profile.reservation is not None:
        further["reservation"] = profile.reservation
    for key, value in resources.extra:
        if key == LEAD:
            continue
        option = key.replace("_", "-").removeprefix("--")
        if owned(option):
            raise PermanentError(f"resource {key!r} is an sbatch option that the orchestrator sets itself")
        name = option.replace("-", "_")
        if name == "exclude" and found["exclude"]:
            found["exclude"] += f",{value}"
        elif name in found:
            found[name] = value
        else:
            further[option] = value
    # submitit prints False as a value; for sbatch an option that is off is one that is absent.
    found["additional_parameters"] = {key: value for key, value in further.items() if value is not False}
    return found


def own_options(directory: Path, first: int, count: int, lead_s: int) -> dict[str, Any]:
    """The sbatch options that a profile may not touch, but for name and comment (which submitit has names for)."""
    return {
        "array": f"0-{count - 1}",
        "output": str(directory / f"{first}-%a.out"),
        "open-mode": "append",
        "requeue": True,
        "signal": f"B:{WARNING}@{lead_s}",
    }


def launcher(profile: Profile) -> list[str]:
    """Words that start our Python on a node, inside the container where there is one."""
    container = shlex.split(profile.container) if isinstance(profile.container, str) else profile.container
    return [*(container or ()), profile.python or sys.executable, "-P"]


def command_line(directory: Path, first: int, resources: Resources, profile: Profile) -> str:
    """The shell words that start the shim (of every process) for the element at hand."""
    words = [*launcher(profile), "-m", "cluster.launch_shim", str(directory / BATCH_FILE)]
    line = f'{shlex.join(words)} "$(({first} + SLURM_ARRAY_TASK_ID))"'
    each = resources.ranks_a_node
    if resources.ranks == 1:
        return line
    step = [
        "srun",
        f"--ntasks={resources.ranks}",
        f"--ntasks-per-node={each}",
        f"--cpus-per-task={max(1, resources.cpus // each)}",
        "--kill-on-bad-exit=0",  # ranks that leave with 75 leave in order; the first of them must not kill the others
        f"--wait={PEERS_S}",
        *profile.srun,
    ]
    return f"{shlex.join(step)} {line}"


def body(directory: Path, first: int, resources: Resources, profile: Profile, env: Mapping[str, str]) -> str:
    """Everything after the ``#SBATCH`` lines and the profile's set-up."""
    lines = []
    if profile.group_readable:
        lines.append("umask 0027")
    if "PYTHONPATH" in env:  # the shim comes from the same snapshot as what it runs
        lines.append(f"export PYTHONPATH={shlex.quote(env['PYTHONPATH'])}")
    steps = resources.ranks > 1
    if steps:
        ask = shlex.join([*launcher(profile), "-m", "cluster.ports"])
        lines.append('export MASTER_ADDR="${SLURMD_NODENAME:-$(hostname)}"')
        lines.append(f'MASTER_PORT="$({ask})" || exit {PORT_CLASH}; export MASTER_PORT')
    preempted = _PREEMPTED.format(checkpointed=CHECKPOINTED, patience=PREEMPTION_PATIENCE_S) if steps else ""
    shell = _SHELL.format(
        command=command_line(directory, first, resources, profile),
        warning=WARNING,
        checkpointed=CHECKPOINTED,
        preempted=preempted,
    )
    return "\n".join([*lines, shell])


def setup_lines(profile: Profile) -> list[str]:
    """Modules, then the profile's own lines."""
    return [*(f"module load {shlex.quote(name)}" for name in profile.modules), *profile.setup]
