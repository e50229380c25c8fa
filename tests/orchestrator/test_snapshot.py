"""The snapshot: same code, same hash, copied once, and what the nodes import."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from jobs.workspace import Workspace
from orchestrator.snapshot import PACKAGES, package_folders, take_snapshot, tree_hash


@pytest.fixture
def packages(tmp_path: Path) -> dict[str, Path]:
    folders = {}
    for name in ("one", "two"):
        folders[name] = tmp_path / "source" / name
        (folders[name] / "inner").mkdir(parents=True)
        (folders[name] / "__init__.py").write_text(f'"""{name}"""\n')
        (folders[name] / "inner" / "data.yaml").write_text("a: 1\n")
    return folders


def test_the_hash_is_of_names_and_contents(packages: dict[str, Path]) -> None:
    before = tree_hash(packages)
    os.utime(packages["one"] / "__init__.py", (0, 0))
    (packages["one"] / "__pycache__").mkdir()
    (packages["one"] / "__pycache__" / "x.pyc").write_bytes(b"1")
    (packages["one"] / ".hidden").write_text("1")
    assert tree_hash(packages) == before
    (packages["one"] / "inner" / "data.yaml").rename(packages["one"] / "inner" / "date.yaml")
    renamed = tree_hash(packages)
    (packages["one"] / "inner" / "date.yaml").write_text("a: 2\n")
    assert len({before, renamed, tree_hash(packages)}) == 3


def test_equal_code_is_copied_once(workspace: Workspace, packages: dict[str, Path]) -> None:
    first = take_snapshot(workspace, packages)
    marker = workspace.code / first / "one" / "__init__.py"
    stamp = marker.stat().st_mtime_ns
    assert take_snapshot(workspace, packages) == first
    assert marker.stat().st_mtime_ns == stamp
    assert (workspace.code / first / "two" / "inner" / "data.yaml").read_text() == "a: 1\n"
    (packages["two"] / "new.py").write_text("")
    assert take_snapshot(workspace, packages) != first
    assert sorted(p.name[0] != "." for p in workspace.code.iterdir()) == [True, True], "nothing half made is left"


def test_losing_the_race_to_copy_is_fine(
    workspace: Workspace, packages: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.rename

    def slow(source: Path, target: Path) -> None:
        if not Path(target).exists():
            monkeypatch.setattr(os, "rename", real)
            take_snapshot(workspace, packages)
        real(source, target)

    monkeypatch.setattr(os, "rename", slow)
    digest = take_snapshot(workspace, packages)
    assert [p.name for p in workspace.code.iterdir()] == [digest]


def test_nodes_import_all_six_from_it(workspace: Workspace, python: list[str]) -> None:
    digest = take_snapshot(workspace)
    folder = str(workspace.code / digest)
    code = f"import {', '.join(PACKAGES)}; print({' + chr(10) + '.join(f'{name}.__file__' for name in PACKAGES)})"
    env = {**os.environ, "PYTHONPATH": folder}
    done = subprocess.run([*python, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert all(line.startswith(folder) for line in done.stdout.split())
    assert set(package_folders()) == set(PACKAGES)
