"""Why runs wait, as `status` tells it: our own limits, the scheduler's, a pause, a shape that is held."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cluster.backend import JobHandle, JobReport
from cluster.fake_backend import FakeBackend
from jobs.facts import FailureClass
from jobs.workspace import Workspace
from orchestrator.cli.main import main
from orchestrator.loop import Loop
from orchestrator.policy import RETRIES, Policy, Retry
from orchestrator.status import summary
from orchestrator.waiting import SLOT, throttle

POLICY = Policy(probe=False, settle_s=0.0)


class Site:
    """Packs of one run on a fake cluster."""

    def __init__(self, space: Workspace, lab: ModuleType, folder: Path) -> None:
        self.space, self.clock = space, lab.Clock()
        self.packs = lab.write_plan(space, "s", [lab.cell({}, [n]) for n in range(6)])
        self.fake: Any = FakeBackend(folder / "c.json", clock=self.clock, run_s=1e9, slots=2)
        self.loops: list[Loop] = []

    def loop(self, policy: Policy = POLICY) -> Loop:
        self.loops.append(Loop(self.space, self.fake, policy, code="", clock=self.clock))
        return self.loops[-1]

    def waiting(self) -> dict[str, int]:
        return dict(summary(self.space, "s").waiting)


@pytest.fixture
def site(workspace: Workspace, lab: ModuleType, tmp_path: Path):
    site = Site(workspace, lab, tmp_path)
    yield site
    for loop in site.loops:
        loop.close()


def test_words_for_what_keeps_packs_back() -> None:
    assert throttle(3, 1, None, backend="slurm", paused=False) == SLOT
    assert throttle(0, 4, 4, backend="slurm", paused=False) == "a free slot (--max-in-flight 4)"
    assert (
        throttle(0, 4, 9, backend="slurm", paused=False) == "the scheduler, which takes no more jobs now (its limits)"
    )
    assert throttle(0, 2, None, backend="local", paused=False) == SLOT
    assert throttle(3, 1, None, backend="slurm", paused=True) == "the scheduler, which asked for a pause"


def test_our_limit_and_the_schedulers(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = site.loop(replace(POLICY, max_in_flight=2))
    loop.tick()
    assert site.waiting() == {"a free slot (--max-in-flight 2)": 4}
    loop.policy = loop.board.policy = POLICY
    monkeypatch.setattr(site.fake, "free_slots", lambda in_flight, limit: 0)
    loop.tick()
    assert site.waiting() == {"the scheduler, which takes no more jobs now (its limits)": 4}


def test_a_scheduler_that_asks_for_a_pause_is_named_with_what_it_said(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.fake.fail("submit", "refuse")
    loop = site.loop(replace(POLICY, max_in_flight=4))
    loop.tick()
    status = summary(site.space, "s")
    assert status.waiting == {"the scheduler, which asked for a pause": 2}
    (said,) = status.trouble
    assert said.startswith("submission delayed: ")
    with pytest.raises(SystemExit):
        main(["--root", str(site.space.root), "status"])
    assert "submission delayed: " in capsys.readouterr().out
    site.clock.pass_(31.0)
    loop.tick()
    assert summary(site.space, "s").trouble == [], "it is forgotten when it is over, though nothing else happened"


def test_why_the_scheduler_lets_jobs_wait(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    poll: Callable[..., dict[JobHandle, JobReport]] = site.fake.poll
    words = ["jobs of higher priority go first"]
    monkeypatch.setattr(
        site.fake,
        "poll",
        lambda handles: {
            h: replace(r, reason=words[0] if r.state == "queued" else "") for h, r in poll(handles).items()
        },
    )
    loop = site.loop(replace(POLICY, max_in_flight=5))
    for _ in range(2):
        loop.tick()
        site.fake.step()
    loop.tick()
    assert summary(site.space, "s").queued == {"jobs of higher priority go first": 3}
    words[0] = "waits for its reservation"
    loop.tick()
    assert summary(site.space, "s").queued == {"waits for its reservation": 3}


def test_a_pause_before_the_next_try_is_no_lack_of_slots(site: Site) -> None:
    retries = {**RETRIES, FailureClass.LAUNCH_FAILED: Retry(5, 600.0)}
    loop = site.loop(replace(POLICY, max_in_flight=6, retries=retries))
    loop.tick()
    site.fake.end(f"orc-{site.packs[0]}-a1", cause="launch_failed", word="FAILED")
    loop.tick()
    assert site.waiting() == {"the pause before their next try": 1}
    site.clock.pass_(601.0)
    assert loop.tick().acted.launched == 1


def test_a_held_shape_comes_with_what_to_do(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    loop = site.loop(replace(POLICY, probe=True, retries={}, probe_failures=2))
    for number in range(2):
        loop.tick()
        site.fake.end(f"orc-{site.packs[number]}-a1", cause="exit", word="FAILED", code=1)
        loop.tick()
    loop.tick()
    with pytest.raises(SystemExit):
        main(["--root", str(site.space.root), "status"])
    out = capsys.readouterr().out
    assert "    4 held: the first 2 packs of this shape failed before their first step" in out
    assert f"mend what they failed of, see: orchestrate --root {site.space.root} errors s" in out
    assert "retry --sweep s --dry-run" in out
