from typing import Any

import orjson
import pytest
import torch

from jobs import searcher
from jobs.facts import FailureClass
from jobs.pack_state import PackState
from jobs.searcher import SearchProgram
from jobs.shape_product import ShapeProduct, read_curves
from jobs.train_config import TrainConfig


def changed(config: dict[str, Any], **search: Any) -> dict[str, Any]:
    return {**config, "search": {"members": 3, **search}}


def test_a_search_leaves_a_shape_that_a_run_can_train_with(training_pack, memorize) -> None:
    pack = training_pack("search", [(changed(memorize), 0), (changed(memorize), 1)])
    pack.go()
    facts = [pack.finished()[run] for run in pack.runs]
    assert all(fact.status == "completed" for fact in facts)
    assert all((fact.summary["models"], fact.summary["models_survived"]) == (3, 3) for fact in facts)
    product = ShapeProduct.model_validate(orjson.loads(pack.product(0, "shape").read_bytes()))
    slot = product.slots["mlp"]
    assert len(slot.values) == 1
    assert len(slot.values[0]) == slot.knots == 122
    assert slot.moved_max == pytest.approx(max(abs(v - 0.01) for v in slot.values[0]), rel=1e-4)
    assert slot.moved_max > 0.05
    row = pack.rows()[pack.runs[0], 12]
    assert row["shape/moved_max"] == pytest.approx(slot.moved_max, rel=1e-5)
    assert row["shape/moved"] == pytest.approx(slot.moved_rms, rel=1e-5)
    assert {"shape/loss", "train/loss", "test/accuracy", "validation/accuracy"} <= set(row)
    assert slot.visits is not None
    examples, positions = 36, 2 + 1  # the last layer's block runs at the scored position only
    hidden, models = 4 * 8, 3
    assert sum(slot.visits.counts) + slot.visits.below + slot.visits.above == examples * positions * hidden * models
    assert slot.visits.low <= slot.visits.minimum < slot.visits.maximum <= slot.visits.high
    arm = {**memorize, "model": {**memorize["model"], "activation": {"kind": "learned"}}}
    train = training_pack("train", [(memorize, 0), (arm, 0, {"activation": pack.product(0, "shape")})])
    train.go()
    assert set(train.finished()) == set(train.runs)
    curves = read_curves(pack.product(0, "shape"), TrainConfig.model_validate(arm).transformer())
    assert curves["mlp"] == [list(slot.values[0])]


@pytest.mark.parametrize(
    "search",
    [
        {"where": "attention"},
        {"where": "both", "share": "per_layer"},
        {"learns": "scaled_gelu"},
        {"start": "gelu"},
        {"start": "identity", "weight_steps_per_shape_step": 3, "holdout": 0.4},
    ],
)
def test_every_kind_of_search_runs_and_feeds_its_runs(training_pack, memorize, search: dict[str, Any]) -> None:
    pack = training_pack("search", [(changed(memorize, **search), 0)])
    pack.go()
    product = ShapeProduct.model_validate(orjson.loads(pack.product(0, "shape").read_bytes()))
    where = search.get("where", "mlp")
    assert set(product.slots) == ({"mlp", "attention"} if where == "both" else {where})
    rows = 2 if search.get("share") == "per_layer" else 1
    kind = {"kind": "scaled_gelu" if search.get("learns") else "learned"}
    for slot in product.slots.values():
        assert len(slot.values) == rows
        assert slot.moved_max > 1e-3
    model = dict(memorize["model"])
    if where != "attention":
        model["activation"] = kind
    if where != "mlp":
        model["attention"] = {"kernel": "spline", "activation": kind}
    if rows == 2:
        model["share"] = "per_layer"
    train = training_pack("train", [({**memorize, "model": model}, 0, {"activation": pack.product(0, "shape")})])
    train.go()
    assert set(train.finished()) == set(train.runs)


def test_a_shape_that_did_not_move_is_a_failure(training_pack, memorize) -> None:
    pack = training_pack("search", [(changed(memorize, lr=1e-30), 0), (changed(memorize), 0)])
    pack.go()
    first, second = (pack.finished()[run] for run in pack.runs)
    assert (first.status, first.failure) == ("failed", FailureClass.USER_ERROR)
    assert first.message.startswith("the shape did not move")
    assert not first.products
    assert second.status == "completed"


def test_searches_in_one_pack_do_not_meet(training_pack, memorize) -> None:
    results = []
    for lr in (0.1, 0.5):
        pack = training_pack("search", [(changed(memorize), 0), (changed(memorize, lr=lr), 1)])
        pack.go()
        results.append(pack.product(0, "shape").read_bytes())
        rows = {step: row for (run, step), row in pack.rows().items() if run == pack.runs[0]}
        results.append(rows)
    assert results[0] == results[2]
    assert results[1] == results[3]
    alone = training_pack("search", [(changed(memorize), 0)])
    alone.go()
    ours = ShapeProduct.model_validate(orjson.loads(results[0])).slots["mlp"].values[0]
    theirs = ShapeProduct.model_validate(orjson.loads(alone.product(0, "shape").read_bytes())).slots["mlp"].values[0]
    assert ours == pytest.approx(theirs, rel=1e-3, abs=1e-3)


def test_a_search_whose_models_all_diverge_has_failed(training_pack, memorize) -> None:
    wild = {**changed(memorize), "optimizer": {"name": "adamw", "lr": 1e30}, "warmup_steps": 0}
    pack = training_pack("search", [(wild, 0), (changed(memorize), 0)])
    pack.go()
    first, second = (pack.finished()[run] for run in pack.runs)
    assert (first.status, first.failure) == ("failed", FailureClass.DIVERGED)
    assert "3 of 3 models diverged" in first.message
    assert second.status == "completed"


@pytest.fixture
def program(training_pack, memorize, monkeypatch: pytest.MonkeyPatch) -> SearchProgram:
    """The program of one search with three models, before its first step."""
    caught: list[SearchProgram] = []
    monkeypatch.setattr(searcher, "PackLoop", lambda session, program: caught.append(program) or _Nothing())
    haystack = {"name": "haystack", "max_keys": 3, "values": 8, "train": 200, "validation": 10, "test": 10}
    training_pack("search", [({**changed(memorize, start="gelu"), "task": haystack}, 0)]).go()
    return caught[0]


def test_both_gradients_are_taken_at_the_same_point(program: SearchProgram) -> None:
    """Against a plain rewriting: weights by the loss on their part, the shape by that on the other, then both move."""
    state = PackState.fresh(program.models)
    model = program.stack.model
    weights, shape = program._batches(0)
    theta = model.shapes()["mlp"]
    on_weights = program.stack._forward(weights)[0].sum()
    expected_weights = torch.autograd.grad(on_weights, tuple(model.weights().values()))
    single = [torch.autograd.grad(program.stack._forward(shape)[0][m], theta, retain_graph=True)[0] for m in range(3)]
    # A member's own loss reaches theta through the group's mean over three, so the sum of the three is the mean.
    before_weights, before_theta = program.stack.flat.values.clone(), theta.detach().clone()
    program.step(0, state)
    gathered = torch.cat([g.reshape(3, -1) for g in expected_weights], dim=1)
    moved = program.stack.flat.values - before_weights
    sure = gathered.abs() > 1e-6
    assert torch.equal(torch.sign(moved)[sure], -torch.sign(gathered)[sure])
    assert not moved[gathered == 0].any()
    torch.testing.assert_close(moved[sure].abs(), torch.full_like(moved[sure], 0.01 / 2), rtol=0.02, atol=0)
    gradient = sum(single)
    assert isinstance(gradient, torch.Tensor)
    moved_theta = (theta.detach() - before_theta)[0]
    strong = gradient[0].abs() > 1e-6
    assert strong.any()
    assert torch.equal(torch.sign(moved_theta)[strong], -torch.sign(gradient[0])[strong])
    assert not moved_theta[gradient[0] == 0].any()


def test_weights_and_shape_see_different_examples(program: SearchProgram) -> None:
    def strings(part: Any) -> set[bytes]:
        batch = part.batch(torch.arange(int(part.sizes[0])).expand(3, -1))
        both = torch.cat([batch.tokens[0], batch.targets[0]], dim=1)
        return {row.numpy().tobytes() for row in both}

    weights, shape = strings(program._weights_part), strings(program._shape_part)
    assert len(weights & shape) <= 1  # holdout() may cut one group of equal strings in two
    assert program._weights_part.sizes.tolist() == [160] * 3
    assert program._shape_part.sizes.tolist() == [40] * 3


def test_models_of_one_search_differ_in_weights_and_order(program: SearchProgram) -> None:
    values = program.stack.flat.values
    assert not torch.equal(values[0], values[1])
    batch = program._batches(0)[0]
    assert not torch.equal(batch.tokens[0], batch.tokens[1])


def test_each_model_memorises_a_table_of_its_own(training_pack, memorize, monkeypatch: pytest.MonkeyPatch) -> None:
    programs: list[SearchProgram] = []
    monkeypatch.setattr(searcher, "PackLoop", lambda session, program: programs.append(program) or _Nothing())
    training_pack("search", [(changed(memorize), 0)]).go()
    batch = programs[0]._weights_part.batch(torch.arange(36).expand(3, -1))
    assert torch.equal(batch.tokens[0].sort(dim=0)[0], batch.tokens[1].sort(dim=0)[0])
    assert not torch.equal(batch.targets[0], batch.targets[1])
    weights, shape = programs[0]._batches(0)
    assert weights.tokens.shape[:2] == (3, 8)
    assert shape.tokens.shape[:2] == (3, 2)


class _Nothing:
    def run(self) -> None:
        return
