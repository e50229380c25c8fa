"""What the README shows can be done: its sweep file plans, its commands exist, its links lead somewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from jobs.workspace import Workspace
from orchestrator.cli.main import cli
from orchestrator.planning import prepare

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text()
COMMANDS = [
    shlex.split(line, comments=True) for line in re.findall(r"^\$ \.venv/bin/orchestrate (.+)$", TEXT, re.MULTILINE)
]


def test_the_sweep_file_plans_without_a_notice_and_so_do_the_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (example,) = re.findall(r"```yaml\n(name: (\S+)\n.*?)```", TEXT, re.DOTALL)
    (tmp_path / f"{example[1]}.yaml").write_text(example[0])
    monkeypatch.chdir(tmp_path)
    prepared = prepare(Workspace(tmp_path / "runs"), f"{example[1]}.yaml", ())
    assert prepared.design.notices == ()
    assert len(prepared.design.runs) == 30
    planned = [words for words in COMMANDS if words[0] in ("plan", "sweep")]
    assert f"{example[1]}.yaml" in {words[1] for words in planned}
    for _, file, *overrides in planned:
        assert prepare(Workspace(tmp_path / "runs"), file, tuple(overrides)).design.runs


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_each_command_has_the_flags_it_is_shown_with(words: list[str]) -> None:
    context = click.Context(cli, resilient_parsing=True)
    name, command, rest = cli.resolve_command(context, words)
    assert command is not None
    command.make_context(name, rest, parent=context)


def test_each_link_leads_to_a_file() -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)", TEXT) if "://" not in link]
    assert len(links) >= 6
    assert [link for link in links if not (ROOT / link).exists()] == []
