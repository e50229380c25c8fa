"""A published spline is an architecture that a sweep file names by its file."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeps.errors import SweepError
from sweeps.expand import expand
from sweeps.load import load_sweep

CSV = "-1,0,1\n0.5,0,2\n-2,0,2\n1,1,3\n"
SWEEP = """
name: published
runner: train
config: {{task: {{name: copy}}, optimizer: {{lr: 0.01}}, steps: 5}}
factors:
  arm:
    gelu: {{}}
    published: {{model: {{activation: {spline}}}}}
"""


def written(folder: Path, spline: str) -> Path:
    (folder / "splines.csv").write_text(CSV)
    path = folder / "study.yaml"
    path.write_text(SWEEP.format(spline=spline))
    return path


def test_a_file_and_its_numbers_are_one_run(tmp_path: Path) -> None:
    by_file = expand(load_sweep(written(tmp_path, "{kind: spline_file, file: splines.csv, curve: 1}")))
    by_hand = expand(
        load_sweep(written(tmp_path, "{kind: spline_file, low: -2, high: 2, values: [1, 1, 3]}"), ["name=other"])
    )
    assert [run.spec.id for run in by_file.runs] == [run.spec.id for run in by_hand.runs]
    config = by_file.cells[1].config["model"]["activation"]
    assert config == {"kind": "spline_file", "low": -2.0, "high": 2.0, "values": [1.0, 1.0, 3.0]}
    assert "splines.csv" not in str(by_file.settings)


def test_the_first_curve_is_the_default_and_a_path_of_the_command_line_is_the_shell_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, "{kind: spline_file, file: nowhere.csv}")
    shell = tmp_path / "shell"
    shell.mkdir()
    (shell / "own.csv").write_text(CSV)
    monkeypatch.chdir(shell)
    sweep = load_sweep(path, ["factors.arm.published.model.activation.file=own.csv"])
    assert sweep.settings["factors"]["arm"]["published"]["model"]["activation"]["values"] == [0.5, 0.0, 2.0]


@pytest.mark.parametrize(
    ("spline", "said"),
    [
        ("{kind: spline_file, file: gone.csv}", "cannot be read: No such file"),
        ("{kind: spline_file, file: splines.csv, curve: 2}", "the file has 2, numbered 0 to 1"),
        ("{kind: spline_file, file: splines.csv, curve: first}", "`curve` the number of a curve"),
        ("{kind: spline_file, file: splines.csv, low: -3}", "not both"),
    ],
)
def test_what_cannot_be_read_is_a_mistake_with_its_line(tmp_path: Path, spline: str, said: str) -> None:
    with pytest.raises(SweepError) as caught:
        load_sweep(written(tmp_path, spline))
    (problem,) = caught.value.problems
    assert said in problem.message
    assert (problem.where, problem.line) == ("factors.arm.published.model.activation.file", 8)
