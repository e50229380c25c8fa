"""What an attempt is launched with: ``launch.json`` for its worker, a request for its backend."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from cluster.backend import LaunchRequest, Needs, Resources
from cluster.command import UNBLOCKS
from jobs.attempt import CODE_VARIABLE
from jobs.launch import Launch as LaunchFile
from jobs.launch import Member, ResolvedInput, read_launch
from orchestrator.board import Board
from orchestrator.decide import Launch
from orchestrator.desired import DesiredPack
from orchestrator.history import AttemptView, job_name


def launch_file(action: Launch, board: Board, code: str, settings: Mapping[str, Any]) -> LaunchFile:
    """``launch.json`` of an attempt: all that its worker needs, inputs looked up.

    Args:
        code: tree hash of the snapshot to run, "" for the installed packages.
        settings: goes before the plan's own ``Launch.settings``.
    """
    pack = board.desired.packs[action.pack]
    configs: list[dict[str, Any]] = []
    index: dict[int, int] = {}
    members = []
    for run in pack.runs:
        desired = board.desired.runs[run]
        if id(desired.cell) not in index:
            index[id(desired.cell)] = len(configs)
            configs.append(dict(desired.cell.config))
        inputs = {
            name: resolved
            for name, ref in desired.inputs.items()
            if (resolved := _resolve(ref.run, ref.product, board)) is not None
        }
        members.append(
            Member(
                run=run,
                config=index[id(desired.cell)],
                seed=desired.seed,
                inputs=inputs,
                done=run in action.masked,
            )
        )
    known = {name: value for name, value in pack.execution.items() if name in LaunchFile.model_fields}
    merged = {**pack.execution.get("settings", {}), **settings}
    beat = board.policy.probe_heartbeat_s
    if beat is not None and board.policy.probe and pack.shape not in board.proven:
        merged.setdefault("heartbeat_s", beat)  # others wait for its first step
    return LaunchFile.model_validate(
        {
            **known,
            "pack": pack.id,
            "attempt": action.attempt,
            "name": job_name(pack.id, action.attempt),
            "runner": board.desired.runs[pack.runs[0]].cell.runner,
            "members": members,
            "configs": configs,
            "root": str(board.workspace.root.absolute()),
            "code": code,
            "fresh_after": action.fresh_after,
            "threads": threads_of(pack),
            "settings": merged,
        }
    )


def _resolve(run: str, product: str, board: Board) -> ResolvedInput | None:
    """Where a completed run's product lies; None where there is none (its consumer is masked, or will say so)."""
    verdict = board.ended.get(run)
    if verdict is None or verdict.end is None or product not in verdict.end.products:
        return None
    relative, sha256 = verdict.end.products[product]
    place = board.workspace.attempt(board.desired.pack_of[run], verdict.attempt)
    path = (place.path / relative).relative_to(board.workspace.root)
    return ResolvedInput(run=run, product=product, path=str(path), sha256=sha256)


def job_request(pack: str, view: AttemptView, board: Board, resources: Resources) -> LaunchRequest:
    """What a backend is asked to start for a launched attempt, whoever launched it."""
    desired = board.desired.packs[pack]
    place = board.workspace.attempt(pack, view.number)
    threads = str(threads_of(desired))
    env = {UNBLOCKS: "1", "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    if code := read_launch(place.launch).code:
        folder = str((board.workspace.code / code).absolute())
        env |= {"PYTHONPATH": folder, CODE_VARIABLE: folder}
    return LaunchRequest(
        name=view.name,
        argv=(sys.executable, "-P", "-m", "jobs.worker", os.path.abspath(place.path)),
        cwd=os.path.abspath(place.path),
        log=os.path.abspath(place.log),
        record=os.path.abspath(place.exit),
        env=env,
        resources=resources,
    )


_RESOURCES = ("cpus", "gpus", "memory_mb", "nodes", "processes", "minutes")


def resources_of(pack: DesiredPack, avoid: Sequence[str] = ()) -> Resources:
    """What the plan says a pack needs. ``avoid``: machines on which it came to grief, under the name that Slurm has for
    that."""
    return asked_for(pack.resources, avoid)


def asked_for(resources: Mapping[str, Any], avoid: Sequence[str] = (), needs: Needs | None = None) -> Resources:
    """A plan's ``resources``; what stands under ``extra`` is passed through."""
    own = {name: value for name, value in resources.items() if name in _RESOURCES}
    extra = dict(resources.get("extra", {}))
    if avoid:
        extra["exclude"] = ",".join([*([extra["exclude"]] if "exclude" in extra else []), *avoid])
    return Resources(**own, extra=tuple(sorted(extra.items())), needs=needs)


def threads_of(pack: DesiredPack) -> int:
    """Threads of each of its processes: said outright, else one a core."""
    resources = resources_of(pack)
    return int(pack.execution.get("threads", max(1, resources.cpus // resources.ranks_a_node)))
