"""A frozen copy of our code under ``<root>/code/<tree hash>``: what the nodes run, however often the checkout changes.

Equal code has an equal hash and is copied once. The copy is compiled with it, so that no node does it again.
"""

from __future__ import annotations

import compileall
import hashlib
import os
import py_compile
import shutil
import uuid
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from jobs.workspace import Workspace
from orchestrator.errors import OrchestratorError

PACKAGES = ("cluster", "dashboards", "jobs", "models", "orchestrator", "sweeps")
HASH_DIGITS = 16


def package_folders() -> dict[str, Path]:
    """Where the six packages that this process would import lie. Raises OrchestratorError where one is missing."""
    folders = {}
    for name in PACKAGES:
        spec = find_spec(name)
        if spec is None or not spec.submodule_search_locations:
            raise OrchestratorError(f"package {name!r} cannot be found; install the project (`pip install -e .`)")
        folders[name] = Path(next(iter(spec.submodule_search_locations)))
    return folders


def _files(folder: Path) -> Iterator[Path]:
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.name.startswith(".") or entry.name == "__pycache__" or entry.name.endswith(".egg-info"):
            continue
        if entry.is_dir():
            yield from _files(Path(entry.path))
        elif not entry.name.endswith(".pyc"):
            yield Path(entry.path)


def tree_hash(folders: dict[str, Path]) -> str:
    """Hash over the names and contents of all files of the packages; times and owners do not count."""
    digest = hashlib.sha256()
    for name, folder in sorted(folders.items()):
        for path in _files(folder):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{name}/{path.relative_to(folder).as_posix()}\0{content}\n".encode())
    return digest.hexdigest()[:HASH_DIGITS]


def take_snapshot(workspace: Workspace, folders: dict[str, Path] | None = None) -> str:
    """Make sure that the code is in the workspace. Returns its tree hash, the name of its folder under ``code/``."""
    folders = folders or package_folders()
    digest = tree_hash(folders)
    target = workspace.code / digest
    if target.exists():
        return digest
    aside = workspace.code / f".{digest}.{uuid.uuid4().hex}"
    for name, folder in folders.items():
        for path in _files(folder):
            copy = aside / name / path.relative_to(folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
    compileall.compile_dir(aside, quiet=2, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    try:
        os.rename(aside, target)
    except OSError:
        shutil.rmtree(aside)  # another process was faster; its copy is the same
        if not target.exists():
            raise
    return digest
