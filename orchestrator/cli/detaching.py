"""Leaving the loop behind as a process of its own, for `--detach`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from jobs.workspace import Workspace
from orchestrator.cli.again import to_type
from orchestrator.cli.common import print_json
from orchestrator.workspace_id import ensure_workspace_id


def detach_watch(
    space: Workspace, sweep: str, backend: str, max_in_flight: int | None, *, as_json: bool = False
) -> None:
    """Start `orchestrate watch SWEEP --report` in a session of its own; it outlives the terminal."""
    _start(space, sweep, ["watch", sweep, "--report"], backend, max_in_flight, space.root, as_json)


def detach_sweep(
    space: Workspace,
    sweep: str,
    file: str,
    overrides: Sequence[str],
    backend: str,
    max_in_flight: int | None,
    *,
    as_json: bool = False,
) -> None:
    """Start `orchestrate sweep FILE --yes` in a session of its own: pilots that come first, then the study. The file is
    read again when the pilots have ended, so it stays where it is till then."""
    typed = ["sweep", file, *overrides, "--yes"]
    _start(space, sweep, typed, backend, max_in_flight, Path.cwd(), as_json)


def _start(
    space: Workspace,
    sweep: str,
    verb: Sequence[str],
    backend: str,
    max_in_flight: int | None,
    folder: Path,
    as_json: bool,
) -> None:
    argv = [sys.executable, "-P", "-m", "orchestrator.cli", "--root", str(space.root), *verb, "--backend", backend]
    if max_in_flight:
        argv += ["--max-in-flight", str(max_in_flight)]
    ensure_workspace_id(space)  # a folder with a log and no identity would be taken for somebody else's
    log = space.sweep(sweep) / "watch.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as output:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd=os.fspath(folder),
        )
    if as_json:
        print_json({"sweep": sweep, "process": process.pid, "log": str(log)})
        return
    click.echo(f"{sweep} runs in the background (process {process.pid}); its log is {log}")
    click.echo(f"Next: {to_type(space, 'status')}")
