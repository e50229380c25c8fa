"""The decoder: the same function solo and packed, causal, with members that never meet."""

import copy
import itertools

import pytest
import torch
from torch.nn import functional

from models.build import Member, build_pack, build_solo
from models.config import (
    AttentionConfig,
    FixedActivation,
    LearnedActivation,
    RandomSplineActivation,
    ScaledGeluActivation,
    SplineGrid,
    TransformerConfig,
)
from models.curves import start_values

BASE = TransformerConfig(vocab=11, length=12, layers=2, width=16, heads=4)
GELU_CURVE = start_values(SplineGrid(), "gelu").tolist()
IDENTITY = start_values(SplineGrid(), "identity").tolist()
KERNEL = AttentionConfig(kernel="spline", activation=FixedActivation(kind="tanh"))


def variant(**changes):
    return TransformerConfig.model_validate({**BASE.model_dump(), **changes})


MIXTURE = [
    Member(BASE, 5),
    Member(variant(activation=LearnedActivation()), 5, {"mlp": GELU_CURVE}),
    Member(variant(activation=FixedActivation(kind="relu")), 6),
    Member(variant(activation=RandomSplineActivation(seed=3)), 7),
    Member(variant(activation=ScaledGeluActivation()), 8, {"mlp": [1.3, 0.7]}),
    Member(BASE, 9),
    Member(variant(activation=FixedActivation(kind="relu2")), 10),
    Member(variant(activation=FixedActivation(kind="silu")), 11),
    Member(variant(activation=FixedActivation(kind="tanh")), 12),
    Member(variant(activation=FixedActivation(kind="identity")), 13),
    Member(variant(activation=RandomSplineActivation(grid=SplineGrid(low=-3, high=3, knots=17))), 14),
]


def tokens(members, batch=3, length=7, seed=0, vocab=11):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, vocab, (members, batch, length), generator=generator)


def member_losses(model, ids):
    logits = model(ids)[:, :, :-1]
    losses = functional.cross_entropy(logits.flatten(0, -2), ids[:, :, 1:].flatten(), reduction="none")
    return losses.view(ids.shape[0], -1).mean(dim=1)


def gradients(model, ids, keep=None):
    losses = member_losses(model, ids)
    (losses if keep is None else losses[keep]).sum().backward()
    found = {name: p.grad for name, p in model.weights().items()}
    assert all(g is not None for g in found.values())
    return losses.detach(), found


@pytest.mark.parametrize("positions", ["learned", "alibi"])
@pytest.mark.parametrize(
    "attention",
    [
        AttentionConfig(),
        KERNEL,
        KERNEL.model_copy(update={"norm": "sum_abs"}),
        KERNEL.model_copy(update={"norm": "softmax"}),
    ],
    ids=["softmax", "kernel", "kernel-sum_abs", "kernel-softmax"],
)
def test_a_member_is_the_solo_model_of_its_seed_and_function(positions, attention):
    changes = {"positions": positions, "attention": attention.model_dump()}
    members = [
        Member(variant(**{**changes, "activation": m.config.activation.model_dump()}), m.seed, m.curves)
        for m in MIXTURE
    ]
    pack, ids = build_pack(members), tokens(len(members))
    for p in pack.parameters():
        p.data.mul_(3.0)  # beyond the nearly linear range of fresh weights
    logits = pack(ids)
    losses, grads = gradients(pack, ids)
    assert torch.isfinite(losses).all()
    for place, member in enumerate(members):
        solo = build_solo(member.config, member.seed, member.curves)
        for p in solo.parameters():
            p.data.mul_(3.0)
        torch.testing.assert_close(logits[place], solo(ids[place]), rtol=1e-4, atol=1e-5)
        out = solo(ids[place])[:, :-1]
        functional.cross_entropy(out.flatten(0, 1), ids[place, :, 1:].flatten()).backward()
        for name, weight in solo.weights().items():
            torch.testing.assert_close(grads[name][place], weight.grad, rtol=1e-3, atol=2e-5, msg=name)


@pytest.mark.parametrize("length", [1, 3, 7, 12])
@pytest.mark.parametrize("attention", [AttentionConfig(), KERNEL], ids=["softmax", "kernel"])
def test_a_later_token_changes_no_earlier_logit(length, attention):
    model = build_pack([Member(variant(attention=attention.model_dump()), 0)])
    ids = tokens(1, length=length)
    changed = ids.clone()
    changed[..., -1] = (changed[..., -1] + 1) % 11
    before, after = model(ids), model(changed)
    assert torch.equal(before[:, :, :-1], after[:, :, :-1])
    assert not torch.equal(before[:, :, -1], after[:, :, -1])


def test_scored_positions_are_the_same_logits_and_gradients():
    model, ids = build_pack(MIXTURE), tokens(len(MIXTURE))
    scored = torch.randint(0, 7, (len(MIXTURE), 3, 2), generator=torch.Generator().manual_seed(1))
    index = scored.unsqueeze(-1).expand(-1, -1, -1, 11)
    everything = model(ids).gather(2, index)
    everything.square().sum().backward()
    full = {name: p.grad.clone() for name, p in model.weights().items()}
    model.zero_grad()
    some = model(ids, scored)
    some.square().sum().backward()
    torch.testing.assert_close(some, everything, rtol=1e-5, atol=1e-6)
    for name, p in model.weights().items():
        torch.testing.assert_close(p.grad, full[name], rtol=1e-4, atol=1e-6, msg=name)


def test_learned_positions_end_where_the_table_ends_and_alibi_goes_on():
    with pytest.raises(ValueError, match="13 tokens, but the position table ends at 12"):
        build_solo(BASE, 0)(tokens(1, length=13)[0])
    longer = build_solo(variant(positions="alibi"), 0)(tokens(1, length=30)[0])
    assert longer.shape == (3, 30, 11)


def test_alibi_is_a_penalty_on_distance_in_the_scores():
    config = variant(positions="alibi", layers=1, heads=2)
    model = build_solo(config, 0)
    x = torch.randn(5, 16)
    attention = model.blocks[0].attention
    q, k, v = attention.qkv(x).view(5, 3, 2, 8).permute(1, 2, 0, 3)
    expected = torch.empty(2, 5, 8)
    for h, i in itertools.product(range(2), range(5)):
        slope = (1 / 16, 1 / 256)[h]
        scores = torch.stack([q[h, i] @ k[h, j] / 8**0.5 - slope * (i - j) for j in range(i + 1)])
        expected[h, i] = torch.softmax(scores, 0) @ v[h, : i + 1]
    expected = attention.project(expected.transpose(0, 1).reshape(5, 16))
    torch.testing.assert_close(attention(x, 1, None), expected)


@pytest.mark.parametrize("norm", ["none", "sum_abs"])
def test_the_signed_kernel_is_what_the_config_says(norm):
    attention_config = AttentionConfig(kernel="spline", norm=norm, activation=FixedActivation(kind="tanh"))
    config = variant(positions="alibi", layers=1, heads=2, attention=attention_config.model_dump())
    model = build_solo(config, 0)
    x = 20 * torch.randn(5, 16, generator=torch.Generator().manual_seed(0))
    attention = model.blocks[0].attention
    q, k, v = attention.qkv(x).view(5, 3, 2, 8).permute(1, 2, 0, 3)
    expected = torch.empty(2, 5, 8)
    for h, i in itertools.product(range(2), range(5)):
        slope = (1 / 16, 1 / 256)[h]
        decay = torch.exp(-slope * (i - torch.arange(i + 1.0)))
        row = decay * torch.stack([q[h, i].tanh() @ k[h, j].tanh() for j in range(i + 1)])
        row = row / (8 * (i + 1)) ** 0.5 if norm == "none" else row / (row.abs().sum() + 1e-6)
        expected[h, i] = row @ v[h, : i + 1]
    expected = attention.project(expected.transpose(0, 1).reshape(5, 16))
    torch.testing.assert_close(attention(x, 1, torch.tanh), expected)


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_a_diverged_member_leaves_the_bits_of_all_others_alone(broken):
    ids = tokens(len(MIXTURE))
    losses, grads = gradients(build_pack(MIXTURE), ids)
    for victim in (0, 1, 4, 10):
        model = build_pack(MIXTURE)
        for weight in model.weights().values():
            weight.data[victim] = broken
        others = [p for p in range(len(MIXTURE)) if p != victim]
        spoilt, spoilt_grads = gradients(model, ids)
        assert not torch.isfinite(spoilt[victim])
        assert torch.equal(losses[others], spoilt[others])
        for name, grad in spoilt_grads.items():
            assert torch.equal(grads[name][others], grad[others]), name


def train(members, steps=10, attention=None):
    model = build_pack(members)
    weights = list(model.weights().values())
    optimizer = torch.optim.AdamW(weights, lr=3e-3, weight_decay=1e-3)
    for step in range(steps):
        ids = torch.stack([tokens(1, batch=8, length=9, seed=1000 * m.seed + step)[0] for m in members])
        losses = member_losses(model, ids)
        optimizer.zero_grad()
        losses.sum().backward()
        optimizer.step()
    return losses.detach()


def test_pack_sizes_1_8_and_48_agree_and_a_repeat_is_the_same_bits():
    members = [Member(MIXTURE[p % 4].config, p, MIXTURE[p % 4].curves) for p in range(48)]
    large = train(members)
    assert torch.equal(large, train(members))
    medium = train(members[:8])
    torch.testing.assert_close(medium, large[:8], rtol=1e-5, atol=0)
    for place in range(8):
        torch.testing.assert_close(train(members[place : place + 1]), large[place : place + 1], rtol=1e-5, atol=0)


def test_the_identity_spline_is_a_linear_block():
    learned = variant(activation=LearnedActivation())
    model = build_pack([Member(learned, 2, {"mlp": IDENTITY}), Member(variant(activation={"kind": "identity"}), 2)])
    ids = tokens(1).expand(2, -1, -1)
    losses, grads = gradients(model, ids)
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-6, atol=0)
    for name, grad in grads.items():
        torch.testing.assert_close(grad[0], grad[1], rtol=1e-3, atol=1e-5, msg=name)


@pytest.mark.parametrize("attention", [AttentionConfig(), KERNEL], ids=["softmax", "kernel"])
def test_evaluating_first_leaves_nothing_behind_that_training_cannot_use(attention):
    config = variant(attention=attention.model_dump(), layers=1, positions="alibi")
    ids = tokens(1, length=11)
    for model, given in ((build_pack([Member(config, 0)]), ids), (build_solo(config, 0), ids[0])):
        with torch.inference_mode():
            quiet = model(given)
        logits = model(given)
        logits.sum().backward()
        assert torch.equal(logits, quiet)


def test_state_dict_round_trip():
    model = build_pack(MIXTURE)
    other = build_pack([Member(m.config, m.seed + 100, m.curves) for m in MIXTURE])
    ids = tokens(len(MIXTURE))
    assert not torch.equal(model(ids), other(ids))
    other.load_state_dict(copy.deepcopy(model.state_dict()))
    assert torch.equal(model(ids), other(ids))
    assert set(model.state_dict()) == set(model.weights())


def test_visits_are_counted_per_member():
    members = [Member(variant(activation=LearnedActivation()), 0, {"mlp": GELU_CURVE}), Member(BASE, 1)]
    model, ids = build_pack(members), tokens(2)
    quiet = model(ids)
    assert model.visits() == {}
    model.record_visits(True)
    assert torch.equal(model(ids), quiet)
    seen = model.visits()["mlp"]
    assert seen.counts.sum(dim=1).tolist() == [2 * 3 * 7 * 64] * 2
    assert seen.counts.shape == (2, 123)
    low, high = seen.minimum, seen.maximum
    assert bool((low < 0).all())
    assert bool((high > 0).all())
    bins = seen.counts[0].nonzero().flatten()
    assert (bins[0] - 1) * seen.grid.spacing - 20 <= low[0] <= bins[0] * seen.grid.spacing - 20
    assert (bins[-1] - 1) * seen.grid.spacing - 20 <= high[0] <= bins[-1] * seen.grid.spacing - 20
    model.record_visits(False)
    assert model.visits() == {}
