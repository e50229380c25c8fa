"""Leaving the loop behind as a process of its own, for `--detach`."""

from __future__ import annotations

import os
import subprocess
import sys

import click

from jobs.workspace import Workspace
from orchestrator.cli.common import prefix


def detach_watch(ctx: click.Context, space: Workspace, sweep: str, backend: str, max_in_flight: int | None) -> None:
    """Start `orchestrate watch SWEEP --report` in a session of its own; it outlives the terminal."""
    argv = [sys.executable, "-P", "-m", "orchestrator.cli", "--root", str(space.root)]
    argv += ["watch", sweep, "--report", "--backend", backend]
    if max_in_flight:
        argv += ["--max-in-flight", str(max_in_flight)]
    log = space.sweep(sweep) / "watch.log"
    with open(log, "ab") as output:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd=os.fspath(space.root),
        )
    click.echo(f"{sweep} runs in the background (process {process.pid}); its log is {log}")
    click.echo(f"Next: orchestrate {prefix(space)}status {sweep}")
