import torch
from torch.utils import deterministic

from jobs.numerics import environment, reproducible, verdict


def test_what_was_set_before_comes_back() -> None:
    def now() -> tuple[object, ...]:
        filled = deterministic.fill_uninitialized_memory
        return torch.get_num_threads(), torch.are_deterministic_algorithms_enabled(), filled

    before = now()
    with reproducible(2):
        assert now() == (2, True, False)
    assert now() == before


def test_equal_environments_are_exact_and_every_difference_is_named() -> None:
    then = environment("p1", ["r1", "r2"])
    assert verdict(then, environment("p1", ["r1", "r2"])) == "exact"
    assert verdict(then, environment("p1", ["r2", "r1"])) == "not exact: pack changed"
    assert verdict(then, environment("p2", ["r1", "r2"])) == "not exact: pack changed"
    old = {**then, "threads": 7, "torch": "2.0.0", "cpu capability": "AVX2"}
    found = verdict(old, then)
    assert found.startswith(f"not exact: threads 7 -> {then['threads']}; torch 2.0.0 -> {torch.__version__}; cpu capa")


def test_another_number_of_processes_is_named_and_an_older_checkpoint_was_written_by_one() -> None:
    one, two = environment("p1", ["r1"]), environment("p1", ["r1"], 2)
    older = {name: value for name, value in one.items() if name != "processes"}
    assert verdict(older, one) == "exact"
    assert verdict(older, two) == "not exact: processes 1 -> 2"
    assert verdict(two, one) == "not exact: processes 2 -> 1"


def test_an_older_checkpoint_that_says_less_is_not_called_exact() -> None:
    then = environment("p1", ["r1"])
    older = {name: value for name, value in then.items() if name != "processor"}
    assert verdict(older, then) == f"not exact: processor None -> {then['processor']}"
