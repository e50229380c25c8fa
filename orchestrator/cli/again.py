"""Lines that a person is to paste: the program as it was started, the workspace, and every option that was given."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import click
from click.core import ParameterSource

from cluster.batch_file import BATCH_FILE
from jobs.durable import read_json
from jobs.workspace import Workspace


def program() -> str:
    """``orchestrate``, or the path it was started by where the shell would not find it."""
    started = sys.argv[0]
    if Path(started).name == "orchestrate" and shutil.which("orchestrate") is None and os.access(started, os.X_OK):
        return shlex.quote(started)
    return "orchestrate"


def prefix(space: Workspace) -> str:
    """``--root X `` where the workspace is not the one that the bare command would take, "" where it is."""
    return "" if space.root == Path(os.environ.get("ORCHESTRATE_ROOT") or "runs").absolute() else _root(space)


def to_type(space: Workspace, *words: str) -> str:
    """A whole command for this workspace: ``orchestrate --root X status compat``."""
    return f"{program()} {prefix(space)}{shlex.join(words)}"


def typed(ctx: click.Context, space: Workspace, *, verb: str = "", without: Collection[str] = ()) -> str:
    """What was typed, as a line to paste: the verb of ``ctx`` with the arguments and options that were given.

    Args:
        verb: another verb with the same arguments and options.
        without: names of parameters to leave out, such as ``dry_run``.
    """
    given = [p for p in ctx.command.params if p.name not in without and _was_given(ctx, p)]
    options = [word for p in given if isinstance(p, click.Option) for word in _option(p, ctx.params[p.name or ""])]
    arguments = [word for p in given if isinstance(p, click.Argument) for word in _argument(ctx.params[p.name or ""])]
    return to_type(space, verb or ctx.info_name or "", *arguments, *options)


def watch_words(space: Workspace, *sweeps: str) -> tuple[str, ...]:
    """``watch SWEEP``, with the backend that this workspace's last jobs were handed to."""
    backend = last_backend(space)
    return ("watch", *sweeps, *(("--backend", backend) if backend not in ("", "local") else ()))


def last_backend(space: Workspace) -> str:
    """Of the newest submission; "" where there is none."""
    try:
        newest = max((entry.name for entry in os.scandir(space.submissions) if entry.name[0] != "."), default=None)
    except FileNotFoundError:
        return ""
    record = None if newest is None else read_json(space.submission(newest) / BATCH_FILE)
    return str((record or {}).get("backend", ""))


def _root(space: Workspace) -> str:
    return f"--root {shlex.quote(str(space.root))} "


def _was_given(ctx: click.Context, parameter: click.Parameter) -> bool:
    return ctx.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE


def _argument(value: object) -> Iterator[str]:
    yield from (str(word) for word in value) if isinstance(value, tuple) else (str(value),)


def _option(option: click.Option, value: object) -> Iterator[str]:
    name = max(option.opts, key=len)
    if option.is_flag:
        yield name if value else max(option.secondary_opts, key=len, default="")
    elif option.multiple and isinstance(value, tuple):
        for one in value:
            yield from (name, *_argument(one))
    else:
        yield from (name, *_argument(value))
