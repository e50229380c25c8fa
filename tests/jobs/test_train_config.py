from typing import Any

import pytest
from omegaconf import OmegaConf
from pydantic import ValidationError

from jobs.runners import describe, normalise, validate_config
from jobs.spec import RunSpec
from jobs.train_config import SearchConfig, TrainConfig

TASK = {"name": "memorize", "values": 16}
BASE = {"task": TASK, "optimizer": {"name": "adamw", "lr": 1e-4}, "steps": 200}


def merged(changes: dict[str, Any]) -> dict[str, Any]:
    both = OmegaConf.to_container(OmegaConf.merge(BASE, changes))
    assert isinstance(both, dict)
    return {str(k): v for k, v in both.items()}


VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("train", {}),
    ("train", {"model": {"width": 16, "activation": {"kind": "relu"}}}),
    ("train", {"model": {"activation": {"kind": "gelu"}}}),
    ("train", {"model": {"activation": {"kind": "learned"}}}),
    ("train", {"model": {"activation": {"kind": "learned", "start": "identity", "grid": {"low": -5}}}}),
    ("train", {"model": {"activation": {"kind": "scaled_gelu"}}}),
    ("train", {"model": {"activation": {"kind": "random_spline", "seed": 3}}}),
    ("train", {"model": {"activation": {"kind": "spline_file", "low": -1, "high": 1, "values": [0, 1, 2.5]}}}),
    ("train", {"model": {"attention": {"kernel": "spline", "activation": {"kind": "learned"}}}}),
    ("train", {"model": {"attention": {"kernel": "spline", "norm": "sum_abs"}}}),
    ("train", {"evaluate": {"at": [10, 20], "splits": ["validation"]}, "t_task": 50, "diverged_above": 20}),
    ("train", {"optimizer": {"betas": [0.9, 0.95], "grad_clip": 1, "relative_rate": 0.5}}),
    ("train", {"task": {"name": "mano", "modulus": 5}}),
    ("search", {}),
    ("search", {"search": {"members": 4, "learns": "scaled_gelu", "where": "both", "start": "gelu"}}),
    ("search", {"search": {"share": "per_layer", "grid": {"low": -10, "high": 10, "knots": 61}, "batch_size": 4}}),
]


@pytest.mark.parametrize(("name", "changes"), VARIANTS)
def test_normalising_twice_is_normalising_once_and_loses_nothing(name: str, changes: dict[str, Any]) -> None:
    config = {**BASE, **changes} if "task" in changes else merged(changes)
    once = normalise(name, config)
    assert normalise(name, once) == once
    assert validate_config(name, once) == validate_config(name, config)


def test_all_spellings_of_a_number_are_one_run() -> None:
    ids = set()
    for spelling in ("1e-4", "1.0e-4", "0.0001", "1.E-4"):
        text = f"{{task: {{name: memorize, values: 16}}, optimizer: {{name: adamw, lr: {spelling}}}, steps: 200}}"
        read = OmegaConf.to_container(OmegaConf.create(text))
        assert isinstance(read, dict)
        ids.add(RunSpec("train", normalise("train", {str(k): v for k, v in read.items()}), 0).id)
    assert len(ids) == 1


def test_a_whole_number_where_a_fraction_may_stand_is_the_same_run() -> None:
    configs = [
        merged({"optimizer": {"lr": one, "grad_clip": one}, "steps": steps}) for one, steps in ((1, 5), (1.0, 5.0))
    ]
    first, second = (RunSpec("train", normalise("train", config), 0).id for config in configs)
    assert first == second


def test_what_is_left_at_its_default_does_not_count() -> None:
    explicit = merged(
        {"model": {"width": 64, "activation": {"kind": "gelu"}}, "batch_size": 32, "precision": "float32"}
    )
    assert normalise("train", explicit) == normalise("train", BASE)
    assert "model" not in normalise("train", BASE)


@pytest.mark.parametrize(
    ("name", "changes", "told"),
    [
        ("train", {"model": {"width": 16, "heads": 3}}, "heads must divide width"),
        ("train", {"evaluate": {"at": [100, 300]}}, r"evaluate.at=\[300\] is never reached: steps=200"),
        ("train", {"optimizer": {"lr": 0}}, "greater than 0"),
        ("train", {"optimizer": {"lr": float("nan")}}, "finite"),
        ("train", {"optimizer": {"name": "adam"}}, "adamw"),
        ("train", {"search": {}}, "Extra inputs"),
        ("train", {"task": {"valuess": 3}}, "Extra inputs"),
        ("train", {"model": {"attention": {"norm": "softmax"}}}, "kernel"),
        ("search", {"model": {"share": "per_layer"}}, "search.share"),
        ("search", {"model": {"activation": {"kind": "learned"}}}, "drop model.activation"),
        ("search", {"model": {"activation": {"kind": "relu"}}}, "drop model.activation"),
        ("search", {"search": {"holdout": 1}}, "less than 1"),
        (
            "search",
            {"search": {"where": "attention"}, "model": {"activation": {"kind": "learned"}}},
            "slot 'mlp' is 'learned', but search.where='attention'",
        ),
        (
            "search",
            {"model": {"attention": {"kernel": "spline", "activation": {"kind": "learned"}}}},
            "slot 'attention' is 'learned', but search.where='mlp'",
        ),
        (
            "search",
            {"search": {"where": "both"}, "model": {"attention": {"kernel": "spline", "activation": {"kind": "relu"}}}},
            "drop model.attention.activation",
        ),
    ],
)
def test_mistakes_are_told_when_the_config_is_read(name: str, changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        validate_config(name, merged(changes))


def test_the_task_decides_vocabulary_and_length() -> None:
    model = TrainConfig.model_validate(BASE).transformer()
    assert (model.vocab, model.length) == (32, 2)


def test_landmarks_are_the_steps_that_are_reached() -> None:
    config = TrainConfig.model_validate(merged({"t_task": 75, "evaluate": {"points": 2, "at": [11]}}))
    assert config.landmarks() == {"T/2": 37, "T": 75, "2T": 150, "final": 200}
    assert config.evaluations() == {11, 37, 75, 100, 150, 200}
    short = TrainConfig.model_validate(merged({"t_task": 150, "evaluate": {"points": 0}}))
    assert short.landmarks() == {"T/2": 75, "T": 150, "final": 200}
    assert short.evaluations() == {75, 150, 200}


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"optimizer": {"lr": 0.5, "relative_rate": 0.1, "grad_clip": 2.0}}, True),
        ({"steps": 300, "t_task": 20, "warmup_steps": 3, "evaluate": {"points": 1}}, True),
        ({"model": {"activation": {"kind": "learned"}}}, True),
        ({"batch_size": 16}, False),
        ({"model": {"width": 32}}, False),
        ({"optimizer": {"weight_decay": 0.1}}, False),
        ({"task": {"values": 17}}, False),
    ],
)
def test_arms_of_one_column_share_a_pack(changes: dict[str, Any], same: bool) -> None:
    assert (describe("train", merged(changes)).stack_key == describe("train", BASE).stack_key) is same


def test_searches_of_one_form_share_a_pack() -> None:
    key = describe("search", BASE).stack_key
    assert describe("search", merged({"search": {"start": "gelu", "lr": 0.3}})).stack_key == key
    assert describe("search", merged({"search": {"members": 4}})).stack_key != key
    assert describe("search", merged({"search": {"learns": "scaled_gelu"}})).stack_key != key
    assert describe("train", BASE).stack_key != key


def test_shape_of_a_run_by_formula() -> None:
    train = describe("train", merged({"model": {"width": 16}}))
    search = describe("search", merged({"model": {"width": 16}}))
    assert (train.models, search.models) == (1, 8)
    assert train.parameters == search.parameters
    assert train.steps == 200
    assert search.flops_per_step == pytest.approx(8 * train.flops_per_step * 1.25)
    assert (train.consumes, train.products, search.products) == ((), (), ("shape",))
    assert search.checkpoint_bytes > 8 * 12 * search.parameters
    learned = describe("train", merged({"model": {"activation": {"kind": "learned"}}}))
    assert learned.consumes == ("activation",)


def test_the_shape_batch_keeps_the_proportion_of_the_hold_out() -> None:
    assert SearchConfig.model_validate(BASE).shape_batch == 8
    assert SearchConfig.model_validate(merged({"search": {"holdout": 0.5}})).shape_batch == 32
    assert SearchConfig.model_validate(merged({"search": {"batch_size": 3}})).shape_batch == 3
