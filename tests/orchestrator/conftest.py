"""What tests of the loop and of the verbs share: the helpers of lab.py, an empty workspace, the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner

from jobs.workspace import Workspace
from orchestrator.cli.compare import command as compare_command
from orchestrator.cli.main import Context, main

Command = Callable[..., tuple[int, str, str]]
RESULTS = """method,seed,climb
baseline,0,0.4805
baseline,1,0.4832
baseline,2,0.4850
softpick,0,0.4908
softpick,1,0.4925
softpick,2,0.4933
hybrid,0,0.4896
sigmoid,0,0.3212
ssmax,0,nan
"""


@pytest.fixture(scope="session")
def lab(helpers: Callable[[str], ModuleType]) -> ModuleType:
    return helpers("orchestrator/lab.py")


@pytest.fixture
def json_of() -> Callable[[str], Any]:
    """Reads what a verb printed; refuses the bare NaN that Python's reader would take."""

    def read(text: str) -> Any:
        return json.loads(text, parse_constant=lambda word: pytest.fail(f"bare {word} in {text[:200]}"))

    return read


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "runs")


@pytest.fixture
def call_main(capsys: pytest.CaptureFixture[str]) -> Command:
    """``call_main("plan", "toy.yaml")``: (exit code, stdout, stderr) of `orchestrate plan toy.yaml`."""

    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit:
            main(list(arguments))
        out, err = capsys.readouterr()
        return int(exit.value.code or 0), out, err

    return run


@pytest.fixture
def orchestrate(call_main: Command, workspace: Workspace) -> Command:
    """``call_main`` on ``workspace``."""
    return partial(call_main, "--root", str(workspace.root))


@pytest.fixture
def table(tmp_path: Path) -> str:
    """A table of results: a baseline and an arm of three runs, three arms of one, one of them without a value."""
    path = tmp_path / "results.csv"
    path.write_text(RESULTS)
    return str(path)


@pytest.fixture
def compare() -> Callable[..., str]:
    """Output of an `orchestrate compare` that ends well; errors of ours are raised as they are."""

    def run(*arguments: str, root: Path = Path("nowhere")) -> str:
        result = CliRunner().invoke(compare_command, list(arguments), obj=Context(root, 0), catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    return run


@pytest.fixture
def verdicts(compare: Callable[..., str]) -> Callable[..., dict[str, Any]]:
    """Arm -> its verdict, of an `orchestrate compare`."""

    def run(*arguments: str, root: Path = Path("nowhere")) -> dict[str, Any]:
        return {v["arm"]: v for v in json.loads(compare(*arguments, "--json", root=root))["verdicts"]}

    return run
