"""Nothing that has nothing left to do stays in the queue, whoever put it there and whichever loop looks."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cluster.backend import JobHandle, JobState
from cluster.fake_backend import FakeBackend
from jobs.admission import claim
from jobs.facts import close_attempt
from jobs.workspace import AttemptDir, Workspace
from orchestrator.history import job_name
from orchestrator.loop import Loop
from orchestrator.policy import Policy
from orchestrator.requests import write_request

POLICY = Policy(probe=False, quiet_s=5.0, requeues="fake")


def stays(entry: Mapping[str, Any], job: str) -> Generator[None, None, int]:
    """A worker that leaves when asked to; what its scheduler does with the job is the test's business."""
    attempt = AttemptDir(Path(entry["claim"]).parent)
    assert claim(attempt, job)
    close_attempt(attempt, by="worker", outcome="preempted", step=3)
    while True:
        yield


class Scene:
    """One pack of one run on a pretended cluster."""

    def __init__(self, workspace: Workspace, lab: ModuleType, folder: Path, execute: Any) -> None:
        self.workspace, self.lab = workspace, lab
        self.specs = lab.cell({}, [0])
        (self.pack,) = lab.write_plan(workspace, "s", [self.specs])
        self.clock = lab.Clock()
        self.fake = FakeBackend(folder / "cluster.json", clock=self.clock, execute=execute)
        self.name = job_name(self.pack, 1)

    def loop(self, *, index: bool = True, policy: Policy = POLICY) -> Loop:
        return Loop(self.workspace, self.fake, policy, code="", index=index, clock=self.clock)

    def words(self) -> list[str]:
        return [job["word"] for job in self.fake.jobs()]

    def queue_again(self) -> None:
        """As a scheduler does whose node failed, or whose controller forgot that the job had ended."""
        self.fake._change(self.name, state="queued", word="PENDING", submitted=self.clock() + 1e6)


@pytest.fixture
def scene(workspace: Workspace, lab: ModuleType, tmp_path: Path) -> Scene:
    def execute(entry: Mapping[str, Any], job: str) -> Generator[None, None, int]:
        yield from lab.pretend(Path(entry["claim"]).parent, job)
        yield  # its runs have finished, its process is not gone
        return 0

    return Scene(workspace, lab, tmp_path, execute)


@pytest.fixture
def leaving(workspace: Workspace, lab: ModuleType, tmp_path: Path) -> Scene:
    return Scene(workspace, lab, tmp_path, stays)


def finish(scene: Scene, loop: Loop) -> None:
    loop.tick()
    while scene.fake.step():
        scene.clock.pass_(1)


@pytest.mark.parametrize("index", [True, False])
def test_a_job_that_was_queued_again_after_its_runs_had_finished_is_taken_out(scene: Scene, index: bool) -> None:
    loop = scene.loop(index=index)
    finish(scene, loop)
    assert loop.tick().done
    loop.close()
    scene.fake._lag_s = -1e9  # it is shown from now on, whenever it may begin
    scene.queue_again()
    loop = scene.loop(index=index)
    report = loop.tick()
    assert (report.acted.released, report.done) == (1, False)
    assert scene.words() == ["CANCELLED"]
    report = loop.tick()
    assert (report.acted.released, report.done, list(report.trouble)) == (0, True, [])
    loop.close()


def test_a_loop_that_starts_between_a_cancel_and_the_jobs_end_does_not_let_it_come_back(leaving: Scene) -> None:
    loop = leaving.loop()
    loop.tick()
    leaving.fake.step()  # the worker has left, its job is still completing
    leaving.fake.fail("cancel", "timeout")
    write_request(leaving.workspace, "cancel", {leaving.specs[0].id: 1})
    report = loop.tick()
    assert not report.done
    assert report.counts["s"]["cancelled"] == 1
    loop.close()  # killed; all that it knew is what lies in the files and in the index
    leaving.clock.pass_(5)
    loop = leaving.loop()
    report = loop.tick()
    assert (report.acted.released, report.done) == (1, False)
    assert leaving.words() == ["CANCELLED"]
    assert loop.tick().done
    assert [place.number for place in leaving.workspace.attempts(leaving.pack)] == [1]
    loop.close()


def test_a_job_that_has_just_finished_is_left_to_end_by_itself(scene: Scene) -> None:
    loop = scene.loop(index=False)
    loop.tick()
    for _ in range(4):
        scene.fake.step()
    report = loop.tick()
    assert scene.words() == ["RUNNING"]
    assert (report.acted.released, report.done) == (0, False)
    scene.fake.step()
    report = loop.tick()
    assert scene.words() == ["COMPLETED"]
    assert (report.acted.released, report.done) == (0, True)


def test_a_copy_that_runs_on_and_on_is_made_to_leave(scene: Scene) -> None:
    loop = scene.loop(index=False)
    loop.tick()
    for _ in range(4):
        scene.fake.step()
    assert loop.tick().acted.released == 0
    scene.clock.pass_(POLICY.cancel_grace_s)
    assert loop.tick().acted.released == 1
    assert scene.words() == ["CANCELLED"]
    assert loop.tick().done


def test_a_job_of_an_attempt_that_we_do_not_know_is_somebody_elses(scene: Scene) -> None:
    loop = scene.loop(index=False)
    finish(scene, loop)
    with scene.fake._cluster() as cluster:  # another loop was faster with what a person has asked for
        cluster["jobs"][0] |= {"name": job_name(scene.pack, 2), "state": "queued", "submitted": scene.clock() + 1e6}
    scene.fake._lag_s = -1e9
    assert loop.tick().acted.released == 0


class Silent(FakeBackend):
    """A scheduler whose queue cannot be read any more."""

    silent = False

    def in_queue(self, *, ask: bool = False) -> tuple[int, dict[JobHandle, JobState]]:
        return (self._glances, {}) if self.silent else super().in_queue(ask=ask)


def test_a_controller_that_is_away_keeps_nobody_for_ever(scene: Scene) -> None:
    scene.fake.__class__ = Silent
    assert isinstance(scene.fake, Silent)
    loop = scene.loop(index=False, policy=replace(POLICY, linger_s=120.0))
    loop.tick()
    scene.fake.silent = True
    while scene.fake.step():
        scene.clock.pass_(1)
    assert not loop.tick().done
    scene.clock.pass_(60)
    assert not loop.tick().done
    scene.clock.pass_(60)
    report = loop.tick()
    assert report.done
    assert "the queue was not seen empty" in " ".join(report.trouble)
