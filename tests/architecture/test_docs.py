"""Documentation cannot lag: every verb, flag and exit code stands in docs/commands.md."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import click
import pytest

from orchestrator.cli.main import COMMANDS, cli
from orchestrator.exit_codes import MEANINGS

TEXT = (Path(__file__).parents[2] / "docs" / "commands.md").read_text()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_verb_and_flag_is_documented(name: str) -> None:
    module, _, attribute = COMMANDS[name][0].partition(":")
    command: click.Command = getattr(import_module(module), attribute)
    assert f"## `orchestrate {name}" in TEXT
    section = TEXT.split(f"## `orchestrate {name}", 1)[1].split("\n## ", 1)[0]
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            flag = next(option for option in parameter.opts if option.startswith("--"))
            assert f"`{flag}" in section, f"{name} {flag}"


def test_shared_options_and_exit_codes_are_documented() -> None:
    for parameter in cli.params:
        assert any(f"`{option}" in TEXT for option in parameter.opts)
    for code, meaning in MEANINGS.items():
        assert f"| {int(code)} | {meaning} |" in TEXT
