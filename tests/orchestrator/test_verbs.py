"""The operator's verbs on a sweep in which everything has gone wrong at once: what they print, in 80 columns."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cluster.fake_backend import FakeBackend
from jobs.durable import AppendLog
from jobs.facts import FailureClass, Finished, Started, close_attempt, fact_record
from jobs.launch import read_launch
from jobs.state import RunState
from jobs.workspace import AttemptDir, Workspace
from orchestrator.cli.status_view import show_status
from orchestrator.loop import Loop
from orchestrator.policy import Policy
from orchestrator.requests import Wishes
from orchestrator.status import SweepStatus

Command = Callable[..., tuple[int, str, str]]
MESSAGES = {
    1: (FailureClass.USER_ERROR, "JobError: no such file: data/seed-1.bin"),
    2: (FailureClass.USER_ERROR, "JobError: no such file: data/seed-22.bin"),
    3: (FailureClass.GPU_OUT_OF_MEMORY, "RuntimeError: CUDA out of memory. Tried to allocate 20.00 GiB. " + "x" * 200),
}


@pytest.fixture
def orchestrate(orchestrate: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("COLUMNS", "80")
    return orchestrate


@pytest.fixture
def site(workspace: Workspace, lab: ModuleType, tmp_path: Path) -> FakeBackend:
    """Packs of one run: seed 0 completes on n1, seeds 1 to 3 fail on n2, seed 4 diverges within its pack."""
    clock = lab.Clock()
    lab.write_plan(workspace, "s", [lab.cell({}, [n]) for n in range(5)])

    def execute(entry: Any, job: str) -> Generator[None, None, int]:
        place = AttemptDir(Path(entry["cwd"]))
        (member,) = read_launch(place.launch).members
        if member.seed == 0:
            return (yield from lab.pretend(place.path, job))
        worker = lab.pretend(place.path, job)
        next(worker)
        next(worker)
        log = AppendLog(place.facts)
        log.append(fact_record(Started(time=10.0, step=0, host="n2", pid=1, members=1, threads=1)))
        if member.seed == 4:
            failed = Finished(time=20.0, run=member.run, status="failed", step=7, failure=FailureClass.DIVERGED)
            log.append(fact_record(failed.model_copy(update={"message": "loss is nan at step 7"})))
        log.close()
        yield
        if member.seed == 4:
            close_attempt(place, by="worker", outcome="completed", step=7)
            return 76
        failure, message = MESSAGES[member.seed]
        place.log.write_text(
            f'noise\nTraceback (most recent call last):\n  File "own.py", line 3, in f\n    g()\n{message}\n'
        )
        close_attempt(place, by="worker", outcome="failed", failure=failure, message=message, step=0)
        return 1

    fake = FakeBackend(tmp_path / "c.json", clock=clock, execute=execute)
    loop = Loop(workspace, fake, Policy(probe=False, settle_s=0.0), code="", clock=clock)
    for _ in range(40):
        if loop.tick().done:
            break
        fake.step()
        clock.pass_(20.0)
    loop.close()
    return fake


def narrow(text: str) -> bool:
    """Nothing is wider than the terminal, but for commands that a person is to copy."""
    return all(len(line) <= 80 for line in text.splitlines() if "orchestrate --root" not in line)


@pytest.mark.usefixtures("site")
def test_errors_in_ten_seconds(orchestrate: Command) -> None:
    code, out, _ = orchestrate("errors", "s")
    assert code == 0
    assert out.startswith("4 of 5 runs failed; 3 kinds of failure\n")
    first = out.split("\n\n")[1]
    assert first.splitlines()[0] == "    2 user_error  JobError: no such file: data/seed-1.bin"
    assert '      |   File "own.py", line 3, in f' in first
    assert "step 0 of 0" not in out
    assert "after 1 attempt, on n2" in first
    assert "retry --class user_error --sweep s --dry-run" in first
    assert narrow(out), out
    assert "20.00 GiB" in out
    assert "x" * 100 not in out


@pytest.mark.usefixtures("site")
def test_errors_by_class_in_lines_and_as_json(orchestrate: Command, json_of: Callable[[str], Any]) -> None:
    _, out, _ = orchestrate("errors", "--group")
    assert [line.split()[1] for line in out.splitlines()[1:]] == ["user_error", "gpu_out_of_memory", "diverged"]
    assert narrow(out), out
    _, out, _ = orchestrate("errors", "--class", "diverged", "--json")
    (kind,) = json_of(out)["broken"]
    assert (kind["class"], kind["message"], kind["nodes"]) == ("diverged", "loss is nan at step 7", {"n2": 1})
    (run,) = kind["runs"]
    assert (run["step"], run["attempts"], run["again"], run["labels"]) == (7, 1, False, {"seed": 4})
    code, _, err = orchestrate("errors", "--class", "divorced")
    assert code == 2
    assert "choose from: diverged, out_of_memory" in err


def test_nothing_broken_says_so(orchestrate: Command, workspace: Workspace, lab: ModuleType) -> None:
    lab.write_plan(workspace, "s", [lab.cell({}, [0])])
    assert orchestrate("errors")[1] == "Nothing is broken: none of 1 run has failed.\n"
    assert orchestrate("nodes")[1] == "Nothing has been run yet, or no attempt has ended.\n"
    assert orchestrate("cost")[1].startswith("all sweeps  0 s of one slot")


@pytest.mark.usefixtures("site")
def test_status_is_one_screen_of_eighty_columns(orchestrate: Command, json_of: Callable[[str], Any]) -> None:
    code, out, _ = orchestrate("status", "--strict")
    assert code == 1
    assert "5 of 5 runs ended  1 completed  4 failed" in out
    assert "why, and what to do: orchestrate --root" in out
    assert "cost so far" in out
    assert narrow(out), out
    assert len(out.splitlines()) <= 24
    told = json_of(orchestrate("status", "--json")[1])["sweeps"][0]
    assert told["counts"]["failed"] == 4
    assert told["cost_unit"] == "slot"
    assert set(told["cost_s"]) <= {"useful", "startup", "diverged", "user_error", "gpu_out_of_memory"}


@pytest.mark.usefixtures("site")
def test_cost_by_everything_and_by_one_thing(orchestrate: Command, json_of: Callable[[str], Any]) -> None:
    _, out, _ = orchestrate("cost", "s")
    assert "what became of it" in out
    assert "lost to diverged" in out
    assert narrow(out), out
    hours = json_of(orchestrate("cost", "--by", "seed", "--json")[1])["hours"]["slot"]["seed"]
    assert hours["4"]["lost"] == {"diverged": 10.0 / 3600}
    code, _, err = orchestrate("cost", "--by", "colour")
    assert code == 2
    assert "choose from: user, class, seed" in err


@pytest.mark.usefixtures("site")
def test_nodes_and_letting_one_off(orchestrate: Command, json_of: Callable[[str], Any], workspace: Workspace) -> None:
    _, out, _ = orchestrate("nodes")
    assert [line.split()[:3] for line in out.splitlines()[1:]] == [["lab", "1", "0"], ["n2", "4", "3"]]
    code, _, err = orchestrate("nodes", "--forgive", "n9")
    assert code == 2
    assert "machines: lab, n2" in err
    assert orchestrate("nodes", "--forgive", "n2")[0] == 0
    assert not workspace.requests.exists(), "there was nothing to forgive"
    assert [row["node"] for row in json_of(orchestrate("nodes", "--json")[1])["nodes"]] == ["lab", "n2"]


def test_an_excluded_machine_is_shown_with_its_evidence_and_forgiven(
    orchestrate: Command, workspace: Workspace, lab: ModuleType, json_of: Callable[[str], Any]
) -> None:
    packs = lab.write_plan(workspace, "s", [lab.cell({}, [n]) for n in range(4)])
    clock = lab.Clock()
    fake = FakeBackend(workspace.root / "c.json", clock=clock)
    Loop(workspace, fake, Policy(probe=False), code="", clock=clock, index=False).tick()
    for number, pack in enumerate(packs):
        place = workspace.attempt(pack, 1)
        log = AppendLog(place.facts)
        host = "good" if number == 3 else "bad"
        log.append(fact_record(Started(time=0.0, step=0, host=host, pid=1, members=1, threads=1)))
        log.close()
        if number == 3:
            close_attempt(place, by="worker", outcome="completed")
        else:
            close_attempt(place, by="loop", outcome="lost", failure=FailureClass.NODE_FAILURE, message="NODE_FAIL")
    _, out, _ = orchestrate("nodes")
    assert "bad             3       3  excluded for 60 min more" in out.replace("59 min", "60 min")
    assert out.count("node_failure: NODE_FAIL") == 3
    assert "nodes --forgive bad" in out
    assert narrow(out), out
    assert orchestrate("nodes", "--forgive", "bad")[2] == "bad is let off: 3 mishaps count no more\n"
    wishes = Wishes(workspace)
    wishes.refresh()
    assert wishes.forgiven == {f"orc-{pack}-a1" for pack in packs[:3]}
    rows = json_of(orchestrate("nodes", "--json")[1])["nodes"]
    assert [(row["node"], row["excluded_until"]) for row in rows] == [("bad", None), ("good", None)]


def test_show_lists_checkpoints_with_their_verdicts(
    orchestrate: Command, workspace: Workspace, lab: ModuleType, json_of: Callable[[str], Any]
) -> None:
    from jobs.checkpoint import write_checkpoint

    (spec,) = specs = lab.cell({}, [0])
    (pack,) = lab.write_plan(workspace, "s", [specs])
    folder = workspace.attempt(pack, 1).checkpoints
    for step in (5, 10):
        write_checkpoint(folder, step=step, attempt=1, write=lambda at: _fill(at), meta={})
    (folder / "step-00000010-a1" / "state").write_bytes(b"cut")
    _, out, _ = orchestrate("show", spec.id)
    assert "step 10 of attempt 1, 8 B: state has 3 bytes, not 8" in out
    assert "step 5 of attempt 1, 8 B: complete" in out
    told = json_of(orchestrate("show", spec.id, "--json")[1])["checkpoints"]
    assert [(c["step"], c["verdict"]) for c in told] == [(10, "state has 3 bytes, not 8"), (5, "complete")]


def _fill(at: Path) -> None:
    (at / "state").write_bytes(b"12345678")


def test_doctor_asks_the_site_only_where_told_to(
    orchestrate: Command, json_of: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    code, out, _ = orchestrate("doctor", "--backend", "slurm", "--json")
    told = {finding["what"]: finding["level"] for finding in json_of(out)["findings"]}
    (missing,) = [what for what in told if what.startswith("not on PATH")]
    assert "sbatch" in missing
    assert (code, told[missing]) == (1, "error")
    assert "not on PATH" not in orchestrate("doctor", "--json")[1]


@pytest.mark.usefixtures("site")
def test_a_sweep_where_a_run_is_asked_for_is_told_what_it_is(orchestrate: Command) -> None:
    for typed in (("retry", "s", "--dry-run"), ("show", "s"), ("cancel", "s", "--dry-run")):
        code, _, err = orchestrate(*typed)
        assert code == 2
        assert "'s' is a sweep, no run and no pack" in err
        assert "--sweep s" in err


@pytest.mark.usefixtures("site")
def test_a_preview_of_runs_that_made_no_step_does_not_call_them_short(orchestrate: Command) -> None:
    _, out, err = orchestrate("retry", "--class", "user_error", "--dry-run")
    assert "how long it takes is not known: 2 runs whose pace nobody has measured" in out
    assert err.splitlines()[-1].startswith("Nothing was asked for. Next: orchestrate --root ")
    assert err.splitlines()[-1].endswith(" retry --class user_error")


def test_watch_is_not_advised_where_it_could_do_nothing(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = dict.fromkeys(RunState, 0) | {RunState.PENDING: 2, RunState.FAILED: 1}
    for why, advised in (("blocked: needs a run which has failed", False), ("a free slot", True)):
        show_status(workspace, [SweepStatus("s", counts, waiting={why: 2})], limit=8)
        assert ("go on with" in capsys.readouterr().out) == advised
