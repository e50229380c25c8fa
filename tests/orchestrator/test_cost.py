"""Costs: shared second by second, and put down to what became of them, whoever asks."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cluster.fake_backend import FakeBackend
from jobs.durable import AppendLog
from jobs.facts import Closed, Event, FailureClass, Started, fact_record
from jobs.state import RunState
from jobs.workspace import AttemptDir, Workspace
from orchestrator.cost import bills, cost_of, devices_of, shares_of
from orchestrator.costs import accounts, items
from orchestrator.errors import OrchestratorError
from orchestrator.history import AttemptView, RunEnd
from orchestrator.index import discard
from orchestrator.loop import Loop
from orchestrator.policy import Policy
from orchestrator.status import summary
from orchestrator.survey import survey
from orchestrator.verdicts import RunVerdict


def attempt(
    number: int = 1,
    runs: tuple[str, ...] = ("ra", "rb"),
    *,
    begin: float = 10.0,
    kept: float | None = None,
    last: float = 50.0,
    outcome: Any = "failed",
    failure: FailureClass | None = FailureClass.HANG,
    first: int = 0,
    ends: dict[str, float] | None = None,
    claimed: float | None = None,
) -> AttemptView:
    view = AttemptView(number, f"orc-p-a{number}", runs, claim="j/1/0", claimed=claimed)
    view.started, view.last, view.kept, view.first_step = begin, last, kept, first
    view.finished = {run: RunEnd(True, 9, 1.0, time=time) for run, time in (ends or {}).items()}
    view.closed = Closed(time=last, by="worker", outcome=outcome, failure=failure)
    return view


def done(run: str) -> RunVerdict:
    return RunVerdict(RunState.COMPLETED, end=RunEnd(True, 9, 1.0))


def test_a_second_belongs_to_those_who_train_in_it() -> None:
    view = attempt(outcome="completed", failure=None, ends={"ra": 20.0, "rb": 50.0}, kept=50.0)
    assert {s.run: (s.kept, s.lost) for s in shares_of(view)} == {"ra": (5.0, 0.0), "rb": (35.0, 0.0)}
    cut = attempt(kept=30.0, ends={"ra": 20.0})
    assert {s.run: (s.kept, s.lost) for s in shares_of(cut)} == {"ra": (5.0, 0.0), "rb": (15.0, 20.0)}
    assert sum(s.kept + s.lost for s in shares_of(cut)) == 40.0 == sum(cut.seconds)


def test_what_is_kept_is_useful_only_to_a_run_that_comes_to_something() -> None:
    first, second = attempt(kept=30.0), attempt(2, begin=60.0, last=70.0, first=3, outcome="completed", failure=None)
    runs = {"ra": done("ra"), "rb": done("rb")}
    assert cost_of([first, second], runs) == {"useful": 30.0, "hang": 20.0}
    assert cost_of([first, second], runs, devices=4) == {"useful": 120.0, "hang": 80.0}
    afresh = attempt(2, begin=60.0, last=70.0, first=0, outcome="completed", failure=None)
    assert cost_of([first, afresh], runs) == {"useful": 10.0, "hang": 40.0}, "what it had kept was thrown away"
    failed = RunVerdict(RunState.FAILED, FailureClass.DISK)
    assert cost_of([first], {"ra": failed, "rb": RunVerdict(RunState.PENDING)}) == {
        "disk": 10.0,
        "useful": 10.0,
        "hang": 20.0,
    }
    cancelled = RunVerdict(RunState.CANCELLED)
    assert cost_of([first], {"ra": cancelled, "rb": cancelled})["cancelled"] == 20.0


def test_startup_and_what_is_not_saved_yet_are_told_apart() -> None:
    view = attempt(claimed=4.0, kept=30.0)
    view.closed = None
    assert cost_of([view], {}) == {"useful": 20.0, "unsaved": 20.0, "startup": 6.0}
    never = attempt(claimed=4.0, last=9.0, failure=FailureClass.USER_ERROR)
    never.started = None
    assert cost_of([never], {}) == {"user_error": 5.0}, "five seconds from its claim to its end"


def test_shares_add_up_whatever_the_clock_says() -> None:
    """A finish that is told from before the start or after the end belongs to the edges."""
    view = attempt(kept=45.0, ends={"ra": 3.0, "rb": 99.0})
    shares = {s.run: s for s in shares_of(view)}
    assert sum(s.kept + s.lost for s in shares.values()) == pytest.approx(sum(view.seconds))
    assert shares["ra"].kept == 0.0
    assert [name for _, _, name, _ in bills([view], {})]


def test_devices() -> None:
    assert [devices_of(r) for r in ({}, {"cpus": 8}, {"gpus": 2}, {"gpus": 4, "nodes": 2})] == [1, 1, 2, 8]


@pytest.fixture
def paid(workspace: Workspace, lab: ModuleType, tmp_path: Path) -> Workspace:
    """Two packs of two runs on two GPUs each; one loses 30 s, with and without an index the same."""
    clock = lab.Clock()
    packs = lab.write_plan(workspace, "s", [lab.cell({"level": n}, [1, 2]) for n in (0.1, 0.2)], resources={"gpus": 2})

    def execute(entry: Any, job: str) -> Generator[None, None, int]:
        place = AttemptDir(Path(entry["cwd"]))
        if place.pack == packs[0] and place.number == 1:
            worker = lab.pretend(place.path, job)
            next(worker)
            next(worker)
            log = AppendLog(place.facts)
            log.append(fact_record(Started(time=100.0, step=0, host="h", pid=1, members=2, threads=1)))
            log.append(fact_record(Event(time=130.0, name="alive")))
            log.close()
            yield
            return 1
        return (yield from lab.pretend(place.path, job))

    fake = FakeBackend(tmp_path / "c.json", clock=clock, execute=execute)
    loop = Loop(workspace, fake, Policy(probe=False, settle_s=0.0), code="", clock=clock)
    for _ in range(40):
        if loop.tick().done:
            break
        fake.step()
        clock.pass_(20.0)
    loop.close()
    return workspace


def test_accounts_by_user_label_and_class(paid: Workspace) -> None:
    seen = survey(paid, ["s"])
    found = list(items(paid, seen))
    assert {item.unit for item in found} == {"GPU"}
    (user,) = accounts(seen, found, "user").values()
    assert user.total == sum(item.seconds for item in found)
    fates = accounts(seen, found, "class")
    assert {name: account.total for name, account in fates.items() if name != "startup"} == {
        "unknown": 60.0,
        "useful": 4.0,
    }
    seeds = accounts(seen, found, "seed")
    assert set(seeds) == {"1", "2"}
    assert sum(account.total for account in seeds.values()) == pytest.approx(user.total)
    with pytest.raises(OrchestratorError, match=r"choose from: user, class, seed"):
        accounts(seen, found, "colour")


def test_with_and_without_an_index_the_costs_are_the_same(paid: Workspace) -> None:
    quick, told = summary(paid, "s"), list(items(paid, survey(paid)))
    assert quick.unit == "GPU"
    assert sum(quick.cost.values()) == pytest.approx(sum(item.seconds for item in told))
    discard(paid.index)
    slow = summary(paid, "s")
    assert (dict(slow.cost), slow.unit) == (dict(quick.cost), "GPU")
    assert sorted(items(paid, survey(paid)), key=repr) == sorted(told, key=repr)
