"""Data parallel training: each process passes its part of a batch, and all make one update.

The processes are threads here, which meet as processes would (``jobs.process_group.Group`` adds up what they bring).
Real ones are in ``tests/jobs/test_several_processes.py`` and ``tests/end_to_end/test_ranks_sweep.py``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from jobs import evaluation
from jobs.errors import JobError
from jobs.pack_loop import TENSORS
from jobs.process_group import Group
from jobs.ranks import PeerLost
from jobs.session import Session

BATCH = 8


class Meeting:
    """Where threads meet instead of processes."""

    def __init__(self, size: int) -> None:
        self.barrier = threading.Barrier(size, timeout=30)
        self.brought: list[Any] = [None] * size

    def exchange(self, rank: int, mine: Any) -> list[Any]:
        try:
            self.brought[rank] = mine
            self.barrier.wait()
            found = list(self.brought)
            self.barrier.wait()
        except threading.BrokenBarrierError:
            raise PeerLost("a thread is gone") from None
        return found


class ThreadGroup(Group):
    def __init__(self, rank: int, meeting: Meeting) -> None:
        super().__init__(rank, len(meeting.brought))
        self._meeting = meeting

    def agree(self, values: Sequence[int]) -> list[int]:
        return [max(each) for each in zip(*self._meeting.exchange(self.rank, list(values)), strict=True)]

    def gather(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        return [part.clone() for part in self._meeting.exchange(self.rank, tensor.detach().clone())]


def together(pack: Any, size: int, **options: Any) -> list[Session]:
    """Carry the next attempt out by ``size`` processes; raises what the first to fail raised."""
    meeting, errors = Meeting(size), []
    sessions: dict[int, Session] = {}
    place = pack.attempt(pack.attempts + 1).path

    def one(rank: int) -> None:
        try:
            sessions[rank] = pack.go(ranks=ThreadGroup(rank, meeting), **options)
        except BaseException as error:
            if not isinstance(error, PeerLost):
                errors.append(error)
            meeting.barrier.abort()

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(size)]
    threads[0].start()
    while threads[0].is_alive() and not place.exists():  # the first makes the place, the others find it there
        time.sleep(0.001)
    for thread in threads[1:]:
        thread.start()
    for thread in threads:
        thread.join(60)
    if errors:
        raise errors[0]
    return [sessions[rank] for rank in range(size)]


@pytest.fixture
def ddp(memorize: dict[str, Any]) -> dict[str, Any]:
    return {**memorize, "strategy": "ddp", "batch_size": BATCH}


def outcome(pack: Any) -> Any:
    return pack.rows(), {run: (f.status, f.step, f.summary) for run, f in pack.finished().items()}


def entries(config: dict[str, Any]) -> list[tuple[dict[str, Any], int]]:
    relu = {**config, "model": {**config["model"], "activation": {"kind": "relu"}}}
    return [(config, 0), (relu, 0), ({**config, "steps": 7}, 1)]


def test_one_process_of_ddp_is_single(training_pack: Any, memorize: dict[str, Any], ddp: dict[str, Any]) -> None:
    single, parallel = training_pack("train", entries(memorize)), training_pack("train", entries(ddp))
    single.go()
    parallel.go()
    assert outcome(parallel) == outcome(single)


@pytest.mark.parametrize("size", [2, 3])
def test_several_processes_train_what_one_does(training_pack: Any, ddp: dict[str, Any], size: int) -> None:
    """The same examples, weighted by what is scored in the whole batch: sums are only rounded otherwise. The gradient
    of the first step is compared, for Adam makes steps of rounding errors where a gradient is zero."""
    alone, pack = training_pack("train", entries(ddp)), training_pack("train", entries(ddp))
    options: dict[str, Any] = {"checkpoint_steps": 1, "settings": {"keep_checkpoints": 99}}
    alone.go(**options)
    sessions = together(pack, size, **options)
    first, expected = _moments(pack, 1), _moments(alone, 1)
    assert float(expected.abs().max()) > 1e-3
    assert torch.allclose(first, expected, atol=1e-8)
    ours, theirs = pack.rows(), alone.rows()
    assert ours.keys() == theirs.keys()
    for key, row in theirs.items():
        assert ours[key] == pytest.approx(row, abs=2e-3)
        assert ours[key]["train/accuracy"] == row["train/accuracy"], "every example was counted once"
    assert all(not session.unfinished for session in sessions)


def _moments(pack: Any, step: int) -> torch.Tensor:
    """First moments of the weights after so many steps."""
    return load_file(pack.attempt(1).checkpoints / f"step-{step:08d}-a1" / TENSORS)["weights_optimizer.first"]


@pytest.mark.parametrize("runner", ["train", "search"])
def test_equal_numbers_of_processes_give_equal_bits(training_pack: Any, ddp: dict[str, Any], runner: str) -> None:
    config = ddp if runner == "train" else {**ddp, "batch_size": 16, "search": {"members": 2}}
    packs = [training_pack(runner, [(config, 0), (config, 1)]) for _ in range(2)]
    for pack in packs:
        together(pack, 2, checkpoint_steps=6)
    assert outcome(packs[0]) == outcome(packs[1])
    saved, again = packs[0].saved(), packs[1].saved()
    assert all(torch.equal(saved[name], again[name]) for name in saved)


def test_a_search_by_two_processes_learns_the_shape_of_one(training_pack: Any, ddp: dict[str, Any]) -> None:
    config = {**ddp, "batch_size": 16, "search": {"members": 2}}
    alone, pack = training_pack("search", [(config, 0)]), training_pack("search", [(config, 0)])
    alone.go(checkpoint_steps=6)
    together(pack, 2, checkpoint_steps=6)
    weights, expected = pack.saved(), alone.saved()
    shapes = [name for name in expected if name.startswith("shape.")]
    assert shapes
    assert all(torch.allclose(weights[name], expected[name], atol=1e-4) for name in shapes)


def test_killed_and_resumed_by_as_many_is_exact(training_pack: Any, ddp: dict[str, Any]) -> None:
    whole = training_pack("train", entries(ddp))
    together(whole, 2, checkpoint_steps=4)
    pack = training_pack("train", entries(ddp))
    with pytest.raises(Exception, match=r"^$"):  # Killed says nothing
        together(pack, 2, checkpoint_steps=4, die_at=17)
    assert 0 < pack.died_at[0] < 12
    together(pack, 2, checkpoint_steps=4)
    assert outcome(pack) == outcome(whole)
    assert [fact.exact for fact in pack.started()] == [None, "exact"]
    assert pack.started()[1].step > 0


def test_4_07_two_processes_and_then_three(training_pack: Any, ddp: dict[str, Any]) -> None:
    """Nothing of a checkpoint belongs to a process, data and order come from (seed, step): it goes on, not bit by bit,
    and says so on every run that it touches."""
    pack = training_pack("train", entries(ddp))
    sessions = together(pack, 2, checkpoint_steps=4, asked=_after(5))
    assert {session.saved_step for session in sessions} == {5}
    together(pack, 3, checkpoint_steps=4)
    assert [fact.exact for fact in pack.started()] == [None, "not exact: processes 2 -> 3"]
    whole = training_pack("train", entries(ddp))
    together(whole, 2)
    for run, fact in pack.finished().items():
        assert fact.exact == ("resumed at step 5: not exact: processes 2 -> 3",)
        assert fact.summary["validation/accuracy"] == pytest.approx(
            whole.finished()[run].summary["validation/accuracy"], abs=0.1
        )


def _after(looks: int) -> Callable[[], str | None]:
    """One of the processes is asked to leave, when it has looked so often (once before each step)."""
    owner: list[int] = []
    seen = iter(range(1000))

    def asked() -> str | None:
        owner.append(threading.get_ident())
        return "SIGUSR2" if owner[0] == owner[-1] and next(seen) >= looks else None

    return asked


def test_held_out_scores_do_not_know_of_processes(
    training_pack: Any, ddp: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The passes are shared out; sums are taken pass by pass, as by one process."""
    monkeypatch.setattr(evaluation, "_ROWS", 40)
    still = {**ddp, "optimizer": {"name": "adamw", "lr": 1e-30}, "steps": 3}
    alone = training_pack("train", [(still, 0), (still, 1)])
    alone.go()
    for size in (2, 3):
        pack = training_pack("train", [(still, 0), (still, 1)])
        together(pack, size)
        for key, row in alone.rows().items():
            held_out = {name: value for name, value in row.items() if name.startswith(("validation", "test"))}
            assert len(held_out) >= 4
            assert {name: pack.rows()[key][name] for name in held_out} == held_out


def test_one_that_diverges_does_so_for_all(training_pack: Any, ddp: dict[str, Any]) -> None:
    wild = {**ddp, "optimizer": {"name": "adamw", "lr": 1e30}, "warmup_steps": 0}
    pack = training_pack("train", [(ddp, 0), (wild, 1)])
    sessions = together(pack, 2)
    assert [fact.status for _, fact in sorted(pack.finished().items())] == ["completed", "failed"]
    assert sessions[0].outcomes == sessions[1].outcomes


def test_processes_that_a_batch_cannot_be_shared_by(
    training_pack: Any, memorize: dict[str, Any], ddp: dict[str, Any]
) -> None:
    with pytest.raises(JobError, match=r"strategy: single is one process, but 2 were started"):
        together(training_pack("train", [(memorize, 0)]), 2)
    with pytest.raises(JobError, match=r"a batch of 2 cannot be shared by 3"):
        together(training_pack("train", [({**ddp, "batch_size": 2}, 0)]), 3)


def test_processes_that_drift_apart_are_found_out(
    training_pack: Any, ddp: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from jobs.optimizer import PackedAdamW

    update = PackedAdamW.update
    strange: list[int] = []

    def drifting(self: PackedAdamW, step: int, gradient: torch.Tensor, rates: torch.Tensor) -> None:
        update(self, step, gradient, rates)
        if not strange:
            strange.append(threading.get_ident())
        if strange[0] == threading.get_ident():
            self.values[0, 0] += 1e-7

    monkeypatch.setattr(PackedAdamW, "update", drifting)
    with pytest.raises(JobError, match="the processes hold different weights"):
        together(training_pack("train", [(ddp, 0)]), 2)


def test_a_probe_times_all_of_them_together(training_pack: Any, ddp: dict[str, Any]) -> None:
    pack = training_pack("train", [(ddp, 0)])
    sessions = together(pack, 2, max_steps=3)
    assert [session.progress.step for session in sessions] == [3, 3]
    (event,) = [event for event in pack.events() if event.name == "probe"]
    assert event.data["steps"] == 3
    assert not pack.finished()
