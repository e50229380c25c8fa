"""`plan`, `retry` and `errors` say which time limit, warning and memory jobs would ask for, and by whose word."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.fake_slurm.control import FakeSlurm
from cluster.local_backend import LocalBackend
from cluster.slurm.commands import Commands
from cluster.slurm.profile import Profile
from cluster.submitit_backend import SlurmBackend
from jobs.durable import AppendLog
from jobs.facts import Checkpointed, FailureClass, Started, fact_record
from jobs.state import RunState
from jobs.workspace import Workspace
from orchestrator.loop import Loop
from orchestrator.planning import commit, prepare
from orchestrator.policy import LOCAL, Retry

FAST = replace(LOCAL, poll_s=(0.02, 0.2), probe=False, retries={FailureClass.OUT_OF_MEMORY: Retry(1)})
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSlurm]:
    fake = FakeSlurm(tmp_path / "slurm", MaxTime=600)
    monkeypatch.setenv("PATH", fake.env()["PATH"])
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    yield fake
    fake.close()


def write(folder: Path, name: str, config: dict[str, Any], **more: Any) -> str:
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump({"name": name, "runner": "toy", "config": config, "seeds": 1, **more}))
    return str(file)


def carry_out(workspace: Workspace, file: str, backend: Any) -> Any:
    commit(workspace, prepare(workspace, file))
    loop = Loop(workspace, backend, replace(FAST, requeues=""), code="")
    try:
        return loop.watch()
    finally:
        loop.close()


def test_a_plan_shows_the_limit_and_the_lead_and_whose_word_they_are(
    workspace: Workspace, slurm: FakeSlurm, orchestrate: Command, json_of: Callable[[str], Any], tmp_path: Path
) -> None:
    config = {"steps": 4, "step_seconds": 0.25, "faults": {"save_seconds": 0.1}}
    execution = {"checkpoint_steps": 2}
    large = write(tmp_path, "large", {**config, "steps": 40_000}, execution=execution)
    _, out, _ = orchestrate("plan", large, "--backend", "slurm")
    assert "toy: 1 job, time limit the partition's default, warned 120 s before it (the site's)" in out
    small = write(tmp_path, "small", config, execution=execution)
    assert carry_out(workspace, small, LocalBackend()).counts["small"][RunState.COMPLETED] == 1
    _, out, _ = orchestrate("plan", large, "--backend", "slurm", "--json")
    (row,) = json_of(out)["limits"]
    assert row["minutes"] in (240, 360), "40,000 steps of a quarter of a second and a third on top"
    assert row["minutes_from"] == "from measured speed"
    assert (row["lead_s"], row["lead_from"]) == (120, "the site's; measured saves need less")
    assert row["notes"] == []
    named = write(tmp_path, "named", {**config, "steps": 40_000}, resources={"minutes": 700})
    _, out, _ = orchestrate("plan", named, "--backend", "slurm")
    assert "time limit 700 min (resources.minutes)" in out
    assert "gives at most 600" in out
    _, out, _ = orchestrate("plan", large, "--json")
    assert json_of(out)["limits"] == [], "here, nothing has a limit"


def test_a_plan_shows_a_maintenance_and_works_without_slurm(
    workspace: Workspace, slurm: FakeSlurm, orchestrate: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = slurm.now() + 3600
    slurm.configure(Maintenance={"upgrade": [start, start + 3600]}, DefaultTime=120)
    file = write(tmp_path, "one", {"steps": 4})
    _, out, _ = orchestrate("plan", file, "--backend", "slurm")
    assert "shortened from 120 min to 5" in out
    monkeypatch.setenv("PATH", str(tmp_path))
    code, out, _ = orchestrate("plan", file, "--backend", "slurm")
    assert code == 0
    assert "time limit the partition's default" in out


def test_retry_and_errors_name_the_memory_to_ask_for(
    workspace: Workspace, slurm: FakeSlurm, orchestrate: Command, json_of: Callable[[str], Any], tmp_path: Path
) -> None:
    config = {"steps": 40, "step_seconds": 0.02, "faults": {"oom_at": 20}}
    more = {"execution": {"checkpoint_steps": 10}, "resources": {"memory_mb": 500}}
    commands = Commands(looks_per_minute=6000, orders_per_minute=6000)
    backend = SlurmBackend(Profile(), submissions=workspace.submissions, commands=commands)
    file = write(tmp_path, "hungry", config, **more)
    assert carry_out(workspace, file, backend).counts["hungry"][RunState.FAILED] == 1
    end = time.monotonic() + 20
    while slurm.live():  # the shim leaves its record after the worker's last word
        assert time.monotonic() < end
        time.sleep(0.05)
    _, out, _ = orchestrate("errors")
    assert "500 MB were asked for, one process used" in " ".join(out.split())
    assert "ask for 1024 (resources.memory_mb), or allow it (resources.max_memory_mb)" in " ".join(out.split())
    _, out, _ = orchestrate("errors", "--json")
    assert json_of(out)["broken"][0]["runs"][0]["memory_wanted_mb"] == 1024
    _, out, _ = orchestrate("retry", "--dry-run")
    assert "from step 10 of 40" in out
    assert "time limit 15 min (from measured speed), warned 120 s before it" in out
    assert "memory: 500 MB were asked for" in out
    more["resources"]["max_memory_mb"] = 800
    commit(workspace, prepare(workspace, write(tmp_path, "hungry", config, **more)))
    _, out, _ = orchestrate("retry", "--dry-run", "--json")
    (row,) = json_of(out)["runs"]
    assert (row["minutes"], row["lead_s"]) == (15, 120)


def test_a_loop_asks_for_what_packs_of_another_sweep_took(
    workspace: Workspace, slurm: FakeSlurm, tmp_path: Path
) -> None:
    slurm.switch(execute=False)
    first = prepare(workspace, write(tmp_path, "first", {"steps": 4000}))
    commit(workspace, first)
    place = workspace.attempt(first.design.packs[0].id, 1)
    place.path.mkdir(parents=True)
    place.launch.write_text("{}")
    log = AppendLog(place.facts)
    log.append(fact_record(Started(time=0.0, step=0, host="n", pid=1, members=1, threads=1)))
    log.append(fact_record(Checkpointed(time=2000.0, step=2000, bytes=1, seconds=40.0)))
    log.close()
    commit(workspace, prepare(workspace, write(tmp_path, "second", {"steps": 4000, "level": 0.5})))
    commands = Commands(looks_per_minute=6000, orders_per_minute=6000)
    backend = SlurmBackend(Profile(), submissions=workspace.submissions, commands=commands)
    loop = Loop(workspace, backend, FAST, ["second"], code="", index=False)
    loop.tick()
    (spec,) = slurm.state["specs"].values()
    # 4/3 * (4 + 4000 s) + 180 + 60 s are 93 minutes, of which the next step is 120; 3 * 40 + 60 s are 180
    assert (spec["options"]["time"], spec["options"]["signal"]) == ("120", "B:USR2@180")
