"""The eight tasks at the size of a quick run and as published."""

from __future__ import annotations

import pytest

from jobs.tasks.config import (
    AddConfig,
    AddmodConfig,
    AddreversedConfig,
    CopyConfig,
    HaystackConfig,
    ManoConfig,
    MemorizeConfig,
    ParenthesesConfig,
)

SMALL = {"train": 1500, "validation": 200, "test": 200}

MINI = [
    MemorizeConfig(values=16),
    ParenthesesConfig(max_pairs=6, **SMALL),
    AddmodConfig(p=23, validation=60, test=100),
    HaystackConfig(max_keys=4, values=15, **SMALL),
    AddConfig(digits=3, **SMALL),
    AddreversedConfig(digits=3, **SMALL),
    CopyConfig(symbols=8, min_length=2, max_length=5, test_max_length=5, **SMALL),
    ManoConfig(modulus=7, max_operations=2, **SMALL),
]

PUBLISHED = [
    MemorizeConfig(),
    ParenthesesConfig(train=4000),
    AddmodConfig(),
    HaystackConfig(train=4000),
    AddConfig(train=4000),
    AddreversedConfig(train=4000),
    CopyConfig(train=4000, spline_max_length=15),
    ManoConfig(train=4000),
]


def _name(config) -> str:
    return config.name


@pytest.fixture(params=MINI, ids=_name)
def mini(request):
    return request.param


@pytest.fixture(params=[*MINI, *PUBLISHED], ids=[f"{c.name}-mini" for c in MINI] + [c.name for c in PUBLISHED])
def any_config(request):
    return request.param


@pytest.fixture
def all_mini():
    return MINI
