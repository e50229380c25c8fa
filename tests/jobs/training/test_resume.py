"""Killed at random moments and taken up again: the same bits as a run that nobody touched."""

import random
from typing import Any

import pytest
import torch

INTERVAL = 4
GOING = {
    "solo": {"models": [0]},
    "packed": {"models": [0, 1, 4]},
    "search": {"models": [0, 1], "shape": [0]},
}
"""Rows of what trains to the last checkpoint, at step 12."""


def entries(kind: str, base: dict[str, Any]) -> tuple[str, list[tuple[dict[str, Any], int]]]:
    base = {**base, "steps": 16, "evaluate": {"points": 16}, "t_task": 8}
    if kind == "solo":
        return "train", [(base, 3)]
    relu = {**base, "model": {**base["model"], "activation": {"kind": "relu"}}}
    short = {**base, "steps": 7}
    clipped = {**base, "optimizer": {"name": "adamw", "lr": 0.1, "grad_clip": 0.5}}
    wild = {**base, "optimizer": {"name": "adamw", "lr": 1e30}, "warmup_steps": 0}
    if kind == "packed":
        return "train", [(base, 0), (relu, 0), (short, 1), (wild, 1), (clipped, 2)]
    search = {**base, "search": {"members": 2, "weight_steps_per_shape_step": 3}}
    return "search", [(search, 0), ({**search, "steps": 10}, 1)]


def outcome(pack: Any) -> Any:
    """All that a pack has to say: every row, every summary, the bytes of every product, the last checkpoint."""
    summaries = {run: (f.status, f.step, f.summary, f.failure, f.message) for run, f in pack.finished().items()}
    digests = {run: {name: p.sha256 for name, p in f.products.items()} for run, f in pack.finished().items()}
    return pack.rows(), summaries, digests


@pytest.mark.parametrize("kind", ["solo", "packed", "search"])
def test_killed_at_random_moments_it_ends_with_the_same_bits(training_pack, memorize, kind: str) -> None:
    runner, members = entries(kind, memorize)
    whole = training_pack(runner, members)
    signs = whole.go(checkpoint_steps=INTERVAL).seen
    expected, tensors = outcome(whole), whole.saved()
    assert set(whole.finished()) == set(whole.runs)
    draw = random.Random(kind)
    resumed_from: set[int] = set()
    for _ in range(6):
        pack = training_pack(runner, members)
        for _ in range(200):
            if pack.go_until(draw.randint(1, signs // 2), checkpoint_steps=INTERVAL):
                break
        assert outcome(pack) == expected
        saved = pack.saved()
        assert set(saved) == set(tensors)
        for name in tensors:  # of those who still trained then: who has ended is masked and may stand anywhere
            going = GOING[kind]["shape"] if name.startswith("shape") else GOING[kind]["models"]
            assert torch.equal(saved[name][going], tensors[name][going]), name
        assert {fact.exact for fact in pack.started()} <= {None, "exact"}
        resumed_from |= {fact.step for fact in pack.started()[1:]}
        for died, next_start in zip(pack.died_at, pack.started()[1:], strict=True):
            assert 0 <= died - next_start.step <= INTERVAL
    assert len(resumed_from) >= 3  # the kills did hit different places


def test_asked_to_leave_at_every_step_it_ends_with_the_same_bits(training_pack, memorize) -> None:
    runner, members = entries("packed", memorize)
    whole, pack = training_pack(runner, members), training_pack(runner, members)
    whole.go()
    steps = 0
    while len(pack.finished()) < len(members):
        answers = iter([None, None, None])
        pack.go(asked=lambda answers=answers: next(answers, "SIGUSR2"))
        steps += 1
        assert steps < 60
    assert outcome(pack) == outcome(whole)
    assert steps > 4


def test_the_verdict_says_what_changed(training_pack, memorize) -> None:
    runner, members = entries("packed", memorize)
    pack = training_pack(runner, members)
    assert not pack.go_until(40, checkpoint_steps=INTERVAL)
    before = set(pack.finished())
    pack.runs[0], pack.runs[1] = pack.runs[1], pack.runs[0]
    pack.go(threads=2)
    assert pack.started()[-1].exact == "not exact: pack changed; threads 1 -> 2"
    later = [fact for run, fact in pack.finished().items() if run not in before]
    assert later
    assert all("threads 1 -> 2" in fact.exact[0] for fact in later)
