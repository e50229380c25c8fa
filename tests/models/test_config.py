"""The description: validated, frozen, one spelling for one architecture, read without torch."""

import subprocess
import sys

import pytest
from pydantic import ValidationError

from models.config import (
    AttentionConfig,
    FixedActivation,
    LearnedActivation,
    SplineGrid,
    TransformerConfig,
    with_search,
)

BASE = TransformerConfig(vocab=11, length=8, layers=2, width=16, heads=4)


def test_torch_stays_out():
    code = "import models.config, models.flops, models.spline_file, sys; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_heads_must_divide_width_and_the_message_says_which_do():
    with pytest.raises(
        ValidationError, match=r"width=24, heads=5; heads that fit this width: 1, 2, 3, 4, 6, 8, 12, 24"
    ):
        TransformerConfig(vocab=4, length=4, width=24, heads=5)


@pytest.mark.parametrize(
    "bad",
    [
        {"activation": {"kind": "gelo"}},
        {"activation": {"kind": "gelu", "grid": {}}},
        {"activation": {"kind": "learned", "grid": {"low": 1, "high": 1}}},
        {"attention": {"kernel": "softmax", "norm": "sum_abs"}},
        {"positions": "rope"},
        {"dropout": 0.1},
        {"init_std": float("nan")},
    ],
)
def test_what_cannot_be_built_is_refused(bad):
    with pytest.raises(ValidationError):
        TransformerConfig.model_validate({**BASE.model_dump(), **bad})


def test_json_round_trip():
    config = with_search(BASE, "both", LearnedActivation(grid=SplineGrid(low=-3, high=3, knots=9)))
    assert TransformerConfig.model_validate_json(config.model_dump_json()) == config
    assert hash(TransformerConfig.model_validate_json(config.model_dump_json())) == hash(config)


def test_stack_key_ignores_the_function_and_sees_all_sizes():
    same = [
        BASE.model_copy(update={"activation": FixedActivation(kind="relu")}),
        with_search(BASE, "mlp"),
        BASE.model_copy(update={"share_activation": "per_layer"}),
    ]
    assert all(config.stack_key() == BASE.stack_key() for config in same)
    changes = {
        "vocab": 12,
        "length": 9,
        "layers": 3,
        "width": 32,
        "heads": 2,
        "mlp_ratio": 2,
        "positions": "alibi",
        "attention": AttentionConfig(kernel="spline"),
        "layer_norm_eps": 1e-6,
    }
    for name, value in changes.items():
        assert BASE.model_copy(update={name: value}).stack_key() != BASE.stack_key(), name
