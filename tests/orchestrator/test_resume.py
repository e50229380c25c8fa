"""What `retry` foretells is what happens: real toy runs, killed and retried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from cluster.local_backend import LocalBackend
from jobs.facts import Finished, Started
from jobs.layout import judge_count
from jobs.spec import RunSpec
from jobs.state import read_pack
from jobs.workspace import Workspace
from orchestrator.cli.main import main
from orchestrator.desired import read_desired
from orchestrator.fitting import fit_notices, judge_fit
from orchestrator.loop import Loop
from orchestrator.policy import LOCAL
from orchestrator.requests import Wishes, write_request
from orchestrator.resume import Resume, foretell
from sweeps.design import PackPlan

NEVER = replace(LOCAL, poll_s=(0.02, 0.2), probe=False, retries={})
"""Nothing is tried again unless a person asks."""
BREAKS = {"steps": 10, "faults": {"error_at": 8, "attempts": [1]}}


class Bench:
    """A workspace with one pack that has failed once."""

    def __init__(self, workspace: Workspace, lab: ModuleType) -> None:
        self.space, self.lab = workspace, lab
        self.runs: list[str] = []
        self.pack = ""

    def fail(self, *configs: dict[str, Any], **plan: Any) -> None:
        specs = [RunSpec("toy", config, seed) for seed, config in enumerate(configs)]
        self.runs = [spec.id for spec in specs]
        self.plan(specs, **plan)
        self.watch()

    def plan(self, specs: Sequence[RunSpec], **plan: Any) -> None:
        execution = {"checkpoint_steps": 3, "settings": {"keep_checkpoints": 9}, **plan.pop("execution", {})}
        (self.pack,) = self.lab.write_plan(self.space, "s", [specs], execution=execution, **plan)

    def watch(self) -> None:
        loop = Loop(self.space, LocalBackend(), NEVER, code="")
        loop.watch()
        loop.close()

    def foretold(self, *runs: str, fresh: bool = False) -> Resume:
        wishes = Wishes(self.space)
        wishes.refresh()
        pack = read_desired(self.space).packs[self.pack]
        return foretell(self.space, pack, runs or self.runs, wishes, fresh=fresh, policy=NEVER)

    def retried(self, *runs: str, fresh: bool = False) -> tuple[int, str | None]:
        """Ask, watch, and tell where the last attempt really began, and how exactly by its own word."""
        number = len(self.space.attempts(self.pack))
        write_request(self.space, "retry", dict.fromkeys(runs or self.runs, number), fresh=fresh)
        self.watch()
        facts = read_pack(self.space.pack(self.pack))[-1].facts
        started = next(fact for fact in facts if isinstance(fact, Started))
        return started.step, started.exact


@pytest.fixture
def bench(workspace: Workspace, lab: ModuleType) -> Bench:
    return Bench(workspace, lab)


def test_from_the_newest_checkpoint_exactly(bench: Bench) -> None:
    bench.fail(BREAKS)
    told = bench.foretold()
    assert (told.step, told.verdict, told.passed) == (6, "exact", ())
    assert bench.retried() == (6, "exact")


def test_a_fresh_one_from_the_start_and_past_what_was_kept_for_ever(bench: Bench) -> None:
    bench.fail({"steps": 10, "faults": {"error_at": 8}})
    told = bench.foretold(fresh=True)
    assert (told.step, told.words) == (0, "fresh: asked for")
    assert bench.retried(fresh=True) == (0, None)
    told = bench.foretold()
    assert (told.step, told.checkpoint and told.checkpoint.attempt) == (6, 2)
    assert bench.retried() == (6, "exact")


def test_a_checkpoint_in_which_a_retried_run_had_ended_is_of_no_use_to_it(bench: Bench) -> None:
    """Its pack may go on from there; the run itself cannot."""
    bench.fail({"steps": 10, "faults": {"nan_at": 4, "attempts": [1]}}, BREAKS)
    one, other = bench.runs
    assert (bench.foretold(other).step, bench.foretold(one, other).step) == (6, 3)
    (passed,) = bench.foretold(one, other).passed
    assert "holds finished runs" in passed
    assert bench.retried(one, other) == (3, "exact")


def test_a_broken_checkpoint_is_passed_over_by_both(bench: Bench) -> None:
    bench.fail(BREAKS)
    newest = max(bench.space.attempt(bench.pack, 1).checkpoints.glob("step-*"))
    (newest / "state.json").write_bytes(b"cut")
    told = bench.foretold()
    assert told.step == 3
    assert "has 3 bytes" in told.passed[0]
    assert bench.retried() == (3, "exact")


def test_4_04_another_number_of_processes_is_judged_by_what_the_manifest_says(bench: Bench) -> None:
    """From metadata alone: what the state is, nobody reads."""
    bench.fail(BREAKS)
    for path in bench.space.attempt(bench.pack, 1).checkpoints.glob("step-*"):
        (path / "state.json").chmod(0)
    spec = RunSpec("toy", BREAKS, 0)
    fit = {count: judge_fit(bench.space, bench.pack, {"processes": count}) for count in (1, 8)}
    assert fit == {1: ("exact", ""), 8: ("exact", "")}, "a toy's state is whole, and no bit of it knows of processes"
    bench.plan([spec], resources={"nodes": 2, "gpus": 8})
    assert bench.foretold().verdict == "exact"


@pytest.mark.parametrize(
    ("layout", "before", "now", "verdict"),
    [
        ("whole", 8, 16, "exact"),
        ("sums", 8, 8, "exact"),
        ("sums", 8, 16, "not exact: processes 8 -> 16"),
        ("sharded", 8, 8, "exact"),
        ("sharded", 4, 6, "refused: its state was saved in parts by 4 processes, the plan asks for 6; go back to 4"),
        (None, 1, 2, "not exact: processes 1 -> 2"),
    ],
)
def test_4_03_what_another_number_of_processes_makes_of_a_resume(
    layout: str | None, before: int, now: int, verdict: str
) -> None:
    meta = {"world_size": before} | ({"layout": layout} if layout else {})
    told, why = judge_count(meta, now)
    assert f"{told}: {why}".removesuffix(": ").startswith(verdict)


def test_a_resume_that_is_not_exact_says_so_on_the_run(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """Foretold before it is queued, by `retry` and by the plan, and carried by the run afterwards."""
    config = {**BREAKS, "layout": "sums"}
    bench.fail(config)
    spec = RunSpec("toy", config, 0)
    bench.plan([spec], resources={"processes": 2})
    assert bench.foretold().words == "not exact: processes 1 -> 2"
    (pack,) = read_desired(bench.space).packs.values()
    planned: Any = SimpleNamespace(packs=[PackPlan(pack.id, pack.runs, "s", 0, pack.resources, {})])
    notices = fit_notices(bench.space, planned)
    assert notices == ["1 pack would go on not exact: processes 1 -> 2"]
    assert bench.retried() == (6, "not exact: processes 1 -> 2")
    finished = next(fact for fact in read_pack(bench.space.pack(bench.pack))[-1].facts if isinstance(fact, Finished))
    assert finished.exact == ("resumed at step 6: not exact: processes 1 -> 2",)


def test_a_plan_refuses_runs_that_cannot_use_several_processes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "name: several\nrunner: train\nresources: {processes: 2}\nconfig: {optimizer: {lr: 0.01}, steps: 9, "
    text += "task: {name: memorize, values: 8}}\nfactors: {plan: {one: {}, two: {strategy: ddp}}}\n"
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(SystemExit) as exit:
        main(["--root", str(tmp_path / "runs"), "plan", str(tmp_path / "s.yaml"), "--json"])
    assert exit.value.code == 2
    assert "s.yaml:3: resources.processes (cell train plan=one): strategy: single is one" in capsys.readouterr().err


def test_other_threads_are_not_exact_and_parts_for_another_number_of_processes_are_refused(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {**BREAKS, "layout": "sharded"}
    bench.fail(config)
    spec = RunSpec("toy", config, 0)
    bench.plan([spec], execution={"threads": 2})
    assert bench.foretold().words == "not exact: threads 1 -> 2"
    bench.plan([spec], resources={"nodes": 2, "gpus": 2})
    assert bench.foretold().words.startswith("refused: its state was saved in parts by 1 process, the plan asks for 4")
    write_request(bench.space, "retry", {spec.id: 1})  # by somebody who does not ask first: it is not queued either
    bench.watch()
    assert len(bench.space.attempts(bench.pack)) == 1
    loop = Loop(bench.space, LocalBackend(), NEVER, code="")
    reasons = loop.tick().waiting["s"]
    loop.close()
    assert list(reasons) == [why for why in reasons if why.startswith("blocked: its state was saved in parts by 1")]
    assert bench.foretold(fresh=True).verdict == "fresh"
    write_request(bench.space, "cancel", {spec.id: 1})  # for the command, whose policy would try it again by itself
    with pytest.raises(SystemExit) as exit:
        main(["--root", str(bench.space.root), "retry", "--yes"])
    assert exit.value.code == 3
    said = capsys.readouterr()
    assert "from step 6  refused" in said.out
    assert "1 of 1 runs cannot be resumed" in said.err
    assert len(list(bench.space.requests.iterdir())) == 2, "nothing was asked for"


def test_while_an_attempt_is_alive_nobody_can_say(bench: Bench, workspace: Workspace) -> None:
    slow = {"steps": 400, "step_seconds": 0.02}
    specs = [RunSpec("toy", {"steps": 400, "step_seconds": 0.02, "faults": {"nan_at": 1}}, 0), RunSpec("toy", slow, 1)]
    bench.runs = [spec.id for spec in specs]
    bench.plan(specs)
    seen: list[Resume] = []

    def look(report: Any) -> None:
        place = workspace.attempt(bench.pack, 1)
        if place.facts.exists() and b"finished" in place.facts.read_bytes() and not seen:
            seen.append(bench.foretold(bench.runs[0]))
            write_request(workspace, "cancel", dict.fromkeys(bench.runs, 1))

    loop = Loop(workspace, LocalBackend(), NEVER, code="")
    loop.watch(look)
    loop.close()
    assert seen[0].words == "later: attempt 1 of its pack is alive"


def test_the_command_says_the_same_as_json(
    bench: Bench, capsys: pytest.CaptureFixture[str], json_of: Callable[[str], Any]
) -> None:
    bench.fail({"steps": 10, "faults": {"gpu_oom_at": 8}})
    with pytest.raises(SystemExit) as exit:
        main(["--root", str(bench.space.root), "retry", "--dry-run", "--json"])
    assert exit.value.code == 0
    (row,) = json_of(capsys.readouterr().out)["runs"]
    assert row == {"run": bench.runs[0], "pack": bench.pack, "from_step": 6, "resume": "exact", "why": ""}
    assert not bench.space.requests.exists()
