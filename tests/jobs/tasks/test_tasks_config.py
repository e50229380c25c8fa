"""Descriptions: light to import, and impossible sizes are refused with field, value and fix."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pydantic import TypeAdapter, ValidationError

from jobs.tasks.config import (
    AddConfig,
    AddmodConfig,
    AddreversedConfig,
    CopyConfig,
    HaystackConfig,
    ManoConfig,
    MemorizeConfig,
    ParenthesesConfig,
    TaskConfig,
)


def test_planning_needs_neither_torch_nor_numpy():
    code = """
import sys
from jobs.tasks.config import *
shipped = [MemorizeConfig(), ParenthesesConfig(), ParenthesesConfig(max_pairs=6), AddmodConfig(), HaystackConfig(),
           CopyConfig(), ManoConfig()]
for config in shipped:
    config.vocab, config.length, config.chance, config.trivial, config.ceiling, config.metric, config.classes
AddConfig().length
print(sorted({"torch", "numpy", "scipy"} & set(sys.modules)))
"""
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("config", "vocab", "length"),
    [
        (MemorizeConfig(), 1024, 3),
        (ParenthesesConfig(), 4, 63),
        (AddmodConfig(), 199, 3),
        (HaystackConfig(), 256, 63),
        (AddreversedConfig(), 31, 34),
        (AddConfig(), 31, 34),
        (CopyConfig(), 13, 62),
        (ManoConfig(), 16, 11),
        (HaystackConfig(max_keys=4, values=15), 32, 11),
        (HaystackConfig(max_keys=10, values=4), 25, 23),
        (MemorizeConfig(values=16), 32, 3),
        (CopyConfig(symbols=8, max_length=5, test_max_length=5, spline_max_length=7), 11, 16),
    ],
    ids=str,
)
def test_vocabulary_and_length(config, vocab, length):
    assert (config.vocab, config.length) == (vocab, length)


def test_sizes_by_default():
    assert MemorizeConfig().sizes == {"train": 262_144, "validation": 1000, "test": 1000}
    assert MemorizeConfig(values=16).sizes == {"train": 256, "validation": 256, "test": 256}
    assert MemorizeConfig(values=16, pairs=100).sizes == {"train": 100, "validation": 100, "test": 100}
    assert ManoConfig().sizes == {"train": 100_000, "validation": 1000, "test": 1000}
    assert AddmodConfig(split="ordered", validation=1, test=1980).sizes["train"] == 37_620


def test_metrics_and_classes():
    assert MemorizeConfig().metric == "recall of trained pairs"
    assert CopyConfig().metric == "sequence accuracy"
    assert AddConfig().metric == "accuracy"
    assert CopyConfig(max_length=4, test_max_length=5).classes == ("length_2", "length_3", "length_4", "length_5")
    assert ManoConfig().classes == ("operations_1", "operations_2", "operations_3")
    assert AddConfig().classes == ()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: MemorizeConfig(values=4, pairs=17), ["pairs=17", "16 keys", "lower pairs to 16"]),
        (lambda: MemorizeConfig(values=4, test=17), ["test=17", "16 pairs", "lower test to 16"]),
        (lambda: MemorizeConfig(values=4096), ["values=4096", "16777216 keys", "lower values"]),
        (lambda: AddmodConfig(p=7), ["test=1000", "p=7 has 49 pairs", "lower validation or test", "raise p"]),
        (lambda: AddmodConfig(p=23, validation=60, test=100, train=368), ["train=368", "lower train to 367 or less"]),
        (lambda: HaystackConfig(max_keys=2, values=4), ["values=4", "8 strings of one key", "raise values to 5"]),
        (lambda: HaystackConfig(max_keys=2, values=15), ["validation=1000", "930 strings", "raise values or max_keys"]),
        (lambda: AddConfig(digits=2, validation=700), ["test=1000", "8100 pairs of numbers", "raise digits"]),
        (lambda: CopyConfig(symbols=3), ["min_length=2", "symbols=3", "9 strings", "raise min_length or symbols"]),
        (lambda: CopyConfig(max_length=1), ["max_length=1", "below min_length=2"]),
        (lambda: CopyConfig(test_max_length=9), ["test_max_length=9", "below max_length=10"]),
        (lambda: CopyConfig(spline_max_length=9), ["spline_max_length=9", "below max_length=10"]),
        (lambda: CopyConfig(symbols=4, max_length=3, test_max_length=3), ["lower validation to 8", "raise symbols"]),
        (lambda: ManoConfig(max_operations=1), ["validation=1000", "147 expressions", "lower validation to 14"]),
    ],
)  # fmt: skip
def test_impossible_sizes_name_field_value_and_fix(make, says):
    with pytest.raises(ValidationError) as caught:
        make()
    for part in says:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "sorting"}',
        '{"name": "mano", "modulos": 7}',
        '{"name": "mano", "modulus": "7"}',
        '{"name": "parentheses", "max_pairs": 3}',
        '{"max_pairs": 30}',
    ],
)
def test_unknown_and_mistyped_fields_are_refused(text):
    with pytest.raises(ValidationError):
        TypeAdapter(TaskConfig).validate_json(text)


def test_a_config_is_frozen():
    with pytest.raises(ValidationError):
        ManoConfig().modulus = 11  # type: ignore[misc]
