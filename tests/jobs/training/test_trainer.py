import math
from typing import Any

import orjson
import pytest
import torch

from jobs.errors import JobError
from jobs.facts import FailureClass

COPY = {
    "task": {"name": "copy", "symbols": 4, "max_length": 3, "test_max_length": 4, "train": 50}
    | {"validation": 16, "test": 16},
    "model": {"width": 8, "heads": 2},
    "optimizer": {"name": "adamw", "lr": 0.01},
    "steps": 8,
    "batch_size": 8,
    "evaluate": {"points": 2},
    "t_task": 4,
}


def test_a_run_leaves_rows_at_its_evaluations_and_a_summary(training_pack) -> None:
    pack = training_pack("train", [(COPY, 0)])
    pack.go()
    (run,) = pack.runs
    assert sorted(step for _, step in pack.rows()) == [2, 4, 8]
    last = pack.rows()[run, 8]
    classes = {f"{split}/accuracy/length_{n}" for split in ("validation", "test") for n in (2, 3, 4)}
    every = {f"{s}/{m}" for s in ("train", "validation", "test") for m in ("loss", "accuracy")}
    assert set(last) == classes | every | {"train/gradient_norm"}
    assert 0 < last["train/gradient_norm"] < 100
    fact = pack.finished()[run]
    assert (fact.status, fact.step) == ("completed", 8)
    for name, step in (("T/2", 2), ("T", 4), ("2T", 8), ("final", 8)):
        assert fact.summary[f"test/accuracy@{name}"] == pack.rows()[run, step]["test/accuracy"]
    assert fact.summary["steps"] == 8
    assert fact.summary["lr"] == 0.01
    assert fact.summary["test/accuracy"] == last["test/accuracy"]


def test_the_loss_at_the_first_positions_stands_apart(training_pack) -> None:
    pack = training_pack("train", [({**COPY, "evaluate": {"points": 1, "first_positions": n}}, 0) for n in (6, 128)])
    pack.go()
    short, long = (pack.rows()[run, 8] for run in pack.runs)
    assert {name for name in short if "first" in name} == {f"{s}/loss_first_6" for s in ("validation", "test")}
    assert short["validation/loss_first_6"] != short["validation/loss"]
    assert not [name for name in long if "first" in name]  # no position of this task lies beyond 128
    assert short["validation/loss"] == long["validation/loss"]


def test_a_pilot_looks_at_validation_only(training_pack, memorize) -> None:
    pack = training_pack("train", [({**memorize, "evaluate": {"points": 1, "splits": ["validation"]}}, 0)])
    pack.go()
    (row,) = pack.rows().values()
    losses = {"train/loss", "train/accuracy", "validation/loss", "validation/accuracy"}
    assert set(row) == losses | {"train/gradient_norm"}
    assert not [name for name in pack.finished()[pack.runs[0]].summary if name.startswith("test")]


def test_it_learns(training_pack, memorize) -> None:
    config = {**memorize, "steps": 300, "batch_size": 36, "optimizer": {"name": "adamw", "lr": 0.02}}
    pack = training_pack("train", [(config, seed) for seed in range(3)])
    pack.go()
    assert all(fact.summary["test/accuracy"] > 0.9 for fact in pack.finished().values())
    assert all(fact.summary["train/loss"] < 0.5 for fact in pack.finished().values())


def test_arms_are_paired_and_members_do_not_depend_on_their_neighbours(training_pack, memorize) -> None:
    """Equal seeds see equal data and weights in any pack, to rounding (products of another number of rows)."""
    relu = {**memorize, "model": {**memorize["model"], "activation": {"kind": "relu"}}}
    mixed = training_pack("train", [(memorize, 0), (relu, 0), (memorize, 1), (memorize, 0)])
    mixed.go()
    alone = training_pack("train", [(memorize, 0)])
    alone.go()
    rows = mixed.rows()
    for step in (4, 8, 12):
        first, twin = rows[mixed.runs[0], step], rows[mixed.runs[3], step]
        assert first == twin
        assert first["train/loss"] == pytest.approx(alone.rows()[alone.runs[0], step]["train/loss"], rel=1e-5)
        assert first["train/loss"] != rows[mixed.runs[1], step]["train/loss"]
        assert first["train/loss"] != rows[mixed.runs[2], step]["train/loss"]


@pytest.mark.parametrize("other", [{"lr": 1e30}, {"lr": 0.5, "grad_clip": 0.1}])
def test_what_one_member_does_reaches_no_other(training_pack, memorize, other: dict[str, Any]) -> None:
    wild = {**memorize, "optimizer": {"name": "adamw", **other}, "warmup_steps": 0}
    calm = {**memorize, "optimizer": {"name": "adamw", "lr": 0.001}}
    results = []
    for middle in (calm, wild):
        pack = training_pack("train", [(memorize, 0), (middle, 1), (memorize, 2)])
        pack.go()
        results.append({k: row for k, row in pack.rows().items() if k[0] != pack.runs[1]})
    assert results[0] == results[1]


def test_a_diverged_member_fails_with_its_step_and_the_others_go_on(training_pack, memorize) -> None:
    wild = {**memorize, "optimizer": {"name": "adamw", "lr": 1e30}, "warmup_steps": 0}
    pack = training_pack("train", [(wild, 0), (memorize, 0)])
    pack.go()
    first, second = (pack.finished()[run] for run in pack.runs)
    assert (first.status, first.failure, first.step) == ("failed", FailureClass.DIVERGED, 1)
    assert "step 1" in first.message
    assert second.status == "completed"
    assert math.isfinite(float(second.summary["train/loss"] or "nan"))
    assert not [step for run, step in pack.rows() if run == pack.runs[0]]


def test_a_loss_above_the_configured_bound_counts_as_divergence(training_pack, memorize) -> None:
    pack = training_pack("train", [({**memorize, "diverged_above": 0.5}, 0)])
    pack.go()
    fact = pack.finished()[pack.runs[0]]
    assert (fact.status, fact.failure, fact.step) == ("failed", FailureClass.DIVERGED, 0)


def test_each_member_ends_at_its_own_step(training_pack, memorize) -> None:
    short = {**memorize, "steps": 5}
    pack = training_pack("train", [(short, 0), (memorize, 0)])
    pack.go(checkpoint_steps=7)
    facts = [pack.finished()[run] for run in pack.runs]
    assert [fact.step for fact in facts] == [5, 12]
    assert facts[0].time < facts[1].time
    assert not [step for run, step in pack.rows() if run == pack.runs[0] and step > 5]


def test_a_masked_member_whose_search_failed_keeps_its_place_without_a_product(training_pack, memorize) -> None:
    """The baseline and the other arms of its pack train on, bit for bit as with the product there."""
    learned = {**memorize, "model": {**memorize["model"], "activation": {"kind": "learned"}}}
    plain = training_pack("train", [(memorize, 0), (memorize, 1)])
    plain.go(done=[1])
    orphaned = training_pack("train", [(memorize, 0), (learned, 1)])
    orphaned.go(done=[1])
    assert set(orphaned.finished()) == {orphaned.runs[0]}
    assert orphaned.rows() == plain.rows()


def test_a_member_that_is_done_keeps_its_place_and_changes_nothing(training_pack, memorize) -> None:
    entries = [(memorize, 0), (memorize, 1), (memorize, 2)]
    whole, masked = training_pack("train", entries), training_pack("train", entries)
    whole.go()
    masked.go(done=[1])
    assert set(masked.finished()) == {masked.runs[0], masked.runs[2]}
    assert masked.rows() == {k: row for k, row in whole.rows().items() if k[0] != whole.runs[1]}


@pytest.mark.parametrize("other", [1, 8, 48])
def test_pack_sizes_agree(training_pack, memorize, other: int) -> None:
    """Loss at step 10 within 1e-5 of a pack of 3 (performance note, K6)."""
    config = {**memorize, "steps": 10, "evaluate": {"points": 10}}
    reference = training_pack("train", [(config, seed) for seed in range(3)])
    reference.go()
    pack = training_pack("train", [(config, seed) for seed in range(other)])
    pack.go()
    ours, theirs = (p.rows()[p.runs[0], 10]["train/loss"] for p in (pack, reference))
    assert ours == pytest.approx(theirs, rel=1e-5)


def test_a_probe_times_steps_and_finishes_nothing(training_pack, memorize) -> None:
    pack = training_pack("train", [(memorize, 0), (memorize, 1)])
    pack.go(max_steps=3, checkpoint_steps=1)
    assert not pack.finished()
    assert not pack.rows()
    (event,) = pack.events()
    assert event.name == "probe"
    assert event.data["steps"] == 3
    assert 0 < event.data["median_step_s"] < 5


def test_asked_to_leave_it_saves_and_goes(training_pack, memorize) -> None:
    pack = training_pack("train", [(memorize, 0)])
    answers = iter([None, None, None, "SIGTERM"])
    session = pack.go(asked=lambda: next(answers, "SIGTERM"))
    assert not pack.finished()
    assert session.saved_step == session.progress.step > 0
    assert float(pack.saved()["sums.batches"]) == session.saved_step
    pack.go()
    assert [fact.exact for fact in pack.started()] == [None, "exact"]
    assert pack.started()[1].step == session.saved_step
    assert set(pack.finished()) == set(pack.runs)


def test_a_curve_that_is_not_there_is_the_users_mistake(training_pack, memorize, tmp_path) -> None:
    config = {**memorize, "model": {**memorize["model"], "activation": {"kind": "learned"}}}
    with pytest.raises(JobError, match="needs the input 'activation'"):
        training_pack("train", [(config, 0)]).go()
    other = tmp_path / "shape.json"
    slot = {"kind": "learned", "low": -1.0, "high": 1.0, "knots": 2, "values": [[0.0, 1.0]], "start": [0.0, 0.0]}
    slot |= {"moved_rms": 1.0, "moved_max": 1.0}
    payload = {"version": 1, "steps": 1, "members": 1, "models": 1, "slots": {"mlp": slot}}
    other.write_bytes(orjson.dumps(payload))
    with pytest.raises(JobError, match="asks for"):
        training_pack("train", [(config, 0, {"activation": other})]).go()
    other.write_bytes(orjson.dumps({**payload, "slots": {"attention": slot}}))
    with pytest.raises(JobError, match="search with where: mlp or both"):
        training_pack("train", [(config, 0, {"activation": other})]).go()
    knots = {"low": -20.0, "high": 20.0, "knots": 122, "values": [[0.0] * 122] * 2}
    other.write_bytes(orjson.dumps({**payload, "slots": {"mlp": {**slot, **knots}}}))
    with pytest.raises(JobError, match=r"each of 2 layers .*; set model\.share: per_layer"):
        training_pack("train", [(config, 0, {"activation": other})]).go()
    other.write_bytes(b"{}")
    with pytest.raises(JobError, match="not the product of a search"):
        training_pack("train", [(config, 0, {"activation": other})]).go()


def test_no_randomness_outside_seed_and_step(training_pack, memorize) -> None:
    """Training neither reads nor moves the global generators, so a checkpoint has none to keep."""
    results = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        pack = training_pack("train", [(memorize, 0)])
        pack.go()
        assert torch.equal(torch.get_rng_state(), before)
        results.append(pack.rows())
    assert results[0] == results[1]
