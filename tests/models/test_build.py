"""Which weights and shapes a network starts from, and what a search does to its shapes."""

import pytest
import torch
from torch.nn import functional

from models.build import Member, build_pack, build_solo
from models.config import (
    AttentionConfig,
    FixedActivation,
    LearnedActivation,
    ScaledGeluActivation,
    SplineGrid,
    TransformerConfig,
    with_search,
)
from models.curves import start_values
from models.errors import ModelError

BASE = TransformerConfig(vocab=11, length=8, layers=2, width=16, heads=4)
LEARNED = with_search(BASE, "mlp", LearnedActivation(start="gelu"))
SCALED = with_search(BASE, "mlp", ScaledGeluActivation())
CURVE = start_values(SplineGrid(), "gelu")


def tokens(members, seed=0):
    return torch.randint(0, 11, (members, 4, 8), generator=torch.Generator().manual_seed(seed))


def losses(model, ids):
    logits = model(ids)[:, :, :-1]
    each = functional.cross_entropy(logits.flatten(0, -2), ids[:, :, 1:].flatten(), reduction="none")
    return each.view(ids.shape[0], -1).mean(dim=1)


def shape_gradient(model, ids, keep=None):
    each = losses(model, ids)
    (each if keep is None else each[keep]).sum().backward()
    (theta,) = model.shapes().values()
    assert theta.grad is not None
    return theta.grad


def test_initial_weights_depend_on_the_seed_and_not_on_place_pack_size_or_function():
    members = [Member(LEARNED, 4, {"mlp": CURVE}), Member(BASE, 7), Member(BASE, 4)]
    pack = build_pack(members).weights()
    solo = build_solo(BASE, 4).weights()
    assert set(pack) == set(solo)
    for name, weight in solo.items():
        assert torch.equal(pack[name][0], weight)
        assert torch.equal(pack[name][2], weight)
        if not name.endswith(("gain", "shift", "bias")):
            assert not torch.equal(pack[name][1], weight)


def test_a_weight_does_not_depend_on_which_others_exist():
    learned, alibi = build_solo(BASE, 1), build_solo(BASE.model_copy(update={"positions": "alibi"}), 1)
    common = alibi.weights()
    assert set(learned.weights()) - set(common) == {"position_embedding"}
    assert all(torch.equal(learned.weights()[name], weight) for name, weight in common.items())


def test_equal_shapes_are_drawn_differently():
    blocks = build_solo(BASE, 0).blocks
    assert not torch.equal(blocks[0].feed_forward.widen.weight, blocks[1].feed_forward.widen.weight)


def test_initial_scales_are_those_of_gpt2():
    config = TransformerConfig(vocab=64, length=64, layers=8, width=64, heads=4)
    for name, weight in build_solo(config, 0).weights().items():
        if name.endswith("gain"):
            assert bool((weight == 1).all())
        elif name.endswith(("shift", "bias")):
            assert bool((weight == 0).all())
        else:
            residual = name.endswith(("project.weight", "narrow.weight"))
            assert weight.std().item() == pytest.approx(0.005 if residual else 0.02, rel=0.05), name


@pytest.mark.parametrize(
    ("config", "curve"), [(LEARNED, CURVE), (SCALED, torch.tensor([1.0, 1.0]))], ids=["spline", "scaled_gelu"]
)
def test_shape_gradient_is_the_mean_of_the_members_own(config, curve):
    members = [Member(config, seed, {"mlp": curve}, group) for seed, group in enumerate([1, 0, 1, 1])]
    ids = tokens(4)
    together = shape_gradient(build_pack(members, train_shapes=True), ids)
    assert together.shape == (2, len(curve))
    own = [
        shape_gradient(build_pack([m], train_shapes=True), ids[place : place + 1])[0] for place, m in enumerate(members)
    ]
    torch.testing.assert_close(together[0], own[1])
    torch.testing.assert_close(together[1], (own[0] + own[2] + own[3]) / 3)


def test_weights_in_a_search_get_their_own_gradient():
    members = [Member(LEARNED, seed, group=0) for seed in range(3)]
    model, ids = build_pack(members, train_shapes=True), tokens(3)
    frozen = build_pack([Member(LEARNED, seed, {"mlp": CURVE}) for seed in range(3)])
    losses(model, ids).sum().backward()
    losses(frozen, ids).sum().backward()
    for name, weight in model.weights().items():
        assert torch.equal(weight.grad, frozen.weights()[name].grad)


def test_per_layer_shapes_differ_by_layer_and_shared_ones_add_up():
    shared = [Member(LEARNED, seed, group=0) for seed in range(2)]
    layered = [Member(m.config.model_copy(update={"share_activation": "per_layer"}), m.seed, group=0) for m in shared]
    ids = tokens(2)
    one = shape_gradient(build_pack(shared, train_shapes=True), ids)
    each = shape_gradient(build_pack(layered, train_shapes=True), ids)
    assert each.shape == (1, 2, 122)
    assert not torch.equal(each[0, 0], each[0, 1])
    torch.testing.assert_close(each.sum(dim=1), one)


def test_a_layer_reads_its_own_row_frozen_and_in_a_search():
    config = LEARNED.model_copy(update={"share_activation": "per_layer"})
    rows = torch.stack([CURVE, 0.5 * CURVE.flip(0)])
    ids = tokens(1)
    searching = build_pack([Member(config, 0, {"mlp": rows}, group=0)], train_shapes=True)
    frozen = build_pack([Member(config, 0, {"mlp": rows})])
    swapped = build_pack([Member(config, 0, {"mlp": rows.flip(0)})])
    torch.testing.assert_close(searching(ids), frozen(ids))
    assert not torch.allclose(frozen(ids), swapped(ids))
    model = build_pack([Member(config, 0, {"mlp": rows})])
    model.blocks[1].feed_forward.narrow.weight.data.zero_()  # the second layer's function no longer matters
    other = build_pack([Member(config, 0, {"mlp": torch.stack([CURVE, CURVE])})])
    other.load_state_dict(model.state_dict())
    assert torch.equal(model(ids), other(ids))


def test_a_diverged_member_leaves_its_group_alone():
    members = [Member(LEARNED, seed, group=0) for seed in range(3)]
    ids = tokens(3)
    clean = shape_gradient(build_pack([members[0], members[2]], train_shapes=True), ids[[0, 2]])
    model = build_pack(members, train_shapes=True)
    for weight in model.weights().values():
        weight.data[1] = float("nan")
    masked = shape_gradient(model, ids)
    torch.testing.assert_close(masked, clean * 2 / 3)  # at once: it adds nothing
    model.zero_grad()
    model.set_active([True, False, True])
    torch.testing.assert_close(shape_gradient(model, ids), clean)  # once retired: it does not count either


@pytest.mark.parametrize("where", ["mlp", "attention", "both"])
def test_where_a_search_acts(where):
    config = with_search(BASE, where, LearnedActivation(start="identity"))
    model = build_pack([Member(config, 0, group=0)], train_shapes=True)
    expected = {"mlp": {"mlp"}, "attention": {"attention"}, "both": {"mlp", "attention"}}[where]
    assert set(model.shapes()) == expected
    losses(model, tokens(1)).sum().backward()
    for theta in model.shapes().values():
        assert theta.grad is not None
        assert theta.grad.abs().sum() > 0


@pytest.mark.parametrize("start", ["constant", "identity", "gelu"])
def test_where_a_search_starts(start):
    config = with_search(BASE, "mlp", LearnedActivation(start=start))
    theta = build_pack([Member(config, 0, group=3)], train_shapes=True).shapes()["mlp"]
    torch.testing.assert_close(theta[0], start_values(SplineGrid(), start).float())
    x = torch.linspace(-20, 20, 122)
    expected = {"constant": torch.full_like(x, 0.01), "identity": x, "gelu": functional.gelu(x, approximate="tanh")}
    torch.testing.assert_close(theta[0], expected[start], rtol=1e-5, atol=1e-5)


def test_a_flat_start_moves_within_a_few_steps():
    config = with_search(BASE, "mlp", LearnedActivation(start="constant"))
    model = build_pack([Member(config, s, group=0) for s in range(4)], train_shapes=True)
    theta = model.shapes()["mlp"]
    weights = torch.optim.Adam(model.weights().values(), lr=1e-2)
    shapes = torch.optim.Adam([theta], lr=0.1)
    for step in range(8):
        ids = tokens(4, seed=step)
        weights.zero_grad()
        shapes.zero_grad()
        losses(model, ids).sum().backward()
        weights.step()
        shapes.step()
    assert (theta - 0.01).abs().max() > 0.1


@pytest.mark.parametrize(
    ("members", "search", "message"),
    [
        ([], False, "at least one member"),
        ([Member(BASE, 0), Member(BASE.model_copy(update={"width": 32}), 0)], False, "member 1 cannot be stacked"),
        ([Member(LEARNED, 0)], False, "needs the curve that a search produced"),
        ([Member(LEARNED, 0, {"mlp": [0.0] * 121})], False, r"has shape \[121\], expected \[122\]"),
        ([Member(LEARNED, 0, {"mlp": [float("nan")] * 122})], False, "holds a NaN"),
        ([Member(BASE, 0, {"mlp": [0.0] * 122})], False, "no slot takes the curves mlp"),
        ([Member(BASE, 0, group=0)], True, "member 0 has nothing to search"),
        ([Member(LEARNED, 0, group=0), Member(SCALED, 0, group=1)], True, "member 1 searches for something else"),
        ([Member(LEARNED, 0)], True, "member 0 has no group"),
        (
            [Member(LEARNED, 0, group=0), Member(LEARNED, 1, {"mlp": [0.5] * 122}, group=0)],
            True,
            "members of group 0 start the search of slot 'mlp' from different shapes",
        ),
    ],
)
def test_mistakes_are_named(members, search, message):
    with pytest.raises(ModelError, match=message):
        build_pack(members, train_shapes=search)


def test_attention_and_mlp_take_curves_of_their_own():
    kernel = AttentionConfig(kernel="spline", activation=LearnedActivation())
    config = BASE.model_copy(update={"attention": kernel, "activation": LearnedActivation()})
    model = build_solo(config, 0, {"mlp": CURVE, "attention": start_values(SplineGrid(), "identity")})
    plain = AttentionConfig(kernel="spline", activation=FixedActivation(kind="identity"))
    same = build_solo(
        BASE.model_copy(update={"attention": plain, "activation": LearnedActivation()}), 0, {"mlp": CURVE}
    )
    torch.testing.assert_close(model(tokens(1)[0]), same(tokens(1)[0]), rtol=1e-4, atol=1e-5)
