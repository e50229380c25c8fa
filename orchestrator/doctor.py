"""Looking a workspace and an installation over, and rebuilding what is disposable."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jobs.checkpoint import list_checkpoints
from jobs.workspace import Workspace
from orchestrator.board import Board
from orchestrator.bookkeeping import Ledger, open_index
from orchestrator.clock import host_clock
from orchestrator.desired import read_desired, sweep_names
from orchestrator.errors import OrchestratorError
from orchestrator.index import Index, discard, filesystem_of, refuse_network
from orchestrator.policy import default_policy
from orchestrator.requests import Wishes
from orchestrator.snapshot import package_folders
from orchestrator.waiting import Outlook, waiting
from orchestrator.workspace_id import workspace_id

LOW_DISK = 5e9
"""Bytes; below that the doctor says so."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. ``level``: ok, warning or error; ``advice`` says what to do where it is not ok."""

    level: str
    what: str
    advice: str = ""


def examine(space: Workspace, *, verify: bool = False, backend: str | None = None) -> Iterator[Finding]:
    """Look at everything that can be looked at without launching anything.

    Args:
        verify: also read every checkpoint and compare its bytes with its manifest.
        backend: also ask this backend's site what will not work there ("slurm"; others have nothing to say).
    """
    yield Finding("ok", f"Python {sys.version.split()[0]}")
    yield from _packages()
    yield from _root(space)
    yield _index(space)
    if space.sweeps.is_dir():
        yield from _plans(space)
    if verify:
        yield from _checkpoints(space)
    if backend == "slurm":
        yield from _slurm(space)


def _slurm(space: Workspace) -> Iterator[Finding]:
    from cluster.slurm.probe import probe
    from cluster.slurm.profile import load_profile

    for finding in probe(space.root, load_profile(None)):
        yield Finding(finding.level, finding.what, finding.advice)


def rebuild(space: Workspace) -> int:
    """Throw this host's index away and read every fact again. Returns how many packs were read."""
    discard(space.index)
    index = open_index(space)
    try:
        wishes = Wishes(space)
        policy = default_policy("local")
        board = Board(space, read_desired(space), policy, wishes.of)
        ledger = Ledger(index)
        ledger.restore(board, wishes, policy)
        now = host_clock()()
        launched = [pack for pack in board.order if space.attempts(pack)]
        for pack in launched:
            board.take_up(pack, now)
        ledger.write(board, wishes, frozenset(), now, policy, Outlook(waiting(board)))
        return len(launched)
    finally:
        index.close()


def _packages() -> Iterator[Finding]:
    """Our generic names (`models`, `jobs`) must be ours, and all six must come from one tree."""
    try:
        folders = package_folders()
    except OrchestratorError as error:
        yield Finding("error", str(error), "reinstall the project in an environment of its own")
        return
    roots = {folder.parent for folder in folders.values()}
    if len(roots) > 1:
        yield Finding("error", f"packages come from several trees: {', '.join(map(str, sorted(roots)))}", "reinstall")
    else:
        yield Finding("ok", f"packages from {roots.pop()}")
    here = [name for name in folders if (Path.cwd() / name).is_dir() and Path.cwd() / name != folders[name]]
    if here and not sys.flags.safe_path:
        advice = "harmless for jobs (they run with -P), but run the command from another folder"
        yield Finding("warning", f"this folder has its own {', '.join(here)}", advice)
    for name in ("torch", "submitit", "mlflow-skinny", "pyarrow"):
        try:
            yield Finding("ok", f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            yield Finding("error", f"{name} is not installed", "pip install the project again")


def _root(space: Workspace) -> Iterator[Finding]:
    root = space.root
    if not root.exists():
        yield Finding("warning", f"{root} does not exist yet", "the first `orchestrate sweep FILE` makes it")
        return
    probe = root / f".doctor-{uuid.uuid4().hex}"
    try:
        probe.write_bytes(b"x" * 4096)
        linked = probe.with_name(probe.name + "-link")
        os.link(probe, linked)
        linked.unlink()
        yield Finding("ok", f"{root} takes files and hard links ({filesystem_of(root) or 'unknown file system'})")
    except OSError as error:
        yield Finding("error", f"{root}: {error.strerror}", "the workspace needs a writable folder with hard links")
    finally:
        probe.unlink(missing_ok=True)
    usage = shutil.disk_usage(root)
    level = "ok" if usage.free > LOW_DISK else "warning"
    yield Finding(level, f"{usage.free / 1e9:.1f} GB free", "" if level == "ok" else "make room before a large sweep")
    inodes = os.statvfs(root)
    if inodes.f_files and inodes.f_favail < 0.02 * inodes.f_files:
        yield Finding("warning", f"{inodes.f_favail} inodes free", "delete files, not only bytes")


def _index(space: Workspace) -> Finding:
    try:
        refuse_network(space.index)
        index = Index(space.index, write=False, identity=workspace_id(space))
    except OrchestratorError as error:
        return Finding("error", str(error))
    except FileNotFoundError:
        return Finding("ok", "no index on this host (a loop makes one)")
    index.close()
    return Finding("ok", f"index {space.index}")


def _plans(space: Workspace) -> Iterator[Finding]:
    for name in sweep_names(space):
        try:
            desired = read_desired(space, [name])
        except (OrchestratorError, ValueError, KeyError) as error:
            yield Finding("error", f"plan of {name}: {error}", f"plan it again: orchestrate sweep ... ({name})")
            continue
        yield Finding("ok", f"{name}: {len(desired.runs_of[name])} runs in {len(desired.packs)} packs")


def _checkpoints(space: Workspace) -> Iterator[Finding]:
    broken = whole = 0
    for pack in read_desired(space).packs:
        for checkpoint in list_checkpoints(space.pack(pack)):
            if checkpoint.complete:
                whole += 1
                continue
            broken += 1
            yield Finding("warning", f"{checkpoint.path}: {checkpoint.verdict}", "the one before it will be used")
    yield Finding("ok", f"{whole} whole checkpoints, {broken} broken")
