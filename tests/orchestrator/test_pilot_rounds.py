"""A study whose rates are chosen by a pilot: priced before, run after, extended at edges, taken up after a kill."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from cluster.process_id import process_token
from jobs.facts import Finished, read_claimed
from jobs.state import read_pack
from jobs.workspace import Workspace
from orchestrator.cli.main import cli
from orchestrator.errors import OrchestratorError
from orchestrator.gather.parquet import load_plan
from orchestrator.pilot_rounds import next_round, outlook
from orchestrator.planning import commit, prepare
from sweeps.errors import SweepError

DEADLINE_S = 60.0
BEST = {"near": 1e-2, "far": 1e-1, "beyond": 1e9}
"""The rate at which each task's loss is least. The pilot's grid ends at 2e-2."""


def pilot_content(**config: Any) -> dict[str, Any]:
    return {
        "name": "grid",
        "runner": "toy",
        "seeds": {"values": 2, "first": 9001},
        "config": {"steps": 4, "chance": 0.1, **config},
        "factors": {
            "task": {name: {"best_lr": best, "note": name} for name, best in BEST.items()},
            "lr": [5e-3, 1e-2, 2e-2],
        },
        "pack": {"by": [], "max": 64},
    }


def study_content() -> dict[str, Any]:
    return {
        "name": "study",
        "runner": "toy",
        "seeds": 2,
        "pilots": {"rates": {"sweep": "pilot.yaml", "clip": [2, 4]}},
        "factors": {
            "task": {
                name: {
                    "note": name,
                    "lr": f"${{values.rates.{name}.lr}}",
                    "steps": f"${{values.rates.{name}.steps}}",
                }
                for name in BEST
            },
            "arm": {"one": {}, "two": {"level": 0.9}},
        },
        "pack": {"by": [], "max": 64},
        "analysis": {"baseline": {"arm": "one"}, "column": "task"},
    }


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pilot.yaml").write_text(yaml.safe_dump(pilot_content()))
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study_content()))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def space(folder: Path) -> Workspace:
    return Workspace(folder / "runs")


def typed(*arguments: str) -> Result:
    """A verb that launches nothing."""
    return CliRunner().invoke(cli, arguments)


def swept(*arguments: str) -> tuple[int, str]:
    """(exit code, stderr) of `orchestrate sweep`."""
    argv = [sys.executable, "-P", "-m", "orchestrator.cli", "sweep", *arguments]
    done = subprocess.run(
        argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=DEADLINE_S, check=False
    )
    return done.returncode, done.stderr


def rates_of(space: Workspace, sweep: str) -> dict[str, set[float]]:
    """Task -> rates of a sweep's runs."""
    found: dict[str, set[float]] = {}
    for cell in load_plan(space, sweep).cells.values():
        found.setdefault(cell["labels"]["task"], set()).add(cell["config"]["lr"])
    return found


def executions(space: Workspace) -> Counter[str]:
    """Run -> how often it was completed."""
    records = (record for pack in space.packs.glob("*/*") for record in read_pack(pack))
    return Counter(fact.run for record in records for fact in record.facts if isinstance(fact, Finished))


def test_without_a_table_the_study_is_priced_and_nothing_is_written(space: Workspace) -> None:
    result = typed("plan", "study.yaml", "--json")
    assert result.exit_code == 0, result.output
    plan = json.loads(result.stdout)
    assert plan["assumed"] == ["rates"]
    assert plan["tables"] == {}
    (pilot,) = plan["pilots"]
    assert (pilot["values"], pilot["sweep"], pilot["runs"], pilot["done"]) == ("rates", "grid", 18, 0)
    assert {cell["steps"] for cell in plan["cells"]} == {10}, "2.5 times the upper limit of T"
    text = typed("plan", "study.yaml").stdout
    assert "prices only" in " ".join(text.split())
    assert not space.root.exists()
    with pytest.raises(OrchestratorError, match=r"no pilot has chosen its values\.rates"):
        commit(space, prepare(space, "study.yaml"))
    assert not space.root.exists()


def test_the_chain_from_the_grid_over_its_extensions_to_the_study(space: Workspace) -> None:
    code, err = swept("study.yaml")
    assert code == 0, err
    # `near` is inside the grid; `far` needs one decade more; `beyond` is followed for two and lies at the edge still.
    assert rates_of(space, "grid-x1") == {"far": {0.05, 0.1, 0.2}, "beyond": {0.05, 0.1, 0.2}}
    assert rates_of(space, "grid-x2") == {"beyond": {0.5, 1.0, 2.0}}
    assert not space.plan("grid-x3").exists()
    # The loss is 1 + |log10(lr / best)|: of near's rates 1e-2 alone is within ten percent; so is 1e-1 of far's.
    assert rates_of(space, "study") == {"near": {0.01}, "far": {0.1}, "beyond": {2.0}}
    (table,) = (space.root / "rates").iterdir()
    content = yaml.safe_load(table.read_text())
    assert set(content["values"]["rates"]) == set(BEST)
    assert content["notices"]["rates"].endswith("should be extended: beyond (largest)")
    made_by = content["values"]["rates_source"]["made_by"]
    assert made_by == "orchestrate rates grid grid-x1 grid-x2 --size full --clip 2 4"
    assert f"# Made by: {made_by}" in table.read_text()
    assert set(executions(space).values()) == {1}
    # The command that the table names makes the same table.
    again = typed(*made_by.split()[1:], "-o", "by-hand.yaml")
    assert again.exit_code == 0, again.output
    by_hand = Path("by-hand.yaml").read_text()
    assert by_hand.replace(" -o by-hand.yaml", "") == table.read_text()
    # Typed again, nothing is left; a table that was deleted comes back from the runs.
    written = table.read_bytes()
    table.unlink()
    plan = json.loads(typed("plan", "study.yaml", "--json").stdout)
    assert [(pilot["sweep"], pilot["done"]) for pilot in plan["pilots"]] == [("grid", 18)]
    assert next_round(space, "study.yaml", ()) is None, "there is nothing to run"
    assert table.read_bytes() == written
    plan = json.loads(typed("plan", "study.yaml", "--json").stdout)
    assert (plan["assumed"], plan["pilots"], plan["runs"], plan["done"]) == ([], [], 12, 12)
    assert plan["tables"] == {"rates": str(table)}


def test_a_pilot_with_failed_runs_stops_the_chain_and_says_what_to_type(folder: Path, space: Workspace) -> None:
    (folder / "pilot.yaml").write_text(yaml.safe_dump(pilot_content(faults={"gpu_oom_at": 2})))
    code, err = swept("study.yaml")
    assert code == 1
    assert re.search(r"the pilot grid ended without \d+ of its 18 runs \(r\w+: failed, gpu_out_of_memory, .+\)", err)
    assert "retry --sweep grid" in err
    assert "sweep study.yaml" in err.split("Then go on:")[1]
    assert "Traceback" not in err
    assert not space.plan("study").exists()
    assert not (space.root / "rates").exists()


def test_a_diverged_seed_is_an_answer_and_no_failure(folder: Path, space: Workspace) -> None:
    content = pilot_content()
    content["factors"] = {"task": {"near": {"best_lr": 1e-2}}, "lr": {"values": [1e-3, 1e-2, 2e-2]}}
    content["cells"] = [{"when": {"lr": 2e-2}, "config": {"faults": {"nan_at": 2}}}]
    (folder / "pilot.yaml").write_text(yaml.safe_dump(content))
    study = study_content()
    study["factors"]["task"] = {"near": study["factors"]["task"]["near"]}
    (folder / "study.yaml").write_text(yaml.safe_dump(study))
    code, err = swept("study.yaml")
    assert code == 0, err
    assert rates_of(space, "study") == {"near": {0.01}}


def test_a_smaller_study_asks_for_a_smaller_pilot_and_shares_its_runs(space: Workspace) -> None:
    whole = outlook(space, "study.yaml", ()).waiting["rates"].prepared
    part = outlook(space, "study.yaml", ("only.task=[near,far]",)).waiting["rates"].prepared
    assert {part.design.labels(run)["task"] for run in part.design.runs} == {"near", "far"}
    assert {run.id for run in part.design.runs} < {run.id for run in whole.design.runs}
    assert part.name != whole.name, "the plan of the whole pilot stays what it is"


def test_a_smaller_study_goes_on_with_the_table_of_its_smaller_pilot(folder: Path, space: Workspace) -> None:
    """Levels that `only` leaves out have no entry in the table, and no assumed one may be frozen for them."""
    content = study_content()
    content["analysis"]["step"] = {name: f"${{values.rates.{name}.steps}}" for name in BEST}
    (folder / "study.yaml").write_text(yaml.safe_dump(content))
    (folder / "table.yaml").write_text("values: {rates: {near: {lr: 0.01, T: 2, steps: 3}}}\npilots: {rates: null}\n")
    prepared = prepare(space, "study.yaml", ("only.task=[near]",), {"rates": folder / "table.yaml"})
    assert prepared.design.assumed == ()
    assert {cell.config["lr"] for cell in prepared.design.cells} == {0.01}
    assert prepared.design.analysis["step"] == {"near": 3}


def test_a_pilot_on_the_study_s_own_seeds_is_refused(space: Workspace) -> None:
    with pytest.raises(SweepError, match=r"study\.yaml:\d+: pilots\.rates: seeds 9001 of pilot grid are"):
        outlook(space, "study.yaml", ("seeds=[1,9001]",))


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("pilots.rates.sweep=nowhere.yaml", "no such file or recipe, got 'nowhere.yaml'"),
        ("pilots.rates.factor=rate", "no such factor of .*pilot.yaml, got 'rate'.*choose from: lr, task"),
        ("pilots.rates.column=tasks", "did you mean task"),
        ("pilots.rates.factor=task", "a rate is chosen from positive numbers"),
        ("pilots.rates.clip=[9,3]", "clip is the smallest and the largest T"),
        ("pilots.rates.rule=best", "not one of the choices, got 'best'"),
    ],
)
def test_mistakes_of_the_block_come_with_what_would_be_right(space: Workspace, override: str, said: str) -> None:
    with pytest.raises(SweepError, match=said):
        prepare(space, "study.yaml", (override,))


def test_without_its_pilot_a_file_needs_values_of_its_own(folder: Path, space: Workspace) -> None:
    given = "values.rates={near: {lr: 1, steps: 3}, far: {lr: 1, steps: 3}, beyond: {lr: 1, steps: 3}}"
    prepared = prepare(space, "study.yaml", ("pilots.rates=null", given))
    assert prepared.design.assumed == ()
    assert next_round(space, "study.yaml", ("pilots.rates=null", given)) is None
    with pytest.raises(SweepError, match=r"values\.rates"):
        prepare(space, "study.yaml", ("pilots.rates=null",))


class Processes:
    """Real commands in sessions of their own."""

    def __init__(self, space: Workspace) -> None:
        self.space = space
        self.started: list[subprocess.Popen[str]] = []

    def type(self, *arguments: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-P", "-m", "orchestrator.cli", *arguments]
        pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
        self.started.append(subprocess.Popen(argv, text=True, start_new_session=True, **pipes))
        return self.started[-1]

    def until(self, what: Any) -> Any:
        deadline = time.monotonic() + DEADLINE_S
        while not (found := what()):
            assert time.monotonic() < deadline, "it never came"
            time.sleep(0.02)
        return found


@pytest.fixture
def processes(space: Workspace) -> Iterator[Processes]:
    processes = Processes(space)
    yield processes
    for process in processes.started:
        if process.poll() is None:
            process.kill()
            process.communicate()
    for path in space.packs.glob("*/*/a*/claimed.json"):
        claim = read_claimed(path)
        if claim is not None and Path(f"/proc/{claim.pid}").exists():
            os.kill(claim.pid, signal.SIGKILL)


def test_killed_within_the_pilot_and_typed_again_detached_it_goes_on_where_it_was(
    folder: Path, processes: Processes
) -> None:
    content = pilot_content(step_seconds=0.1)
    content["pack"] = {"by": ["seed"], "max": 64}
    (folder / "pilot.yaml").write_text(yaml.safe_dump(content))
    space = processes.space
    first = processes.type("sweep", "study.yaml", "--max-in-flight", "1")
    processes.until(lambda: executions(space))
    first.kill()
    first.communicate()
    assert 0 < len(executions(space)) < 18 + 6 + 3
    assert not space.plan("study").exists()
    away = processes.type("sweep", "study.yaml", "--detach")
    out, err = away.communicate(timeout=DEADLINE_S)
    assert away.returncode == 0, err
    assert "runs in the background" in out
    watcher = int(out.split("process ")[1].split(")")[0])
    log = space.sweep("study") / "watch.log"
    processes.until(lambda: "Report:" in log.read_text() or "error" in log.read_text())
    processes.until(lambda: process_token(watcher) is None)
    assert "study: 12 completed" in log.read_text()
    assert set(executions(space).values()) == {1}, "nothing was run twice"
    assert len(executions(space)) == 18 + 12 + 6 + 12
    assert rates_of(space, "study") == {"near": {0.01}, "far": {0.1}, "beyond": {2.0}}


def test_detached_into_a_folder_that_is_not_there_yet_it_runs_the_pilot_too(processes: Processes) -> None:
    """The log must not make the new folder look like somebody else's, for the process that is left behind."""
    away = processes.type("sweep", "study.yaml", "--detach")
    out, err = away.communicate(timeout=DEADLINE_S)
    assert away.returncode == 0, err
    watcher = int(out.split("process ")[1].split(")")[0])
    log = processes.space.sweep("study") / "watch.log"
    processes.until(lambda: process_token(watcher) is None)
    assert "study: 12 completed" in log.read_text()
