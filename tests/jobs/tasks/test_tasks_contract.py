"""What every task promises, at two sizes: shapes, disjoint sets, purity in the index, stage I parts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from hashlib import sha256
from typing import get_args

import numpy as np
import pytest
from pydantic import TypeAdapter

from jobs.tasks.base import score
from jobs.tasks.build import TASKS, make_task
from jobs.tasks.config import TaskConfig

SETS = ("train", "validation", "test")


def rows(examples) -> set[bytes]:
    return set(map(bytes, np.ascontiguousarray(examples.tokens)))


def test_shapes_and_types(any_config):
    task = make_task(any_config)
    assert task.config is any_config
    for split in SETS:
        examples = task.dataset(split, 11)
        n = any_config.sizes[split]
        assert len(examples) == n
        assert examples.tokens.shape == (n, any_config.length)
        assert examples.tokens.dtype == (np.uint8 if any_config.vocab <= 256 else np.int16)
        assert examples.tokens.min() >= 0
        assert examples.tokens.max() < any_config.vocab
        assert examples.scored.shape == (n, any_config.length - 1)
        assert examples.scored.dtype == np.bool_
        assert examples.scored.any(axis=1).all()
        assert examples.klass.shape == (n,)
        assert examples.klass.max() < max(1, len(any_config.classes))


# Ids that the sources' layouts leave free: between "=" and the digits of a sum, and behind the query tokens.
UNUSED = {"add": set(range(13, 20)), "addreversed": set(range(13, 20)), "haystack": set(range(24, 32))}


def test_every_token_id_is_used(mini):
    many = mini if mini.name in ("memorize", "addmod") else mini.model_copy(update={"train": 20_000})
    seen = set(make_task(many).dataset("train", 0).tokens.ravel().tolist())
    assert set(range(mini.vocab)) - seen == UNUSED.get(mini.name, set())


@pytest.mark.parametrize("seed", [0, 1, 2**63])
def test_sets_are_disjoint(any_config, seed):
    task = make_task(any_config)
    train, validation, test = (rows(task.dataset(split, seed)) for split in SETS)
    if any_config.name == "memorize":
        assert validation | test <= train  # the one task whose question is what was trained
        return
    assert not train & validation
    assert not train & test
    assert not validation & test
    for part in task.stage_one(seed):
        assert not rows(part) & (validation | test)


def test_an_item_is_the_same_whatever_the_size_of_its_set(mini):
    if mini.name == "memorize":
        return _memorize_grows(mini)
    few = mini.model_copy(update={"train": 37, "validation": mini.validation, "test": mini.test})
    small, large = make_task(few), make_task(mini)
    assert (small.dataset("train", 5).tokens == large.dataset("train", 5).tokens[:37]).all()
    for split in ("validation", "test"):
        if mini.name == "addmod" and split == "validation":
            few = mini.model_copy(update={"validation": 7})
        else:
            few = mini.model_copy(update={split: 7, "train": 3})
        got = make_task(few).dataset(split, 5)
        assert (got.tokens == large.dataset(split, 5).tokens[:7]).all()
        assert (got.klass == large.dataset(split, 5).klass[:7]).all()


def _memorize_grows(mini):
    few = make_task(mini.model_copy(update={"pairs": 40, "test": 7, "validation": 7}))
    everything = make_task(mini).dataset("train", 5).tokens
    assert (few.dataset("train", 5).tokens == everything[:40]).all()
    assert (few.dataset("test", 5).tokens == everything[:7]).all()


def test_training_does_not_depend_on_the_sizes_of_the_other_sets(mini):
    other = mini.model_copy(update={"validation": 20, "test": 30})
    n = min(mini.sizes["train"], other.sizes["train"])
    ours, theirs = make_task(mini).dataset("train", 8), make_task(other).dataset("train", 8)
    assert (ours.tokens[:n] == theirs.tokens[:n]).all()


def test_data_seeds_give_different_data(any_config):
    task = make_task(any_config)
    for split in SETS:
        one, other = task.dataset(split, 1), task.dataset(split, 2)
        assert (one.tokens != other.tokens).any(axis=1).mean() > 0.4


def test_stage_one_divides_the_training_set(any_config):
    task = make_task(any_config)
    train = task.dataset("train", 4)
    weights, spline = task.stage_one(4)
    assert (task.dataset("spline", 4).tokens == spline.tokens).all()
    if task.splits_batch:
        assert any_config.name == "memorize"
        assert len(weights) == len(spline) == len(train)
        return
    assert len(spline) == round(0.2 * len(train))
    assert len(weights) == len(train) - len(spline)
    assert rows(weights) <= rows(train)
    # Sizes are exact, so equal sequences may lie on both sides of one cut.
    assert len(rows(weights) & rows(spline)) <= 1


def test_perfect_and_empty_predictions_score_one_and_zero(any_config):
    examples = make_task(any_config).dataset("test", 0)
    scores = score(np.ones_like(examples.scored), examples, any_config.metric, any_config.classes)
    assert set(scores.values()) == {1.0}
    assert set(scores) <= {"accuracy", *(f"accuracy/{name}" for name in any_config.classes)}
    nothing = score(np.zeros_like(examples.scored), examples, any_config.metric, any_config.classes)
    assert set(nothing.values()) == {0.0}
    assert set(nothing) == set(scores)


def test_levels_are_in_order(any_config):
    assert 0 < any_config.chance < any_config.ceiling == 1
    if any_config.trivial is not None:
        assert any_config.chance < any_config.trivial < any_config.ceiling


def test_a_config_survives_json(any_config):
    adapter = TypeAdapter(TaskConfig)
    for defaults in (True, False):
        text = adapter.dump_json(any_config, exclude_defaults=defaults)
        assert json.loads(text)["name"] == any_config.name
        assert adapter.validate_json(text) == any_config


def test_every_config_has_a_generator():
    models = get_args(get_args(TaskConfig)[0])
    assert {model.model_fields["name"].default for model in models} == set(TASKS)
    assert len(models) == 8


_DIGESTS = """
import hashlib, json, sys
from pydantic import TypeAdapter
from jobs.tasks.build import make_task
from jobs.tasks.config import TaskConfig
for text in json.load(sys.stdin):
    task, whole = make_task(TypeAdapter(TaskConfig).validate_json(text)), hashlib.sha256()
    for split in ("train", "validation", "test", "spline"):
        examples = task.dataset(split, 17)
        for part in (examples.tokens, examples.scored, examples.klass):
            whole.update(part.tobytes())
    print(whole.hexdigest())
assert "torch" not in sys.modules
"""


def digest(config) -> str:
    whole = sha256()
    for split in (*SETS, "spline"):
        examples = make_task(config).dataset(split, 17)
        for part in (examples.tokens, examples.scored, examples.klass):
            whole.update(part.tobytes())
    return whole.hexdigest()


def test_another_process_makes_the_same_data_without_torch(all_mini):
    answer = subprocess.run(
        [sys.executable, "-c", _DIGESTS],
        input=json.dumps([config.model_dump_json() for config in all_mini]),
        env={**os.environ, "PYTHONHASHSEED": "123"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert answer.stdout.split() == [digest(config) for config in all_mini]


def test_the_data_of_a_seed_never_change(all_mini):
    """A change here makes earlier results incomparable: it needs a new schema number, not a new digest."""
    assert {config.name: digest(config)[:12] for config in all_mini} == {
        "memorize": "c59e339a26b9",
        "parentheses": "ef6480090b87",
        "addmod": "00d6fdea153c",
        "haystack": "28ae730e7b93",
        "add": "cc571aad7b61",
        "addreversed": "f042c868475f",
        "copy": "c7d7e2a3ee0d",
        "mano": "02cb81e917ff",
    }
