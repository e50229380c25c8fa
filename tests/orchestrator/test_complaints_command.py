"""What users of neighbouring tools complain about, tried on the command: one test an entry, named after its number."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from scipy import stats

from cluster.fake_backend import FakeBackend
from cluster.local_backend import LocalBackend
from jobs.durable import AppendLog
from jobs.facts import FailureClass, Finished, Started, close_attempt, fact_record
from jobs.state import RunState
from jobs.workspace import AttemptDir, Workspace
from orchestrator.loop import Loop
from orchestrator.planning import commit, prepare
from orchestrator.policy import LOCAL, Policy
from orchestrator.status import summary

Command = Callable[..., tuple[int, str, str]]
FAST = replace(LOCAL, poll_s=(0.02, 0.2), probe=False)
BARE = re.compile(r"(?<![\w.'\"-])-?(NaN|nan|Infinity|inf)(?![\w.'\"-])")
"""A number that is none, outside of a string."""


def test_7_04_a_nan_reaches_no_export_and_no_page(
    workspace: Workspace, orchestrate: Command, json_of: Callable[[str], Any], tmp_path: Path
) -> None:
    """One NaN metric and the run's page did not load."""
    content = {
        "name": "nan",
        "runner": "toy",
        "factors": {"arm": {"base": {}, "bad": {"note": "bad", "faults": {"nan_at": 3}}}, "task": ["x"]},
        "seeds": 2,
        "config": {"steps": 6},
        "pack": {"by": ["seed"], "max": 2},
        "analysis": {"baseline": {"arm": "base"}, "arm": "arm", "column": "task"},
    }
    content["factors"]["task"] = {"x": {}}
    file = tmp_path / "nan.yaml"
    file.write_text(yaml.safe_dump(content))
    commit(workspace, prepare(workspace, str(file)))
    loop = Loop(workspace, LocalBackend(), FAST, code="")
    assert loop.watch().counts["nan"][RunState.FAILED] == 2
    loop.close()
    bad = next(run for run in loop.board.failed)
    metrics = [path.read_text() for path in workspace.packs.glob("*/*/a1/metrics.jsonl")]
    assert any('"train/loss":"nan"' in text.replace(" ", "") for text in metrics), "it was there, as a word"
    for arguments in (
        ("status", "--json"),
        ("show", bad, "--json"),
        ("errors", "--json"),
        ("cost", "--json"),
        ("nodes", "--json"),
        ("retry", "--dry-run", "--json"),
        ("gather", "nan", "--no-mlflow", "--json"),
        ("report", "nan", "--json"),
        ("plan", str(file), "--json"),
    ):
        code, out, err = orchestrate(*arguments)
        assert code == 0, (arguments, err)
        assert json_of(out), arguments
    code, out, err = orchestrate("report", "nan")
    assert code == 0, err
    folder = workspace.report("nan")
    written = [path for path in folder.iterdir() if path.suffix in (".json", ".csv", ".html", ".tex")]
    assert {path.suffix for path in written} >= {".json", ".csv", ".html"}
    for path in written:
        text = path.read_text()
        if path.suffix == ".json":
            json_of(text)
        elif path.suffix == ".csv":
            assert not BARE.search(text), path
        else:
            scripts = re.findall(r"<script[^>]*>(.*?)</script>", text, re.DOTALL)
            assert not any(BARE.search(script) for script in scripts), path
    assert "nan at step 3" in (folder / "index.html").read_text(), "the page says what became of it"


def test_7_13_the_time_of_a_pass_is_what_happened_not_what_there_is(
    workspace: Workspace, lab: ModuleType, tmp_path: Path
) -> None:
    """The controller's snapshot took minutes with thousands of trials. Calls are counted, not seconds."""
    calls = {}
    for packs in (20, 200):
        space = Workspace(tmp_path / f"w{packs}")
        specs = lab.cell({}, range(packs * 50))
        lab.write_plan(space, "s", [specs[n : n + 50] for n in range(0, packs * 50, 50)])
        fake = FakeBackend(tmp_path / f"c{packs}.json", run_s=1e9)
        loop = Loop(space, fake, Policy(probe=False, max_in_flight=4), code="", index=True)
        loop.tick()
        loop.tick()
        calls[packs] = calls_of(loop.tick)
        loop.close()
    assert calls[200] < 1.2 * calls[20] + 200, calls


def calls_of(action: Callable[[], Any]) -> int:
    """How many functions of ours an action calls."""
    count = 0

    def look(frame: Any, event: str, _: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(look)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


def test_7_14_a_dry_run_is_linear_in_the_cells(workspace: Workspace, tmp_path: Path) -> None:
    """Expanding a few hundred cells took a minute, quadratic in the length. Calls are counted, not seconds."""
    calls = {}
    for cells in (100, 400, 1600):
        file = tmp_path / f"s{cells}.yaml"
        levels = [round(0.001 * n, 3) for n in range(cells)]
        factors = {"level": {"path": "level", "values": levels}}
        file.write_text(yaml.safe_dump({"name": f"s{cells}", "runner": "toy", "factors": factors}))
        prepare(workspace, str(file))  # imports
        calls[cells] = calls_of(lambda file=file: prepare(workspace, str(file)))
    steps = (calls[400] - calls[100]) / 300, (calls[1600] - calls[400]) / 1200
    assert steps[1] < 1.1 * steps[0], (calls, "calls a cell must not grow")


class Matrix:
    """One run in each state, on a fake cluster."""

    STATES: tuple[str, ...] = ("completed", "failed", "cancelled", "running", "queued", "pending")

    def __init__(self, workspace: Workspace, lab: ModuleType, orchestrate: Command, folder: Path) -> None:
        self.space, self.orchestrate = workspace, orchestrate
        specs = lab.cell({}, range(6))
        self.packs = lab.write_plan(workspace, "s", [[spec] for spec in specs])
        self.runs = dict(zip(self.STATES, [spec.id for spec in specs], strict=True))
        fake = FakeBackend(folder / "c.json", run_s=1e9)
        self.loop = Loop(workspace, fake, Policy(probe=False, max_in_flight=5), code="")
        self.loop.tick()
        completed, failed, cancelled, running, _, _ = self.packs
        for number, pack in enumerate((completed, failed, cancelled, running), start=1):
            worker = lab.pretend(workspace.attempt(pack, 1).path, f"orc-{pack}-a1/{number}/0")
            for _ in range(4 if pack == completed else 2):
                next(worker, None)
        why: Any = {"by": "worker", "message": "wrong", "failure": FailureClass.USER_ERROR}
        close_attempt(workspace.attempt(failed, 1), outcome="failed", **why)
        orchestrate("cancel", self.runs["cancelled"])
        close_attempt(workspace.attempt(cancelled, 1), by="worker", outcome="cancelled")
        self.loop.policy = self.loop.board.policy = replace(self.loop.policy, max_in_flight=2)
        assert self.states() == {state: state for state in self.STATES}

    def states(self) -> dict[str, str]:
        self.loop.tick()
        known = self.loop.board.states
        return {name: str(known.get(run, RunState.PENDING)) for name, run in self.runs.items()}


@pytest.fixture
def matrix(workspace: Workspace, lab: ModuleType, orchestrate: Command, tmp_path: Path) -> Matrix:
    return Matrix(workspace, lab, orchestrate, tmp_path)


@pytest.mark.parametrize(
    ("verb", "touched"),
    [
        (("retry",), {"failed", "cancelled"}),
        (("retry", "--fresh"), {"failed", "cancelled"}),
        (("cancel",), {"running", "queued", "pending"}),
    ],
)
def test_8_03_every_verb_says_whom_it_touches_in_every_state(
    matrix: Matrix, json_of: Callable[[str], Any], verb: tuple[str, ...], touched: set[str]
) -> None:
    """Resume did not run errored trials again; nobody could tell what a verb would touch."""
    asked = len(list(matrix.space.requests.iterdir()))
    code, out, _ = matrix.orchestrate(*verb, "--sweep", "s", "--dry-run", "--json")
    assert code == 0
    assert {row["run"] for row in json_of(out)["runs"]} == {matrix.runs[state] for state in touched}
    for state, run in matrix.runs.items():
        _, out, _ = matrix.orchestrate(*verb, run, "--dry-run", "--json")
        assert bool(json_of(out)["runs"]) == (state in touched), state
    assert len(list(matrix.space.requests.iterdir())) == asked, "previews ask for nothing"


def test_8_03_verbs_do_what_they_say_and_never_touch_what_is_finished(matrix: Matrix) -> None:
    assert matrix.orchestrate("retry", matrix.runs["completed"])[1] == "No failed or cancelled run to retry.\n"
    assert "No run to cancel" in matrix.orchestrate("cancel", matrix.runs["completed"])[1]
    matrix.orchestrate("retry", "--yes")
    assert matrix.states() == {state: state for state in Matrix.STATES} | dict.fromkeys(
        ("failed", "cancelled"), "pending"
    )
    matrix.orchestrate("cancel", "--sweep", "s", "--yes")
    after = matrix.states()
    assert {after[state] for state in ("failed", "cancelled", "pending")} == {"cancelled"}
    assert after["completed"] == "completed"
    assert len(matrix.space.attempts(matrix.packs[0])) == 1


def test_8_06_a_seed_that_is_there_twice_is_refused(orchestrate: Command, tmp_path: Path) -> None:
    """An aggregate counted the same seed twice."""
    table = tmp_path / "t.csv"
    rows = [f"{arm},{seed},0.{seed}" for arm in ("a", "b") for seed in (1, 2, 3)]
    table.write_text("\n".join(["arm,seed,value", *rows, "b,1,0.5"]) + "\n")
    code, _, err = orchestrate("compare", str(table), "--baseline", "a", "--metric", "value")
    assert code == 2
    assert "duplicate results" in err


def test_8_06_one_run_in_two_sweeps_is_counted_once(workspace: Workspace, lab: ModuleType, tmp_path: Path) -> None:
    specs = lab.cell({}, [1, 2])
    lab.write_plan(workspace, "one", [specs])
    lab.write_plan(workspace, "two", [specs])
    fake = FakeBackend(tmp_path / "c.json", execute=lambda entry, job: lab.pretend(Path(entry["cwd"]), job))
    loop = Loop(workspace, fake, Policy(probe=False), code="", index=False)
    while not loop.tick().done:
        fake.step()
    assert len(fake.jobs()) == 1
    assert [summary(workspace, name).counts[RunState.COMPLETED] for name in ("one", "two")] == [2, 2]
    assert len(list(workspace.packs.glob("*/*"))) == 1


def test_8_06_two_configs_under_one_name_are_refused(orchestrate: Command, tmp_path: Path) -> None:
    """An aggregate silently mixed two arms."""
    table = tmp_path / "t.csv"
    rows = [f"base,{seed},0.5{seed},c0" for seed in (1, 2, 3)]
    rows += [f"new,{seed},0.6{seed},{'c1' if seed < 3 else 'c2'}" for seed in (1, 2, 3)]
    table.write_text("\n".join(["arm,seed,value,config", *rows]) + "\n")
    asked = ("compare", str(table), "--baseline", "base", "--metric", "value")
    code, _, err = orchestrate(*asked, "--config-column", "config")
    assert code == 2
    assert "new" in err
    assert "c1" in err
    assert "c2" in err


def test_8_06_a_changed_config_under_its_old_name_is_another_run(
    workspace: Workspace, orchestrate: Command, json_of: Callable[[str], Any], tmp_path: Path
) -> None:
    """In our own sweeps the name of an arm decides nothing: results of the old config are not counted for the new."""
    file = tmp_path / "two.yaml"

    def plan(level: float) -> None:
        arms = {"base": {}, "new": {"level": level}}
        content = {"name": "two", "runner": "toy", "factors": {"arm": arms}, "seeds": 3, "config": {"steps": 2}}
        file.write_text(yaml.safe_dump({**content, "analysis": {"baseline": {"arm": "base"}}}))
        commit(workspace, prepare(workspace, str(file)))

    plan(0.9)
    loop = Loop(workspace, LocalBackend(), FAST, code="")
    assert loop.watch().counts["two"][RunState.COMPLETED] == 6
    loop.close()
    plan(0.6)
    code, out, err = orchestrate("report", "two", "--json")
    assert code == 0, err
    counts = summary(workspace, "two").counts
    assert (counts[RunState.COMPLETED], counts[RunState.PENDING]) == (3, 3)
    assert all(cell["value"] is None and "3 pending" in cell["reason"] for cell in json_of(out)["cells"])


def test_8_07_n_mean_interval_noise_and_method_agree_with_scipy(
    orchestrate: Command, json_of: Callable[[str], Any], tmp_path: Path
) -> None:
    """Means and intervals over seeds were left to notebooks."""
    base, new = [0.50, 0.52, 0.49, 0.51], [0.58, 0.55, 0.60, 0.57]
    table = tmp_path / "t.csv"
    rows = [f"{arm},{seed},{v}" for arm, values in (("base", base), ("new", new)) for seed, v in enumerate(values)]
    table.write_text("\n".join(["arm,seed,value", *rows]) + "\n")
    asked = ("--baseline", "base", "--metric", "value", "--sigma", "own", "--correction", "none", "--json")
    code, out, err = orchestrate("compare", str(table), *asked)
    assert code == 0, err
    found = json_of(out)
    (verdict,) = found["verdicts"]
    golden: Any = stats.ttest_ind(new, base, equal_var=False)
    interval = golden.confidence_interval(0.95)
    assert (verdict["n"], verdict["n_baseline"]) == (4, 4)
    assert verdict["mean"] == pytest.approx(sum(new) / 4)
    assert verdict["p"] == pytest.approx(golden.pvalue, rel=1e-9)
    assert (verdict["low"], verdict["high"]) == (pytest.approx(interval.low), pytest.approx(interval.high))
    assert verdict["df"] == pytest.approx(golden.df)
    assert found["floors"], "the noise floor of the baseline"
    assert "t tests with sigma own" in found["sentences"][2], "the method is named"


KINDS = ("not planned", "failed", "nan", "running", "pending", "too few seeds", "not exact")


def test_8_08_a_matrix_with_one_cell_of_each_kind(
    workspace: Workspace, orchestrate: Command, json_of: Callable[[str], Any], tmp_path: Path
) -> None:
    """A cell without a number ended up blank, zero, or as a mean over fewer seeds. 8 arms on 8 tasks; on the first
    task every arm but the baseline has its own trouble."""
    arms = {"base": {}} | {kind.replace(" ", "_"): {"note": kind} for kind in KINDS}
    content = {
        "name": "kinds",
        "runner": "toy",
        "factors": {"arm": arms, "task": {f"t{n}": {"stack": f"t{n}"} for n in range(8)}},
        "seeds": 3,
        "config": {"steps": 4},
        "exclude": [{"when": {"arm": "not_planned", "task": "t0"}, "reason": "the vocabulary does not fit"}],
        "analysis": {"baseline": {"arm": "base"}, "arm": "arm", "column": "task"},
    }
    file = tmp_path / "kinds.yaml"
    file.write_text(yaml.safe_dump(content))
    prepared = prepare(workspace, str(file))
    commit(workspace, prepared)
    pack_of = {pack.runs[0]: pack.id for pack in prepared.design.packs}
    for run in prepared.design.runs:
        labels = prepared.design.labels(run)
        kind = labels["arm"].replace("_", " ") if labels["task"] == "t0" else ""
        fill(workspace.attempt(pack_of[run.id], 1), run.id, int(labels["seed"]), kind)
    code, out, err = orchestrate("report", "kinds", "--json")
    assert code == 0, err
    content = json_of(out)
    cells = {(cell["row"], cell["column"]): cell for cell in content["cells"]}
    first = {kind: cells[kind.replace(" ", "_"), "t0"] for kind in KINDS}
    said = {
        "not planned": "the vocabulary does not fit",
        "failed": "user error",
        "running": "running",
        "pending": "pending",
        "too few seeds": "2 failed",
    }
    for kind, word in said.items():
        assert word in str(first[kind]["reason"]), (kind, first[kind])
        assert not first[kind]["decided"], "no ranking over a cell with a reason"
    for kind in ("not planned", "failed", "running", "pending"):
        assert first[kind]["value"] is None, kind
    assert "diverged" in str(first["nan"]), first["nan"]
    assert content["resumes"]["not_exact"] == {"not exact: threads 1 -> 2": 3}
    whole = [cell for (_, task), cell in cells.items() if task != "t0"]
    assert len(whole) == 49
    assert all(cell["value"] is not None and cell["n"] == 3 for cell in whole)
    code, _, err = orchestrate("report", "kinds", "--strict")
    assert code == 1
    assert "no number" in err or "without a number" in err


def fill(place: AttemptDir, run: str, seed: int, kind: str) -> None:
    """Facts of one run as its kind wants them; ``""``: all went well."""
    if kind == "pending":
        return
    place.path.mkdir(parents=True)
    member = {"run": run, "config": 0, "seed": seed}
    launch = {"pack": place.pack, "attempt": 1, "name": f"orc-{place.pack}-a1", "runner": "toy", "configs": [{}]}
    place.launch.write_text(json.dumps({**launch, "members": [member], "root": "/"}))
    place.claimed.write_text(json.dumps({"time": 0.0, "job": f"orc-{place.pack}-a1/1/0", "host": "h", "pid": 1}))
    log = AppendLog(place.facts)
    exact = "not exact: threads 1 -> 2" if kind == "not exact" else None
    log.append(fact_record(Started(time=1.0, step=0, exact=exact, host="h", pid=1, members=1, threads=1)))
    failed = kind == "failed" or (kind == "too few seeds" and seed > 1)
    if kind == "nan":
        gone: Any = {"failure": FailureClass.DIVERGED, "message": "loss is nan at step 3"}
        log.append(fact_record(Finished(time=2.0, run=run, status="failed", step=3, **gone)))
    elif kind != "running" and not failed:
        value = 0.5 + 0.01 * (seed + len(run) % 3) + 0.001 * int(run[-2:], 16) / 255
        rows = AppendLog(place.metrics)
        rows.append({"run": run, "step": 4, "test/accuracy": value})
        rows.close()
        summary: dict[str, float | int | str | None] = {"test/accuracy": value}
        verdicts = (exact,) if exact else ()
        log.append(
            fact_record(
                Finished(time=2.0, run=run, status="completed", step=4, seconds=1, summary=summary, exact=verdicts)
            )
        )
    log.close()
    if failed:
        close_attempt(place, by="worker", outcome="failed", failure=FailureClass.USER_ERROR, message="wrong")
    elif kind != "running":
        close_attempt(place, by="worker", outcome="completed", step=4)
