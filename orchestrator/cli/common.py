"""What several verbs share: finding a sweep by name, printing JSON, asking."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click
import orjson

from jobs.workspace import Workspace
from orchestrator.cli.again import to_type
from orchestrator.cli.main import Context
from orchestrator.exit_codes import Exit


def share_files(backend: str) -> None:
    """Files are group-readable where the site's profile says so; its mistakes are told where it is used."""
    if backend != "slurm":
        return
    from cluster.backend import PermanentError
    from cluster.slurm.profile import load_profile
    from cluster.slurm.profile import share_files as share

    with suppress(PermanentError):
        share(load_profile())


def _chosen(ctx: click.Context, parameter: click.Parameter, backend: str) -> str:
    share_files(backend)
    return backend


def backend_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--backend`` and ``--max-in-flight``, which mean the same on every backend."""
    command = click.option(
        "--max-in-flight",
        type=click.IntRange(1),
        envvar="ORCHESTRATE_MAX_IN_FLIGHT",
        help="Packs handed over and not ended at any time [$ORCHESTRATE_MAX_IN_FLIGHT]. "
        "Default: the CPUs of this machine, or the cluster's limits.",
    )(command)
    return click.option(
        "--backend",
        type=click.Choice(["local", "slurm"]),
        default="local",
        show_default=True,
        envvar="ORCHESTRATE_BACKEND",
        callback=_chosen,
        help="Where runs are carried out [$ORCHESTRATE_BACKEND].",
    )(command)


def selection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Arguments and options that choose runs, and the preview."""
    for decorate in (
        click.option("-y", "--yes", is_flag=True, envvar="ORCHESTRATE_YES", help="Ask nothing [$ORCHESTRATE_YES]."),
        click.option("-n", "--dry-run", is_flag=True, help="Show exactly what would be asked for, and ask nothing."),
        click.option("--limit", default=20, show_default=True, help="Rows shown; 0 for all."),
        click.option("--label", "labels", multiple=True, metavar="NAME=VALUE", help="Only runs with this label."),
        click.option("--class", "failures", multiple=True, help="Only runs that failed this way (repeatable)."),
        click.option("--sweep", help="Only runs of this sweep."),
        click.argument("runs", nargs=-1, metavar="[RUN]..."),
    ):
        command = decorate(command)
    return command


class Refused(click.ClickException):
    """A question answered with no, or a limit: exit code 3."""

    exit_code = int(Exit.REFUSED)

    def show(self, file: Any = None) -> None:
        click.echo(f"refused: {self.format_message()}", err=True)


def workspace(ctx: click.Context) -> Workspace:
    """The workspace that ``--root`` names; it need not exist yet."""
    context: Context = ctx.obj
    return Workspace(context.root)


def sweep_names(space: Workspace) -> list[str]:
    """Sweeps that have been planned here, newest plan last."""
    plans = list(space.sweeps.glob("*/plan.jsonl")) if space.sweeps.is_dir() else []
    return [path.parent.name for path in sorted(plans, key=lambda path: path.stat().st_mtime)]


def resolve_sweep(space: Workspace, text: str | None) -> str:
    """A sweep by its name or an unambiguous beginning of it; None means the only (or the newest) one.

    Raises:
        click.UsageError: there is none, or several; the message lists what there is.
    """
    names = sweep_names(space)
    if not names:
        first = f"{to_type(space, 'sweep')} FILE"
        raise click.UsageError(f"no sweep has been planned in {space.root}; start one with: {first}")
    if text is None:
        return names[-1]
    if text in names:
        return text
    stem = text.rpartition("/")[2].removesuffix(".yaml")
    matches = [name for name in names if name.startswith(stem)]
    if len(matches) == 1:
        return matches[0]
    problem = f"{len(matches)} sweeps begin with {text!r}" if matches else f"no sweep is called {text!r}"
    raise click.UsageError(f"{problem} in {space.root}; choose one of: {', '.join(sorted(matches or names))}")


def print_json(value: Any) -> None:
    """One JSON document on stdout; non-finite numbers cannot be in it (orjson writes them as null)."""
    sys.stdout.write(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS).decode() + "\n")


@contextmanager
def naming(source: str) -> Iterator[None]:
    """Puts the table's (or sweep's) name before what is wrong with it, where the message does not begin with it."""
    from sweeps.analysis.errors import AnalysisError

    try:
        yield
    except AnalysisError as error:
        if str(error).startswith("--") or Path(source).name in str(error):
            raise
        raise AnalysisError(f"{source}: {error}") from None


def check_writable(space: Workspace) -> None:
    """Before anything is planned or launched: the workspace can be written, and it is one.

    Raises:
        click.UsageError: it cannot, or the folder holds the like-named folders of something else.
    """
    root = space.root
    other = f"name another {'folder' if root.exists() else 'place'} with --root"
    standing = next(place for place in (root, *root.parents) if place.exists())
    if not os.access(standing, os.W_OK | os.X_OK):
        raise click.UsageError(f"the workspace {root} cannot be written: no permission for {standing}; {other}")
    if space.identity.exists():
        return
    mixed = [place.name for place in (space.sweeps, space.packs, space.submissions) if place.exists()]
    if mixed:
        raise click.UsageError(
            f"{root} is no workspace: it has no {space.identity.name}, and its {', '.join(mixed)} would be mixed "
            f"with ours; {other}"
        )


def say(text: str) -> None:
    """A sentence on stdout; on a terminal it is broken between words."""
    width = shutil.get_terminal_size().columns
    click.echo(textwrap.fill(text, width, break_on_hyphens=False) if sys.stdout.isatty() else text)


def confirm(question: str, *, yes: bool, otherwise: str) -> None:
    """Ask on a terminal; refuse without one unless ``--yes``.

    Raises:
        Refused: the answer was no, or nobody could be asked; ``otherwise`` says what to do instead.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise Refused(f"{question} Nobody can be asked here: {otherwise}")
    if not click.confirm(question, default=False):
        raise Refused(otherwise)
