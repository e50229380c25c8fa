"""Lines to paste do what was shown: same verb, same arguments, same options, same workspace."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
import orjson
import pytest

from cluster.batch_file import BATCH_FILE
from jobs.workspace import Workspace
from orchestrator.cli import cancel, plan, retry, sweep, watch
from orchestrator.cli.again import last_backend, prefix, program, to_type, typed, watch_words

COMMANDS = {"sweep": sweep, "plan": plan, "retry": retry, "cancel": cancel, "watch": watch}


def parsed(words: list[str]) -> click.Context:
    return COMMANDS[words[0]].command.make_context(words[0], words[1:])


@pytest.mark.parametrize(
    "words",
    [
        ["sweep", "my study/a.yaml", "lr=[1e-3, 3e-4]", "preset=mini", "--yes", "--backend", "slurm", "--detach"],
        ["plan", "a.yaml", "--max-in-flight", "3", "note=don't"],
        ["retry", "r1", "p2", "--class", "lost", "--class", "hang", "--label", "task=a b", "--fresh"],
        ["retry", "--from-checkpoint", "--sweep", "compat", "--yes"],
        ["cancel", "--sweep", "compat", "--limit", "0"],
        ["watch", "one", "two", "--report", "--backend", "slurm"],
    ],
)
def test_what_was_typed_comes_back_as_it_was(words: list[str], tmp_path: Path) -> None:
    context = parsed(words)
    again = shlex.split(typed(context, Workspace(tmp_path)))
    assert again[:3] == ["orchestrate", "--root", str(tmp_path)]
    assert parsed(again[3:]).params == context.params


@pytest.mark.parametrize("verb", ["retry", "cancel"])
def test_the_line_below_a_preview_lacks_only_the_preview(verb: str, tmp_path: Path) -> None:
    context = parsed([verb, "r1", "-n", "--json", "--label", "task=copy"])
    line = typed(context, Workspace(tmp_path), without=("dry_run", "as_json"))
    assert line == f"orchestrate --root {tmp_path} {verb} r1 --label task=copy"


def test_what_the_environment_says_is_not_said_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORCHESTRATE_BACKEND", "slurm")
    context = parsed(["plan", "a.yaml"])
    assert context.params["backend"] == "slurm"
    assert typed(context, Workspace(tmp_path), verb="sweep").endswith(" sweep a.yaml")


def test_the_root_is_named_unless_the_bare_command_would_take_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ORCHESTRATE_ROOT", raising=False)
    assert prefix(Workspace(tmp_path / "runs")) == ""
    assert prefix(Workspace(tmp_path / "my runs")) == f"--root '{tmp_path / 'my runs'}' "
    monkeypatch.setenv("ORCHESTRATE_ROOT", "other")
    assert prefix(Workspace(tmp_path / "runs")) == f"--root {tmp_path / 'runs'} "
    assert prefix(Workspace(tmp_path / "other")) == ""


def test_the_program_is_named_as_it_was_started_where_a_shell_would_not_find_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "venv" / "bin" / "orchestrate"
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["venv/bin/orchestrate"])
    monkeypatch.setenv("PATH", "/nowhere")
    assert program() == "venv/bin/orchestrate"
    assert to_type(Workspace(tmp_path / "runs"), "status").startswith("venv/bin/orchestrate status")
    monkeypatch.setenv("PATH", str(script.parent))
    assert program() == "orchestrate"


def test_watch_is_told_the_backend_of_the_last_jobs(tmp_path: Path) -> None:
    space = Workspace(tmp_path)
    assert (last_backend(space), watch_words(space, "s")) == ("", ("watch", "s"))
    for batch, backend in (("b1", "local"), ("b2", "slurm")):
        space.submission(batch).mkdir(parents=True)
        (space.submission(batch) / BATCH_FILE).write_bytes(orjson.dumps({"backend": backend, "entries": {}}))
    assert watch_words(space, "s") == ("watch", "s", "--backend", "slurm")
