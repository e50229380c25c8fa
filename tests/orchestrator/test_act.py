"""Two loops, interleaved step by step, with a crash at every step: no attempt executes twice, every run completes."""

from __future__ import annotations

import itertools
import random
import shutil
import tempfile
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cluster.backend import Resources
from cluster.fake_backend import FakeBackend
from cluster.local_backend import LocalBackend
from jobs.facts import read_closed
from jobs.launch import read_launch
from jobs.spec import InputRef, RunSpec
from jobs.state import RunState
from jobs.workspace import Workspace
from orchestrator.launching import job_request, resources_of
from orchestrator.loop import Loop
from orchestrator.policy import Policy

POLICY = Policy(quiet_s=5.0, lost_after_s=5.0, settle_s=0.0, probe=False)


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder without a disk behind it: thousands of small cases, each with its fsyncs."""
    base = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=base if base.is_dir() else None))
    yield folder
    shutil.rmtree(folder)


class Case:
    """One workspace, one cluster, two loops on them, and workers that execute what was submitted."""

    def __init__(self, folder: Path, lab: ModuleType, packs: int = 1) -> None:
        self.folder = folder
        folder.mkdir()
        self.lab = lab
        self.workspace = Workspace(folder / "w")
        self.clock = lab.Clock()
        runs = [lab.cell({}, [2 * n, 2 * n + 1]) for n in range(packs)]
        self.packs = lab.write_plan(self.workspace, "s", runs)
        self.executions: list[tuple[str, int]] = []
        self.cluster = FakeBackend(folder / "cluster.json", clock=self.clock, execute=self._execute, retry_s=1.0)

    def _execute(self, entry: Any, job: str) -> Generator[None, None, int]:
        return self.lab.pretend(Path(entry["cwd"]), job, self.executions)

    def loop(self) -> Loop:
        return Loop(self.workspace, self.cluster, POLICY, code="", index=False, clock=self.clock)

    def finish(self, *loops: Loop) -> None:
        """Everybody goes on until all is done."""
        loops = loops or (self.loop(),)
        for _ in range(60):
            self.cluster.step()
            reports = [loop.tick() for loop in loops]
            if all(report.done for report in reports):
                return self.check(reports[-1].counts["s"])
            self.clock.pass_(1.0)
        raise AssertionError(f"not done after 60 passes: {self.cluster.jobs()}")

    def check(self, counts: Mapping[RunState, int]) -> None:
        assert counts[RunState.COMPLETED] == 2 * len(self.packs), (counts, self.cluster.jobs())
        assert len(set(self.executions)) == len(self.executions), "an attempt was executed twice"
        by_pack = [pack for pack, _ in self.executions]
        assert len(set(by_pack)) == len(by_pack), "a finished pack was executed again"
        for pack in self.packs:
            for place in self.workspace.attempts(pack):
                assert read_launch(place.launch).name == f"orc-{pack}-a{place.number}"
                assert read_closed(place.closed) is not None


def advance(steps: Iterator[str], times: int) -> bool:
    """Take so many steps; False where the pass had fewer."""
    for _ in range(times):
        try:
            next(steps)
        except StopIteration:
            return False
    return True


def pass_length(folder: Path, lab: ModuleType) -> int:
    """Steps of a pass that launches one pack."""
    case = Case(folder, lab)
    names = list(case.loop().steps())
    assert names == ["observe", "link", "batch", "submit", "answer"]
    return len(names)


def test_every_interleaving_of_two_loops(memory: Path, lab: ModuleType) -> None:
    n = pass_length(memory / "length", lab) + 1  # the last step ends the pass
    orders = list(itertools.combinations(range(2 * n), n))
    assert len(orders) == 924
    for number, mine in enumerate(orders):
        case = Case(memory / str(number), lab)
        loops = [case.loop(), case.loop()]
        passes = [loop.steps() for loop in loops]
        for turn in range(2 * n):
            next(passes[turn not in mine], None)
        case.finish(*loops)
        assert len(case.executions) == 1
        shutil.rmtree(case.folder)


def orders(first: int, second: int, dice: random.Random, most: int = 20) -> list[tuple[int, ...]]:
    """Ways to interleave so many steps of two passes: which turns are the first's. All of them, or ``most`` drawn."""
    every = list(itertools.combinations(range(first + second), first))
    return every if len(every) <= most else dice.sample(every, most)


@pytest.mark.parametrize("workers", ["at once", "late"])
def test_one_loop_dies_after_every_step_whatever_the_other_had_done(
    memory: Path, lab: ModuleType, workers: str
) -> None:
    n = pass_length(memory / "length", lab) + 1
    dice, cases = random.Random(3), 0
    for dies_after, before in itertools.product(range(n + 1), range(n + 1)):
        for mine in orders(dies_after, before, dice):
            case = Case(memory / str(cases), lab)
            other = case.loop()
            dying, surviving = case.loop().steps(), other.steps()
            for turn in range(dies_after + before):
                next(dying if turn in mine else surviving, None)
                if workers == "at once":
                    case.cluster.step()
            dying.close()  # kill -9: nothing of it runs any more
            while advance(surviving, 1):
                pass
            case.finish(other)
            assert len(case.executions) == 1
            cases += 1
            shutil.rmtree(case.folder)
    assert cases > 400


def test_both_loops_die_at_random_steps_again_and_again(memory: Path, lab: ModuleType) -> None:
    dice = random.Random(7)
    died: dict[str, int] = {}
    for number in range(150):
        case = Case(memory / str(number), lab, packs=3)
        for _ in range(dice.randrange(1, 6)):
            alive = [case.loop().steps(), case.loop().steps()]
            last = ["", ""]
            for _ in range(dice.randrange(1, 16)):
                who = dice.randrange(2)
                last[who] = next(alive[who], "end")
                if dice.random() < 0.3:
                    case.cluster.step()
                if dice.random() < 0.2:
                    case.clock.pass_(dice.choice([0.5, 6.0]))
            for steps, name in zip(alive, last, strict=True):
                steps.close()
                died[name] = died.get(name, 0) + 1
        case.finish(case.loop(), case.loop())
        shutil.rmtree(case.folder)
    assert {"link", "batch", "submit", "answer", "end"} <= set(died)


def test_an_answer_that_never_came_is_looked_up(memory: Path, lab: ModuleType) -> None:
    case = Case(memory / "c", lab, packs=3)
    case.cluster.fail("submit", "accept_then_timeout")
    case.finish(case.loop())
    assert len(case.cluster.jobs()) == 3
    assert all(len(case.workspace.attempts(pack)) == 1 for pack in case.packs)


def test_a_submitter_that_is_turned_away_loses_no_attempt(memory: Path, lab: ModuleType) -> None:
    case = Case(memory / "c", lab, packs=4)
    case.cluster.fail("submit", "refuse", times=5)
    case.finish(case.loop(), case.loop())
    assert len(case.cluster.jobs()) == 4
    assert all(len(case.workspace.attempts(pack)) == 1 for pack in case.packs)


def test_a_job_nobody_is_told_of_yet_is_not_taken_for_lost(memory: Path, lab: ModuleType) -> None:
    case = Case(memory / "c", lab)
    case.cluster = FakeBackend(
        case.folder / "lagging.json", clock=case.clock, execute=case._execute, start_s=3.0, lag_s=4.0
    )
    case.finish(case.loop())
    assert case.executions == [(case.packs[0], 1)]


def test_a_duplicate_job_leaves_the_attempt_to_the_one_that_claimed_it(memory: Path, lab: ModuleType) -> None:
    case = Case(memory / "c", lab)
    loop = case.loop()
    loop.tick()
    (job,) = case.cluster.jobs()
    request = job_request(case.packs[0], loop.board.histories[case.packs[0]][0], loop.board, Resources())
    case.cluster.vanish(job["name"])
    case.cluster.submit(job["batch"], [request])
    assert len(case.cluster.jobs()) == 2
    for _ in range(6):
        case.cluster.step()
    case.finish(loop)
    assert case.executions == [(case.packs[0], 1)]


def test_refused_for_good_is_said_once_and_not_tried_again(memory: Path, lab: ModuleType) -> None:
    case = Case(memory / "c", lab)
    case.cluster.fail("submit", "forbid")
    loop = case.loop()
    report = [loop.tick() for _ in range(4)][-1]
    assert report.done
    assert report.counts["s"][RunState.FAILED] == 2
    (verdict, _) = loop.board.verdicts[case.packs[0]].runs.values()
    assert "invalid partition" in verdict.message
    assert case.cluster.calls()["submit"] == 1


def test_the_launch_file_holds_all_that_a_worker_needs(memory: Path, lab: ModuleType) -> None:
    workspace = Workspace(memory / "w")
    producer = RunSpec("toy", {"steps": 3, "products": ["shape"]}, 0)
    consumer = RunSpec("toy", {"steps": 4, "consumes": ["a"]}, 1, {"a": InputRef(producer.id, "shape")})
    packs = lab.write_plan(
        workspace,
        "s",
        [[producer], [consumer]],
        execution={"threads": 2, "checkpoint_steps": 7, "settings": {"keep_checkpoints": 3}, "notes": "not ours"},
        resources={"cpus": 2, "extra": {"partition": "long"}},
    )
    with_loop = Loop(workspace, LocalBackend(), code="", index=False)
    report = with_loop.watch()
    assert report.counts["s"][RunState.COMPLETED] == 2
    launch = read_launch(workspace.attempt(packs[1], 1).launch)
    (member,) = launch.members
    assert (member.run, member.seed, launch.configs[member.config]) == (consumer.id, 1, dict(consumer.config))
    assert (workspace.root / member.inputs["a"].path).read_bytes().startswith(b"{")
    assert (launch.threads, launch.checkpoint_steps, launch.settings["keep_checkpoints"]) == (2, 7, 3)
    assert resources_of(with_loop.board.desired.packs[packs[1]]) == Resources(cpus=2, extra=(("partition", "long"),))
