"""``decide`` and the verdicts it stands on, asked directly: no files, no scheduler, no clock of its own."""

from __future__ import annotations

import copy
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import pytest

from cluster.backend import JobHandle, JobReport, JobState
from jobs.facts import Closed, FailureClass
from jobs.spec import InputRef, RunSpec
from jobs.state import RunState
from jobs.workspace import Workspace
from orchestrator.board import Board
from orchestrator.decide import Cancel, Close, Launch, Submit, decide
from orchestrator.desired import read_desired
from orchestrator.history import AttemptView, Pulse, RunEnd
from orchestrator.pauses import starving
from orchestrator.policy import RETRIES, Policy, default_policy
from orchestrator.requests import Wish
from orchestrator.room import Room
from orchestrator.waiting import PAUSE, waiting

POLICY = Policy(quiet_s=30.0, lost_after_s=120.0, settle_s=5.0, probe=False)
Outcome = Literal["completed", "failed", "preempted", "lost", "cancelled"]


def attempt(number: int, runs: list[str], **changes: Any) -> AttemptView:
    """A launched attempt that no one has answered for yet, first seen at 0."""
    view = AttemptView(number, f"orc-p-a{number}", tuple(runs), seen=0.0)
    for name, value in changes.items():
        setattr(view, name, value)
    return view


def closed(
    number: int, runs: list[str], outcome: Outcome, failure: FailureClass | None = None, at: float = 0.0, **more: Any
) -> AttemptView:
    return attempt(
        number, runs, closed=Closed(time=0, by="loop", outcome=outcome, failure=failure), over=at, claim="j", **more
    )


def done(*runs: str) -> dict[str, RunEnd]:
    return {run: RunEnd(True, 1, 1.0) for run in runs}


class Desk:
    """A board of packs of two runs, made by hand."""

    def __init__(self, workspace: Workspace, lab: ModuleType, packs: int = 3, policy: Policy = POLICY, **plan: Any):
        self.specs = [lab.cell({}, [2 * n, 2 * n + 1]) for n in range(packs)]
        self.packs = lab.write_plan(workspace, "s", self.specs, **plan)
        self.runs = [[spec.id for spec in members] for members in self.specs]
        self.wishes: dict[str, Wish] = {}
        self.board = Board(workspace, read_desired(workspace), policy, self.wishes)
        self.board.load({}, {})

    def put(self, pack: int, *views: AttemptView) -> None:
        self.board.histories[self.packs[pack]] = list(views)
        self.board.touch(self.packs[pack])

    def wish(self, run: str, wish: Wish) -> None:
        self.wishes[run] = wish
        self.board.touch(self.board.desired.pack_of[run])


@pytest.fixture
def desk(workspace: Workspace, lab: ModuleType) -> Desk:
    return Desk(workspace, lab)


def test_it_launches_in_order_as_far_as_slots_are_free(desk: Desk) -> None:
    assert decide(desk.board, 2, 0.0) == [Launch(desk.packs[0], 1), Launch(desk.packs[1], 1)]
    assert decide(desk.board, 0, 0.0) == []
    desk.put(0, attempt(1, desk.runs[0]))
    assert decide(desk.board, 9, 0.0) == [Launch(desk.packs[1], 1), Launch(desk.packs[2], 1)]


def test_it_is_pure(desk: Desk) -> None:
    desk.put(0, closed(1, desk.runs[0], "lost"))
    desk.put(1, attempt(1, desk.runs[1], ended={"code": 1}))
    before = copy.deepcopy((desk.board.histories, desk.board.ready, desk.board.live, desk.board.counts))
    first = decide(desk.board, 5, 100.0)
    assert first == decide(desk.board, 5, 100.0)
    assert before == (desk.board.histories, desk.board.ready, desk.board.live, desk.board.counts)


def test_an_attempt_that_is_not_over_is_left_alone(desk: Desk) -> None:
    handle = JobHandle("fake", "1", "n")
    for view in (
        attempt(1, desk.runs[0]),
        attempt(1, desk.runs[0], handle=handle, report=JobReport(JobState.QUEUED, "PENDING")),
        attempt(1, desk.runs[0], handle=handle, claim="n/1/0", report=JobReport(JobState.RUNNING)),
        attempt(1, desk.runs[0], handle=handle, claim="n/1/0", report=JobReport(JobState.UNKNOWN, "SIGNALING")),
        attempt(1, desk.runs[0], handle=handle, claim="n/1/0", report=None),
    ):
        desk.put(0, view)
        assert decide(desk.board, 0, 1e6) == []


def test_silence_is_not_death(desk: Desk) -> None:
    handle = JobHandle("fake", "1", "n")
    gone = JobReport(JobState.GONE)
    view = attempt(
        1, desk.runs[0], handle=handle, claim="n/1/0", report=gone, gone=1000.0, pulse=Pulse(9, changed=1100)
    )
    desk.put(0, view)
    assert decide(desk.board, 0, 1119.0) == [], "not gone for long enough"
    assert decide(desk.board, 0, 1219.0) == [], "its heart beat after the scheduler forgot it"
    (action,) = decide(desk.board, 0, 1221.0)
    assert isinstance(action, Close)
    view.report, view.gone = JobReport(JobState.RUNNING), None
    view.pulse = Pulse(9, step=5, steps=100, median_step_s=1.0, changed=10.0, moved=10.0)
    view.started = 0.0
    assert decide(desk.board, 0, 1e9) == [], "a silent heartbeat alone only makes us ask"


def test_an_end_closes_after_the_files_have_settled(desk: Desk) -> None:
    handle = JobHandle("fake", "1", "n")
    view = attempt(1, desk.runs[0], handle=handle, report=JobReport(JobState.ENDED, "FAILED"), gone=100.0)
    desk.put(0, view)
    assert decide(desk.board, 0, 104.0) == []
    assert [type(a) for a in decide(desk.board, 0, 105.0)] == [Close]
    view.ended = {"code": 1}
    assert [type(a) for a in decide(desk.board, 0, 101.0)] == [Close], "its own record needs no patience"


@pytest.mark.parametrize("word", ["COMPLETED", "NODE_FAIL"])
def test_an_end_of_one_copy_does_not_close_what_another_copy_executes(desk: Desk, word: str) -> None:
    """A controller restarted from old state starts a job twice: the second copy finds the claim, and leaves well."""
    handle = JobHandle("fake", "1", "n")
    view = attempt(1, desk.runs[0], handle=handle, claim="n/1/0", report=JobReport(JobState.ENDED, word), gone=100.0)
    view.pulse = Pulse(9, changed=100.0)
    desk.put(0, view)
    assert [type(a) for a in decide(desk.board, 0, 105.0)] == [Close], "its last beat was before the end"
    view.pulse = Pulse(10, changed=103.0)
    assert decide(desk.board, 0, 105.0) == []
    assert decide(desk.board, 0, 222.0) == [], "it was alive after the end"
    assert [type(a) for a in decide(desk.board, 0, 223.0)] == [Close]
    view.pulse = Pulse(11, changed=222.0)
    assert decide(desk.board, 0, 223.0) == []
    view.ended = {"code": 0}
    assert [type(a) for a in decide(desk.board, 0, 223.0)] == [Close], "its own record ends the doubt"
    view.ended = None
    for run in desk.runs[0]:
        desk.wish(run, Wish("cancel", 1))
    (action,) = decide(desk.board, 0, 223.0)
    assert isinstance(action, Close), "only that makes such a copy leave"
    assert action.cancelled


def test_a_beating_heart_that_never_moves_is_a_hang(desk: Desk) -> None:
    pulse = Pulse(9, step=5, steps=100, median_step_s=40.0, changed=10_000.0, moved=10_000.0 - 3 * 400)
    view = attempt(1, desk.runs[0], claim="n/1/0", started=0.0, pulse=pulse, hang_floor_s=300.0)
    desk.put(0, view)
    assert decide(desk.board, 0, 10_000.0) == []
    pulse.changed += 1
    (action,) = decide(desk.board, 0, 10_001.0)
    assert isinstance(action, Close)
    assert (action.failure, action.stop) == (FailureClass.HANG, True)


def test_an_intent_without_a_job_is_handed_over_again_after_a_quiet_period(desk: Desk) -> None:
    view = attempt(1, desk.runs[0])
    desk.put(0, view)
    assert decide(desk.board, 0, 1e6) == [], "nobody has asked the scheduler"
    view.absent = 29.0
    assert decide(desk.board, 0, 1e6) == [], "it was asked too early"
    view.absent = 30.0
    assert decide(desk.board, 0, 30.0) == [Submit(desk.packs[0], 1)]
    view.claim = "n/1/0"
    assert decide(desk.board, 0, 30.0) == [], "a worker has it"


def test_finished_members_are_masked_in_the_next_attempt(desk: Desk) -> None:
    first, second = desk.runs[0]
    desk.put(0, closed(1, [first, second], "lost", finished=done(first)))
    desk.put(1, closed(1, desk.runs[1], "completed", finished=done(*desk.runs[1])))
    launches = decide(desk.board, 9, 100.0)
    assert launches == [Launch(desk.packs[0], 2, frozenset({first})), Launch(desk.packs[2], 1)]
    assert desk.board.counts["s"][RunState.COMPLETED] == 3


@pytest.mark.parametrize("failure", sorted(failure for failure, retry in RETRIES.items() if retry.tries is not None))
def test_each_class_is_retried_as_often_as_its_policy_says(desk: Desk, failure: FailureClass) -> None:
    retry = RETRIES[failure]
    assert retry.tries is not None
    views: list[AttemptView] = []
    for number in range(1, retry.tries + 1):
        views.append(closed(number, desk.runs[0], "failed", failure, at=1000.0))
        desk.put(0, *views)
        wait = retry.delay(number)
        if wait:
            assert not [a for a in decide(desk.board, 1, 999.9 + wait) if a.pack == desk.packs[0]]
        assert decide(desk.board, 1, 1000.0 + wait) == [Launch(desk.packs[0], number + 1)]
    views.append(closed(retry.tries + 1, desk.runs[0], "failed", failure, at=1000.0))
    desk.put(0, *views)
    assert not [a for a in decide(desk.board, 9, 1e9) if a.pack == desk.packs[0]]
    verdict = desk.board.verdicts[desk.packs[0]].runs[desk.runs[0][0]]
    assert (verdict.state, verdict.failure) == (RunState.FAILED, failure)


def test_a_full_disk_costs_no_tries_however_often_it_is_met(desk: Desk) -> None:
    runs, pack = desk.runs[0], desk.packs[0]
    full = [closed(n, runs, "failed", FailureClass.DISK, at=1000.0) for n in range(1, 101)]
    desk.put(0, *full)
    assert not [a for a in decide(desk.board, 1, 2000.0) if a.pack == pack], "paced, where there seems to be room"
    assert decide(desk.board, 1, 1000.0 + 1800.0) == [Launch(pack, 101)]
    verdict = desk.board.verdicts[pack]
    assert (verdict.starved, verdict.runs[runs[0]].state) == (True, RunState.PENDING)
    # Between losses it neither ends their row nor lengthens it: five tries are five tries.
    tries = RETRIES[FailureClass.LOST].tries
    assert tries is not None
    row = []
    for n in range(1, 2 * tries + 1, 2):
        row += [closed(n, runs, "failed", FailureClass.DISK), closed(n + 1, runs, "lost", FailureClass.LOST)]
    desk.put(0, *row)
    assert decide(desk.board, 1, 1e6) == [Launch(pack, 2 * tries + 1)]
    desk.put(0, *row, closed(2 * tries + 1, runs, "lost", FailureClass.LOST))
    assert not [a for a in decide(desk.board, 9, 1e9) if a.pack == pack]
    assert desk.board.verdicts[pack].runs[runs[0]].state is RunState.FAILED


def test_nothing_is_launched_onto_a_full_disk_and_what_waited_goes_on_at_once(desk: Desk) -> None:
    desk.put(1, closed(1, desk.runs[1], "failed", FailureClass.DISK, at=1000.0))
    full: list[str] = ["no space left on /d: 9.0 MB needed, 1.0 MB free"]
    room = desk.board.room = Room(Path("/d"), 1.0, lambda folder, needed, trial: full[0])
    room.look(starving(desk.board), 1000.0)
    assert decide(desk.board, 9, 1000.0) == []
    assert decide(desk.board, 9, 1e9) == [], "however long it takes"
    assert waiting(desk.board, 1000.0)["s"] == {full[0]: 6}, "all of them say why"
    assert not desk.board.idle
    full[0] = ""
    room.look(starving(desk.board), 1001.0)
    assert [a.pack for a in decide(desk.board, 9, 1001.0)] == desk.packs, "without the pause before its next try"
    assert waiting(desk.board, 1001.0, "slot")["s"] == {"slot": 6}


def test_one_that_does_not_fit_keeps_nobody_else_waiting(desk: Desk) -> None:
    for n in (0, 1):
        desk.put(n, closed(1, desk.runs[n], "failed", FailureClass.DISK, at=1000.0))
    needs = [needed for _, _, needed in starving(desk.board)]
    room = desk.board.room = Room(
        Path("/d"), 1.0, lambda f, needed, t: "" if needed <= needs[0] else "no space left on"
    )
    room.look(starving(desk.board), 1000.0)
    assert list(room.short) == [desk.packs[1]]
    assert [a.pack for a in decide(desk.board, 9, 1e6)] == [desk.packs[0], desk.packs[2]]
    assert waiting(desk.board, 1000.0, "slot")["s"] == {"no space left on": 2, PAUSE: 2, "slot": 2}


def test_requeues_that_get_no_further_come_to_an_end_whatever_their_classes(desk: Desk) -> None:
    """Preempted, then cut by the limit, then preempted: no class alone is ever in a row."""
    turns = (FailureClass.PREEMPTED, FailureClass.TIME_LIMIT, FailureClass.LOST)
    views = [closed(n, desk.runs[0], "preempted", turns[n % 3]) for n in range(1, POLICY.most_idle + 1)]
    desk.put(0, *views)
    assert decide(desk.board, 1, 1e6) == [Launch(desk.packs[0], POLICY.most_idle + 1)]
    last = closed(POLICY.most_idle + 1, desk.runs[0], "preempted", FailureClass.PREEMPTED)
    desk.put(0, *views, last)
    assert not [a for a in decide(desk.board, 9, 1e9) if a.pack == desk.packs[0]]
    further = closed(30, desk.runs[0], "preempted", turns[0], first_step=0, checkpoint=10, started=0.0)
    desk.put(0, *views[:29], further, *views[30:], last)
    assert decide(desk.board, 1, 1e6) == [Launch(desk.packs[0], POLICY.most_idle + 2)], "one of them got further"


def test_progress_starts_the_count_anew(desk: Desk) -> None:
    views = [
        closed(n, desk.runs[0], "lost", FailureClass.LOST, first_step=10 * (n - 1), checkpoint=10 * n, started=0.0)
        for n in range(1, 30)
    ]
    desk.put(0, *views)
    assert decide(desk.board, 1, 1e6) == [Launch(desk.packs[0], 30)]


def test_a_member_that_diverged_is_final_and_the_others_go_on(desk: Desk) -> None:
    bad, good = desk.runs[0]
    diverged = {bad: RunEnd(False, 5, 1.0, FailureClass.DIVERGED, "loss is nan at step 5")}
    desk.put(0, closed(1, [bad, good], "preempted", FailureClass.PREEMPTED, finished=diverged))
    assert decide(desk.board, 1, 1e6) == [Launch(desk.packs[0], 2, frozenset({bad}))]
    assert desk.board.verdicts[desk.packs[0]].runs[bad].state is RunState.FAILED


def test_cancel_stops_a_pack_once_all_its_members_are_unwanted(desk: Desk) -> None:
    one, two = desk.runs[0]
    handle = JobHandle("fake", "1", "n")
    view = attempt(1, [one, two], handle=handle, report=JobReport(JobState.RUNNING), claim="n/1/0")
    desk.put(0, view)
    desk.wish(one, Wish("cancel", 1))
    assert decide(desk.board, 0, 0.0) == []
    desk.wish(two, Wish("cancel", 1))
    assert decide(desk.board, 0, 0.0) == [Cancel(desk.packs[0], 1, "cancelled by request")]
    view.stopping = 0.0
    assert decide(desk.board, 0, 1.0) == [], "it was asked to leave a second ago"
    view.closed, view.over = Closed(time=0, by="worker", outcome="preempted"), 2.0
    desk.put(0, view)
    assert not [a for a in decide(desk.board, 9, 1e6) if a.pack == desk.packs[0]]
    assert desk.board.counts["s"][RunState.CANCELLED] == 2


def test_cancelled_before_it_was_launched(desk: Desk) -> None:
    for run in desk.runs[0]:
        desk.wish(run, Wish("cancel", 0))
    assert {a.pack for a in decide(desk.board, 9, 0.0)} == set(desk.packs[1:])


def test_a_retry_forgives_what_came_before_it_and_nothing_later(desk: Desk) -> None:
    failed = closed(1, desk.runs[0], "failed", FailureClass.USER_ERROR)
    desk.put(0, failed)
    for run in desk.runs[0]:
        desk.wish(run, Wish("retry", 1))
    assert decide(desk.board, 1, 1e6) == [Launch(desk.packs[0], 2)]
    desk.put(0, failed, closed(2, desk.runs[0], "failed", FailureClass.USER_ERROR))
    assert not [a for a in decide(desk.board, 9, 1e6) if a.pack == desk.packs[0]], "attempt 2 came after the request"


def test_a_fresh_retry_passes_old_checkpoints_over_for_ever(desk: Desk) -> None:
    views = [closed(1, desk.runs[0], "failed", FailureClass.USER_ERROR)]
    desk.put(0, *views)
    for run in desk.runs[0]:
        desk.wish(run, Wish("retry", 1, fresh=True))
    assert decide(desk.board, 1, 1e6) == [Launch(desk.packs[0], 2, fresh_after=1)]
    desk.put(0, *views, closed(2, desk.runs[0], "preempted"))
    assert decide(desk.board, 1, 1e6) == [Launch(desk.packs[0], 3, fresh_after=1)]


class Chain:
    """A producer pack and a consumer pack of two runs, one of which needs the producer's first run."""

    def __init__(self, workspace: Workspace, lab: ModuleType) -> None:
        producers = [RunSpec("toy", {"products": ["x"]}, seed) for seed in range(2)]
        consumers = [RunSpec("toy", {"consumes": ["i"]}, 5, {"i": InputRef(p.id, "x")}) for p in producers]
        self.made, self.used = [p.id for p in producers], [c.id for c in consumers]
        self.packs = lab.write_plan(workspace, "s", [producers, consumers])
        self.board = Board(workspace, read_desired(workspace), POLICY, {})
        self.board.load({}, {})


def test_consumers_wait_for_our_own_verdict_on_their_producers(workspace: Workspace, lab: ModuleType) -> None:
    chain = Chain(workspace, lab)
    producer, consumer = chain.packs
    assert decide(chain.board, 9, 0.0) == [Launch(producer, 1)]
    assert waiting(chain.board)["s"] == {"a free slot": 2, "their inputs": 2}
    view = attempt(1, chain.made, finished=done(chain.made[0]), claim="j")
    chain.board.histories[producer] = [view]
    chain.board.touch(producer)
    assert decide(chain.board, 9, 0.0) == []
    view.finished |= done(chain.made[1])
    chain.board.touch(producer)
    assert decide(chain.board, 9, 0.0) == [Launch(consumer, 1)]


def test_a_consumer_of_a_failed_producer_is_blocked_with_the_reason(workspace: Workspace, lab: ModuleType) -> None:
    chain = Chain(workspace, lab)
    producer, consumer = chain.packs
    broken = {chain.made[1]: RunEnd(False, 3, 1.0, FailureClass.DIVERGED, "loss is nan")}
    view = closed(1, chain.made, "completed", finished=done(chain.made[0]) | broken)
    chain.board.histories[producer] = [view]
    chain.board.touch(producer)
    assert decide(chain.board, 9, 0.0) == [Launch(consumer, 1, frozenset({chain.used[1]}))]
    assert "diverged" in chain.board.blocked[consumer][chain.used[1]]
    reasons = waiting(chain.board)["s"]
    assert reasons == {"a free slot": 1, "blocked: needs a run which has failed (diverged: loss is nan)": 1}


def test_one_pack_of_a_shape_goes_first(workspace: Workspace, lab: ModuleType) -> None:
    desk = Desk(workspace, lab, 4, Policy(probe=True), shapes=["a", "a", "b", "a"])
    assert decide(desk.board, 9, 0.0) == [Launch(desk.packs[0], 1), Launch(desk.packs[2], 1)]
    view = attempt(1, desk.runs[0], claim="j", started=0.0)
    desk.put(0, view)
    assert decide(desk.board, 9, 0.0) == [Launch(desk.packs[2], 1)]
    view.pulse = Pulse(1, step=1, steps=10)
    desk.put(0, view)
    assert decide(desk.board, 9, 0.0) == [Launch(p, 1) for p in desk.packs[1:]]


def test_a_shape_that_never_made_a_step_is_held(workspace: Workspace, lab: ModuleType) -> None:
    desk = Desk(workspace, lab, 6, Policy(probe=True, probe_failures=3))
    for n in range(3):
        assert decide(desk.board, 9, 0.0) == [Launch(desk.packs[n], 1)]
        desk.put(n, closed(1, desk.runs[n], "failed", FailureClass.USER_ERROR))
    assert decide(desk.board, 9, 1e6) == []
    assert desk.board.idle
    assert waiting(desk.board)["s"] == {"held: the first 3 packs of this shape failed before their first step": 6}
    desk.wish(desk.runs[0][0], Wish("retry", 1))
    assert decide(desk.board, 9, 1e6) == [Launch(desk.packs[0], 2, frozenset({desk.runs[0][1]}))]


def test_a_command_that_was_killed_waits_for_the_schedulers_word(desk: Desk) -> None:
    handle = JobHandle("fake", "1", "n")
    view = attempt(1, desk.runs[0], handle=handle, claim="n/1/0", ended={"code": None, "signal": 9}, ended_at=100.0)
    desk.put(0, view)
    wait = POLICY.verdict_wait_s
    assert decide(desk.board, 0, 99.0 + wait) == []
    view.report = JobReport(JobState.ENDED, "FAILED", "signal", signal=9)
    assert decide(desk.board, 0, 99.0 + wait) == [], "it repeats what the record says"
    assert [type(a) for a in decide(desk.board, 0, 100.0 + wait)] == [Close], "nobody says why"
    view.report = JobReport(JobState.ENDED, "OUT_OF_MEMORY", "out_of_memory")
    assert [type(a) for a in decide(desk.board, 0, 101.0)] == [Close], "it is said"
    view.report, view.ended = None, {"code": 137, "signal": None}
    assert decide(desk.board, 0, 101.0) == [], "a shell's way to say the same"
    for own in ({"code": 1, "signal": None}, {"code": None, "signal": 11}):
        view.ended = own
        assert [type(a) for a in decide(desk.board, 0, 101.0)] == [Close], "its own doing"
    assert default_policy("local").verdict_wait_s == 0
