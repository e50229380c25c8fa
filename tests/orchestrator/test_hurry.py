"""What a hurried person types: each gets one clear answer and exit code 2."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., tuple[int, str, str]]
FILE = "name: toy\nrunner: toy\nconfig: {steps: 3}\nfactors: {arm: {one: {note: a}, two: {note: b}}}\n"


@pytest.fixture
def orchestrate(call_main: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """In a folder of the test's own, with no workspace named."""
    monkeypatch.chdir(tmp_path)
    return call_main


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        (("pln", "toy.yaml"), "there is no command 'pln'; did you mean plan? (choose from: sweep, plan, watch, "),
        (("xyzzy",), "there is no command 'xyzzy' (choose from: sweep, plan, "),
        (("plan", "toy.yaml", "--preset", "mini"), "What the file says is changed without dashes: preset=..."),
        (("report", "reslts.csv"), "reslts.csv: no such file or shipped table; give .csv, "),
        (("status", "--root", "elsewhere"), "It stands before the verb: orchestrate --root ... status"),
        (("plan", "toy.yaml", "-v"), "It stands before the verb: orchestrate -v ... plan"),
        (("sweep", "toy.yaml", "--seeds=3"), "What the file says is changed without dashes: seeds=..."),
    ],
)
def test_a_word_that_is_none_is_answered_with_the_one_that_was_meant(
    orchestrate: Command, typed: tuple[str, ...], says: str
) -> None:
    code, out, err = orchestrate(*typed)
    assert (code, out) == (2, "")
    assert says in err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_a_full_disk_under_the_output_is_no_fault_of_ours() -> None:
    argv = [sys.executable, "-P", "-m", "orchestrator.cli", "power", "--effect", "1", "--json"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("error: No space left on device: make room")


def test_the_command_that_a_plan_names_can_be_pasted(orchestrate: Command, tmp_path: Path) -> None:
    """A shell would take brackets for file names and a folder with a space for two."""
    folder = tmp_path / "my study"
    folder.mkdir()
    (folder / "toy.yaml").write_text(FILE)
    code, out, _ = orchestrate("plan", "my study/toy.yaml", "only.arm=[one]")
    assert code == 0
    assert out.endswith("Next: orchestrate sweep 'my study/toy.yaml' 'only.arm=[one]'\n")
    code, out, _ = orchestrate("--root", "elsewhere", "plan", "my study/toy.yaml")
    assert code == 0
    assert out.endswith(f"Next: orchestrate --root {tmp_path / 'elsewhere'} sweep 'my study/toy.yaml'\n")


def test_a_plan_names_every_option_that_it_was_asked_with(orchestrate: Command, tmp_path: Path) -> None:
    (tmp_path / "toy.yaml").write_text(FILE)
    for preview in (("plan", "toy.yaml"), ("sweep", "toy.yaml", "--dry-run")):
        code, out, _ = orchestrate(*preview, "--max-in-flight", "3", "--backend", "local", "only.arm=[one]")
        assert code == 0
        line = out.splitlines()[-1].partition("Next: ")[2]
        assert line == "orchestrate sweep toy.yaml 'only.arm=[one]' --backend local --max-in-flight 3"
