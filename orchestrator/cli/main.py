"""The top level of ``orchestrate``: options that every verb shares, and the table of verbs (imported when used)."""

from __future__ import annotations

import difflib
import errno
import os
import sys
import tempfile
import traceback
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import click

from orchestrator.exit_codes import MEANINGS, Exit

COMMANDS: dict[str, tuple[str, str]] = {
    "sweep": ("orchestrator.cli.sweep:command", "Run every run of a sweep file, watch it, and write its report."),
    "plan": ("orchestrator.cli.plan:command", "Show what a sweep file would run and cost; launch nothing."),
    "watch": ("orchestrator.cli.watch:command", "Take up planned sweeps again: launch, retry, close."),
    "status": ("orchestrator.cli.status:command", "What is running, waiting and broken, and why. Never writes."),
    "show": ("orchestrator.cli.show:command", "One run: its spec, attempts, verdicts and products."),
    "logs": ("orchestrator.cli.logs:command", "The log of a run, across its attempts."),
    "errors": ("orchestrator.cli.errors:command", "What is broken, why, where, and the command that mends it."),
    "retry": ("orchestrator.cli.retry:command", "Run failed runs again, from a checkpoint or afresh."),
    "cancel": ("orchestrator.cli.cancel:command", "Stop runs, or a whole sweep."),
    "cost": ("orchestrator.cli.cost:command", "Hours paid, by user, task, architecture and class of loss."),
    "nodes": ("orchestrator.cli.nodes:command", "Machines that fail runs: excluded, why, until when."),
    "gather": ("orchestrator.cli.gather:command", "Turn facts into Parquet tables and fill MLflow."),
    "report": ("orchestrator.cli.report:command", "Write the pages and tables of a sweep or of anybody's table."),
    "compare": ("orchestrator.cli.compare:command", "Compare arms with a baseline in anybody's table of results."),
    "power": ("orchestrator.cli.power:command", "How many seeds an effect needs, or what n seeds can detect."),
    "rates": ("orchestrator.cli.rates:command", "Choose learning rates and T_task from a finished pilot sweep."),
    "doctor": ("orchestrator.cli.doctor:command", "Check the workspace and the installation; rebuild the index."),
}


@dataclass(frozen=True)
class Context:
    """What the shared options say."""

    root: Path
    verbose: int


class Verbs(click.Group):
    """A group whose commands are imported only when they run; their help lines stand in the table above."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        return getattr(import_module(module), attribute)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name in COMMANDS or name.startswith("-"):
            return super().resolve_command(ctx, args)
        close = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise click.UsageError(f"there is no command {name!r}{hint} (choose from: {', '.join(COMMANDS)})", ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(int(code)), text) for code, text in MEANINGS.items()])


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--root",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs"),
    envvar="ORCHESTRATE_ROOT",
    show_default=True,
    help="Workspace: where plans, facts and reports lie [$ORCHESTRATE_ROOT].",
)
@click.option("-v", "--verbose", count=True, envvar="ORCHESTRATE_VERBOSE", help="Say more [$ORCHESTRATE_VERBOSE].")
@click.version_option(package_name="orchestrator", message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context, root: Path, verbose: int) -> None:
    """Compare neural architectures across tasks and scales, with evidence one can trust."""
    ctx.obj = Context(root=root.absolute(), verbose=verbose)


def _save_traceback() -> str:
    fd, path = tempfile.mkstemp(prefix="orchestrate-", suffix=".txt")
    with os.fdopen(fd, "w") as file:
        traceback.print_exc(file=file)
    return path


def _explain(error: Exception) -> tuple[str, Exit] | None:
    """Message and exit code of an error that is ours. Its folder is known only where it was imported anyway."""
    for module, name, code in (
        ("sweeps.errors", "SweepError", Exit.USAGE),
        ("sweeps.analysis.errors", "AnalysisError", Exit.USAGE),
        ("cluster.backend", "TemporaryError", Exit.UNREACHABLE),
        ("cluster.backend", "ClusterError", Exit.USAGE),
        ("jobs.errors", "JobError", Exit.USAGE),
        ("orchestrator.errors", "OrchestratorError", Exit.USAGE),
        ("dashboards.errors", "DashboardError", Exit.USAGE),
    ):
        loaded = sys.modules.get(module)
        if loaded is not None and isinstance(error, getattr(loaded, name, ())):
            return str(error), Exit(getattr(error, "exit_code", code))
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}", Exit.USAGE
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{error.strerror}: make room where the output or the workspace lies, and type it again", Exit.USAGE
    return None


def _hint(error: click.ClickException) -> str | None:
    """What was probably meant by an option that the verb doesn't have."""
    if not isinstance(error, click.NoSuchOption) or error.ctx is None or error.ctx.parent is None:
        return None
    option, verb = error.option_name, error.ctx.info_name
    if any(option in parameter.opts for parameter in cli.params):
        return f"It stands before the verb: orchestrate {option} ... {verb}"
    if verb in ("sweep", "plan") and option.startswith("--"):
        return f"What the file says is changed without dashes: {option.lstrip('-')}=..."
    return None


def _reader_left() -> NoReturn:
    """The reader (head, less) has left: that is not a fault. Keep the interpreter from flushing into the pipe."""
    for stream in (sys.stdout, sys.stderr):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(Exit.OK)


def main(arguments: list[str] | None = None) -> None:
    """Entry point. No traceback of ours reaches a user: what we did not expect is saved to a file and named."""
    try:
        code = cli.main(args=arguments, prog_name="orchestrate", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        if hint := _hint(error):
            click.echo(hint, err=True)
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(Exit.INTERRUPTED)
    except BrokenPipeError:
        _reader_left()
    except SystemExit as left:
        if isinstance(left.__context__, BrokenPipeError):  # rich leaves so
            _reader_left()
        raise
    except Exception as error:
        ours = _explain(error)
        if ours is not None:
            click.echo(f"error: {ours[0]}", err=True)
            sys.exit(ours[1])
        click.echo(
            f"error: unexpected {type(error).__name__}: {error}\nThis is a fault of orchestrate. "
            f"Its details are in {_save_traceback()}; please report them.",
            err=True,
        )
        sys.exit(Exit.RUNS_FAILED)
    sys.exit(code if isinstance(code, int) else Exit.OK)
