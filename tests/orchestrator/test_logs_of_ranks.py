"""`orchestrate logs` where an attempt is several processes."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest

from jobs.spec import RunSpec
from jobs.workspace import AttemptDir, Workspace
from orchestrator.cli.main import main
from orchestrator.log_tail import AttemptLogs


@pytest.fixture
def place(workspace: Workspace, lab: ModuleType) -> AttemptDir:
    """An attempt of three processes, the last of which wrote bytes that are no text."""
    (pack,) = lab.write_plan(workspace, "s", [[RunSpec("toy", {"steps": 3}, 0)]])
    found = workspace.attempt(pack, 1)
    found.path.mkdir(parents=True)
    launch = {"pack": pack, "attempt": 1, "name": f"orc-{pack}-a1", "runner": "toy", "root": str(workspace.root)}
    member = {"run": RunSpec("toy", {"steps": 3}, 0).id, "config": 0, "seed": 0}
    found.launch.write_text(json.dumps({**launch, "members": [member], "configs": [{"steps": 3}]}))
    for rank, text in enumerate((b"one\ntwo\n", b"eins\nzwei\n", b"caf\xe9\nnew\rold\n")):
        found.of_rank(found.log, rank).write_bytes(text)
    (found.path / "log.txt.rank1.gz").write_bytes(b"not a log")
    return found


def run(place: AttemptDir, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[list[str], str, int]:
    code = 0
    try:
        main(["--root", str(place.path.parents[3]), "logs", place.pack, *words])
    except SystemExit as exit:
        code = int(exit.code or 0)
    said = capsys.readouterr()
    return said.out.splitlines(), said.err, code


def test_lines_of_several_processes_are_marked(place: AttemptDir, capsys: pytest.CaptureFixture[str]) -> None:
    out, err, code = run(place, capsys)
    assert code == 0
    assert out == [
        *("[rank 0] one", "[rank 0] two", "[rank 1] eins", "[rank 1] zwei"),
        *("[rank 2] caf\N{REPLACEMENT CHARACTER}", "[rank 2] old"),
    ]
    assert "==> attempt 1, not ended" in err
    assert run(place, capsys, "-n", "1")[0] == ["[rank 0] two", "[rank 1] zwei", "[rank 2] old"]


def test_one_process_alone(place: AttemptDir, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(place, capsys, "--rank", "1")[0] == ["[rank 1] eins", "[rank 1] zwei"]
    out, err, code = run(place, capsys, "--rank", "7")
    assert (out, code) == ([], 2)
    assert "no process 7 has a log there; those that have: 0, 1, 2" in err
    for rank in (1, 2):
        place.of_rank(place.log, rank).unlink()
    assert run(place, capsys)[0] == ["one", "two"], "a log that is alone needs no mark"


def test_lines_as_json(place: AttemptDir, capsys: pytest.CaptureFixture[str]) -> None:
    out, err, _ = run(place, capsys, "--json", "-n", "1", "--rank", "2")
    assert [json.loads(line) for line in out] == [{"attempt": 1, "rank": 2, "line": "old"}]
    assert err == ""


def test_processes_whose_logs_come_later_are_followed_from_their_start(tmp_path: Path) -> None:
    place = AttemptDir(tmp_path / "p1" / "a1")
    place.path.mkdir(parents=True)
    logs = AttemptLogs(place, 1)
    assert list(logs.new()) == []
    place.log.write_text("a\nb\n")
    assert [line.text for line in logs.new()] == ["b"]
    place.of_rank(place.log, 1).write_text("x\ny\n")
    place.log.write_text("a\nb\nc\n")
    assert [(line.rank, line.text, line.marked) for line in logs.new()] == [
        (0, "c", True),
        (1, "x", True),
        (1, "y", True),
    ]
