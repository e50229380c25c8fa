"""Formulas against a network: parameters counted, operations counted by torch."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from models.build import build_skeleton
from models.config import AttentionConfig, LearnedActivation, TransformerConfig
from models.flops import count_parameters, flops_per_step, flops_per_token

CONFIGS = [
    TransformerConfig(vocab=19, length=16, layers=3, width=32, heads=4, mlp_ratio=3),
    TransformerConfig(vocab=19, length=16, width=32, positions="alibi", activation=LearnedActivation()),
    TransformerConfig(vocab=31, length=32, layers=1, width=24, heads=2, attention=AttentionConfig(kernel="spline")),
]


@pytest.mark.parametrize("config", CONFIGS)
def test_parameters_equal_those_of_a_built_model(config):
    built = build_skeleton(config).weights()
    assert count_parameters(config) == sum(p.numel() for p in built.values())
    packed = build_skeleton(config, (5,)).weights()
    assert 5 * count_parameters(config) == sum(p.numel() for p in packed.values())


def test_gpt2_small_is_counted_as_published_but_for_the_untied_head():
    config = TransformerConfig(vocab=50_257, length=1024, layers=12, width=768, heads=12)
    assert count_parameters(config) - 50_257 * 768 == 124_439_808


@pytest.mark.parametrize("config", [CONFIGS[0], CONFIGS[2]])
def test_operations_equal_those_that_torch_counts(config):
    members, batch = 2, 5
    model = build_skeleton(config, (members,))
    tokens = torch.zeros(members, batch, config.length, dtype=torch.int64, device="meta")
    with FlopCounterMode(display=False) as forward:
        model(tokens)
    with FlopCounterMode(display=False) as step:
        model(tokens).sum().backward()
    folding = members * config.layers * 2 * (3 + config.mlp_ratio) * config.width**2
    folding += members * 2 * config.width * config.vocab  # norms folded into the next weight, packed models only
    expected = members * batch * config.length * flops_per_token(config, config.length)
    assert forward.get_total_flops() == expected + folding
    assert step.get_total_flops() == members * flops_per_step(config, batch, config.length) + 3 * folding
