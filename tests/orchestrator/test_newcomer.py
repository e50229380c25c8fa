"""What a newcomer does wrong: each gets one clear answer that names the place, exit code 2, and nothing on disk."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., tuple[int, str, str]]
SWEEP = """\
name: own
runner: train
seeds: 2
config:
  task: {name: copy, symbols: 8, max_length: 5, test_max_length: 5, validation: 200, test: 500}
  model: {layers: 1, heads: 2, width: 8}
  steps: 30
  optimizer: {lr: 3e-3}
factors:
  activation: {path: model.activation.kind, values: [gelu, relu]}
analysis: {metric: test/accuracy, baseline: {activation: gelu}}
"""


@pytest.fixture
def orchestrate(call_main: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """In a folder of the test's own, with no workspace named."""
    monkeypatch.chdir(tmp_path)
    return call_main


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("name: copy", "name: coppy", ("own.yaml:5: config.task.name", "'coppy'", "did you mean copy?")),
        ("relu]", "rleu]", ("own.yaml:10: factors.activation.values", "'rleu'", "did you mean relu?")),
        ("factors:", "factor:", ("own.yaml:9: factor", "did you mean factors?")),
        (
            "model.activation.kind",
            "model.activaton.kind",
            ("own.yaml:10: factors.activation.path", "'activaton'", "did you mean activation?"),
        ),
        ("steps: 30", "steps: many", ("own.yaml:7: config.steps", "'many'", "valid integer")),
        ("width: 8", "width: 9", ("own.yaml:", "width=9, heads=2", "heads that fit")),
        ("gelu}}", "gulu}}", ("own.yaml:11: analysis.baseline.activation", "'gulu'", "did you mean gelu?")),
        ("name: own", "name: [own", ("own.yaml:", "not YAML")),
    ],
)
@pytest.mark.parametrize("verb", ["sweep", "plan"])
def test_a_slip_in_the_file(
    orchestrate: Command, tmp_path: Path, verb: str, old: str, new: str, says: tuple[str, ...]
) -> None:
    (tmp_path / "own.yaml").write_text(SWEEP.replace(old, new))
    code, out, err = orchestrate(verb, "own.yaml")
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert all(word in err for word in says), err
    assert [path.name for path in tmp_path.iterdir()] == ["own.yaml"]


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        (("stepss=3",), ("override 1: stepss: unknown key",)),
        (("config.stepss=3",), ("override 1: config.stepss", "did you mean steps?")),
        (("seeds=1", "config.model.width=abc"), ("override 2: config.model.width", "'abc'")),
        (("preset=mini",), ("preset", "'mini'")),
    ],
)
def test_a_slip_on_the_command_line(
    orchestrate: Command, tmp_path: Path, typed: tuple[str, ...], says: tuple[str, ...]
) -> None:
    (tmp_path / "own.yaml").write_text(SWEEP)
    code, _, err = orchestrate("sweep", "own.yaml", *typed)
    assert code == 2
    assert all(word in err for word in says), err
    assert [path.name for path in tmp_path.iterdir()] == ["own.yaml"]


@pytest.mark.parametrize(
    ("content", "flags", "says"),
    [
        ("", (), "t.csv: the table has no rows"),
        ("arm,acc\na,1\nb,2\n", (), "t.csv: which column holds the seed? give --seed-column"),
        ("arm,seed,acc\nA,1,.1\nA,2,.2\na ,1,.3\na ,2,.5\n", ("--baseline", "A"), "t.csv: arms 'A' and 'a' differ"),
        ("arm,seed,acc\na,1,.1\na,1,.2\nb,1,.3\n", ("--baseline", "a"), "t.csv: duplicate results: 2 rows for arm 'a'"),
        ("arm,seed,acc\na,1,x\nb,1,.2\n", ("--baseline", "a"), "t.csv line 2: acc is 'x'"),
        ("arm,seed,acc\na,1,.1\nb,1,.2\n", ("--baseline", "c"), "'c'"),
        ("arm,seed,acc\na,1,.1\nb,1,.2\n", ("--baseline", "a", "--metric", "ac"), "t.csv: no column 'ac'"),
    ],
)
@pytest.mark.parametrize("verb", ["compare", "report"])
def test_a_table_is_named_with_what_is_wrong(
    orchestrate: Command, tmp_path: Path, verb: str, content: str, flags: tuple[str, ...], says: str
) -> None:
    (tmp_path / "t.csv").write_text(content)
    code, out, err = orchestrate(verb, "t.csv", *flags)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert says in err, err
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_a_mistyped_experiment_makes_no_store(orchestrate: Command, tmp_path: Path) -> None:
    for options in ("", "?timeout=5"):
        uri = f"sqlite:///{tmp_path / 'm.db'}{options}"
        code, _, err = orchestrate("compare", "mlflow:nope", "--tracking-uri", uri)
        assert code == 2
        assert f"there is no MLflow store {tmp_path / 'm.db'};" in err
    assert not list(tmp_path.iterdir())


def test_a_folder_of_something_else_is_no_workspace(orchestrate: Command, tmp_path: Path) -> None:
    """A project may well have a folder called `sweeps`."""
    (tmp_path / "own.yaml").write_text(SWEEP)
    (tmp_path / "sweeps").mkdir()
    code, _, err = orchestrate("--root", ".", "sweep", "own.yaml", "--yes")
    assert code == 2
    assert "is no workspace: it has no workspace.json, and its sweeps would be mixed with ours" in err
    assert not list((tmp_path / "sweeps").iterdir())


def test_a_workspace_that_cannot_be_written_is_told_before_the_plan(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(SWEEP)
    (tmp_path / "closed").mkdir(mode=0o555)
    # Root may write everywhere, unless it is without the capability to.
    bound = ["setpriv", "--bounding-set=-dac_override"] if os.geteuid() == 0 else []
    argv = [*bound, sys.executable, "-P", "-m", "orchestrator.cli", "--root"]
    for root in ("closed/runs", "closed/some/runs"):
        done = subprocess.run([*argv, root, "sweep", "own.yaml", "--yes"], cwd=tmp_path, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (2, "")
        assert (
            f"cannot be written: no permission for {tmp_path / 'closed'}; name another place with --root" in done.stderr
        )


def test_a_reader_that_leaves_is_no_failure(tmp_path: Path) -> None:
    """`orchestrate plan ... | head -1` under `set -o pipefail`."""
    (tmp_path / "own.yaml").write_text(SWEEP)
    argv = [sys.executable, "-P", "-m", "orchestrator.cli", "plan", "own.yaml"]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    assert (process.wait(timeout=60), said) == (0, b"")
