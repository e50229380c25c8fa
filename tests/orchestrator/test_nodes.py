"""Machines that fail runs are kept away from: which, why, for how long, and how a person lets them off."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cluster.backend import JobHandle, JobReport, LaunchRequest
from cluster.fake_backend import FakeBackend
from jobs.facts import Closed, FailureClass
from jobs.state import RunState
from jobs.workspace import Workspace
from orchestrator.history import AttemptView, Pulse
from orchestrator.loop import Loop
from orchestrator.nodes import Nodes
from orchestrator.policy import RETRIES, Policy, Retry
from orchestrator.requests import Wishes, forgive_node

POLICY = Policy(node_failures=3, node_exclusion_s=100.0, node_exclusion_cap_s=1000.0)


class Diary:
    """Attempts that end on nodes, one a second."""

    def __init__(self, policy: Policy = POLICY) -> None:
        self.nodes = Nodes(policy)
        self.now = 1000.0

    def end(self, node: str, pack: str, failure: str | None = None, *, shape: str = "s", took: float = 1.0) -> None:
        self.now += 1
        outcome: Any = "failed" if failure else "completed"
        view = AttemptView(1, f"orc-{pack}-a{self.now:.0f}", (f"r{pack}",), host=node, claim="j/1/0")
        view.started = None if failure else self.now - 1
        view.ended = {"seconds": took}  # it was closed by the loop
        if not failure:
            view.pulse = Pulse(1, step=5, steps=5)
        view.closed = Closed(
            time=self.now, by="loop", outcome=outcome, failure=FailureClass(failure) if failure else None
        )
        self.nodes.see(pack, shape, view)
        self.nodes.see(pack, shape, view)

    def excluded(self, after: float = 0.0, forgiven: Any = ()) -> tuple[str, ...]:
        return self.nodes.excluded(self.now + after, forgiven)


def test_hard_failures_count_each_and_the_exclusion_runs_out_and_doubles() -> None:
    diary = Diary()
    diary.end("good", "p0")
    for _ in range(2):
        diary.end("bad", "p1", "node_failure")
    assert diary.excluded() == ()
    diary.end("bad", "p1", "dirty_node")
    assert diary.excluded() == ("bad",)
    assert diary.excluded(after=99.0) == ("bad",)
    assert diary.excluded(after=101.0) == (), "the next job there is the probe"
    diary.end("bad", "p2", "node_failure")
    assert diary.excluded(after=199.0) == ("bad",)
    assert diary.excluded(after=201.0) == ()
    diary.end("bad", "p3")
    diary.end("bad", "p4", "node_failure")
    assert diary.excluded() == (), "it has done something good since"


def test_soft_failures_count_once_a_pack_and_only_where_it_may_be_the_machine() -> None:
    diary = Diary()
    diary.end("good", "p0")
    for _ in range(5):
        diary.end("bad", "p1", "launch_failed")
    assert diary.excluded() == (), "one pack says little"
    diary.end("bad", "p2", "unknown")
    diary.end("bad", "p3", "unknown", took=500.0)
    assert diary.excluded() == ("bad",)
    diary.end("good", "p2", "unknown")
    assert diary.excluded() == (), "p2 goes wrong everywhere"
    diary.end("bad", "p4", "unknown", shape="never made a step anywhere")
    assert diary.excluded() == ()
    for number, harmless in enumerate(("diverged", "user_error", "preempted", "hang")):
        diary.end("bad", f"q{number}", harmless)
    assert diary.excluded() == ()


def test_the_last_machine_that_is_known_is_never_excluded() -> None:
    diary = Diary()
    diary.end("only", "p0")
    for number in range(4):
        diary.end("only", f"p{number}", "node_failure")
    assert diary.excluded() == ()
    (verdict,) = diary.nodes.verdicts(diary.now).values()
    assert (verdict.spared, verdict.attempts, verdict.failed, len(verdict.against)) == (True, 5, 4, 4)


def test_only_names_that_the_scheduler_knows_are_handed_to_it() -> None:
    """A worker that is killed at once may leave the name of its host, and the scheduler never said where it ran."""
    diary = Diary()
    diary.end("n1", "p0")
    view = AttemptView(1, "orc-p1-a1", ("rp1",), host="n1.cluster.local", claim="j/1/0")
    view.closed = Closed(time=1.0, by="loop", outcome="lost", failure=FailureClass.NODE_FAILURE)
    diary.nodes.see("p1", "s", view)
    assert diary.nodes.avoid([view]) == ("n1.cluster.local",), "where nobody names the machines"
    diary.nodes.machines = frozenset({"n1", "n2"})
    assert diary.nodes.avoid([view]) == ()
    for number in range(3):
        diary.end("n1.cluster.local", f"q{number}", "node_failure")
        diary.end("n2", f"q{number}", "node_failure")
    assert diary.excluded() == ("n2",)
    diary.nodes.machines = frozenset()
    assert diary.excluded() == (), "not known yet"


def test_a_person_lets_a_node_off(workspace: Workspace) -> None:
    diary = Diary()
    diary.end("good", "p0")
    for number in range(3):
        diary.end("bad", f"p{number}", "node_failure")
    forgive_node(workspace, "bad", [m.attempt for m in diary.nodes.verdicts(diary.now)["bad"].against])
    wishes = Wishes(workspace)
    assert wishes.refresh() == set()
    assert diary.excluded(forgiven=wishes.forgiven) == ()
    for number in range(2):
        diary.end("bad", f"q{number}", "node_failure")
    assert diary.excluded(forgiven=wishes.forgiven) == ()
    diary.end("bad", "q2", "node_failure")
    assert diary.excluded(forgiven=wishes.forgiven) == ("bad",), "what comes later counts"


class Cluster(FakeBackend):
    """Three machines, one of them broken, and a scheduler that likes it best."""

    def __init__(self, path: Path, **options: Any) -> None:
        super().__init__(path, **options)
        self.excluded: frozenset[str] = frozenset()
        self.placed: dict[str, str] = {}
        self.history: list[str] = []

    def machines(self) -> list[str]:
        return ["bad", "n1", "n2"]

    def exclude(self, nodes: tuple[str, ...]) -> None:
        self.excluded = frozenset(nodes)

    def submit(self, batch: str, requests: Sequence[LaunchRequest]) -> list[JobHandle]:
        for request in requests:
            own = dict(request.resources.extra).get("exclude", "").split(",")
            free = [n for n in ("bad", "n1", "n2") if n not in self.excluded and n not in own]
            self.placed[request.name] = free[0]
            self.history.append(free[0])
        return super().submit(batch, requests)

    def poll(self, handles: Sequence[JobHandle]) -> dict[JobHandle, JobReport]:
        found = super().poll(handles)
        return {h: replace(report, details={"node": self.placed[h.name]}) for h, report in found.items()}


@pytest.mark.parametrize("index", [False, True])
def test_jobs_go_elsewhere_and_a_bad_machine_is_left_alone(
    workspace: Workspace, lab: ModuleType, tmp_path: Path, index: bool
) -> None:
    clock = lab.Clock()
    packs = lab.write_plan(workspace, "s", [lab.cell({}, [n]) for n in range(12)])
    cluster = Cluster(tmp_path / "c.json", clock=clock)

    def execute(entry: Any, job: str) -> Generator[None, None, int]:
        if cluster.placed[entry["name"]] == "bad":
            yield
            return 1
        yield
        return (yield from lab.pretend(Path(entry["cwd"]), job))

    cluster._execute = execute
    retries = {**RETRIES, FailureClass.LAUNCH_FAILED: Retry(5, 5.0)}
    policy = Policy(probe=False, max_in_flight=2, node_failures=3, settle_s=0.0, retries=retries)
    loop = Loop(workspace, cluster, policy, code="", clock=clock, index=index)
    for tick in range(200):
        if loop.tick().done:
            break
        cluster.step()
        clock.pass_(6.0)
        if index and tick % 10 == 9:  # what a new loop knows it has from the index
            loop.close()
            loop = Loop(workspace, cluster, policy, code="", clock=clock)
    report = loop.tick()
    loop.close()
    assert report.counts["s"][RunState.COMPLETED] == 12
    assert 3 <= cluster.history.count("bad") <= 6, "until its packs had worked elsewhere, and then no more"
    assert cluster.history[-4:] == ["n1"] * 4
    assert cluster.excluded == {"bad"}
    assert max(len(workspace.attempts(pack)) for pack in packs) <= 5
