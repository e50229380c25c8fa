import numpy as np
import torch

from jobs.data import UNSCORED, Order, PackExamples, derived_seed, one_set, two_parts
from jobs.tasks.base import Examples
from jobs.tasks.build import make_task
from jobs.tasks.config import CopyConfig, HaystackConfig, MemorizeConfig

COPY = CopyConfig(symbols=8, max_length=4, test_max_length=5, train=60, validation=20, test=20)


def test_a_batch_holds_tokens_scored_positions_and_targets_of_each_members_own_rows() -> None:
    task = make_task(COPY)
    sets = [task.dataset("train", seed) for seed in (3, 5)]
    pack = PackExamples(sets, [1, 0, 1])
    places = torch.tensor([[0, 59], [7, 7], [1, 2]])
    batch = pack.batch(places)
    for member, which in enumerate((1, 0, 1)):
        for b, place in enumerate(places[member].tolist()):
            tokens, scored = sets[which].tokens[place].astype(int), sets[which].scored[place]
            kept = batch.tokens[member, b].tolist()
            assert kept == tokens[: len(kept)].tolist()
            real = batch.targets[member, b] != UNSCORED
            assert batch.positions[member, b][real].tolist() == np.flatnonzero(scored).tolist()
            assert batch.targets[member, b][real].tolist() == tokens[1:][scored].tolist()


def test_tokens_behind_the_last_scored_position_are_cut_off() -> None:
    train = make_task(COPY).dataset("train", 0)
    assert PackExamples([train], [0]).length == 2 * COPY.max_length + 1 < train.tokens.shape[1] - 1
    haystack = HaystackConfig(max_keys=3, values=8, train=500, validation=5, test=5)
    examples = make_task(haystack).dataset("train", 0)
    batch = PackExamples([examples], [0]).batch(torch.arange(500)[None])
    assert batch.tokens.shape == (1, 500, 7)
    assert batch.positions.shape == (1, 500, 1)


def test_order_depends_on_seed_and_step_alone() -> None:
    sizes = np.array([50, 50, 50])
    pack = Order([1, 2, 1], "weights", 16)
    draws = [pack.at(step, sizes) for step in range(4)]
    assert torch.equal(draws[2][0], draws[2][2])
    assert not torch.equal(draws[2][0], draws[2][1])
    assert not torch.equal(draws[2], draws[3])
    alone = Order([2], "weights", 16)
    assert torch.equal(alone.at(2, sizes[:1])[0], draws[2][1])
    assert not torch.equal(Order([2], "shape", 16).at(2, sizes[:1]), alone.at(2, sizes[:1]))


def test_draws_are_uniform_over_the_set() -> None:
    order = Order([7], "weights", 1000)
    counts = torch.zeros(10)
    for step in range(20):
        counts += torch.bincount(order.at(step, np.array([10]))[0], minlength=10)
    expected = 2000.0
    chi_squared = float(((counts - expected) ** 2 / expected).sum())
    assert chi_squared < 27.9  # 9 degrees of freedom, p = 0.001


def test_members_of_one_data_seed_share_one_set() -> None:
    class Counting:
        config = COPY
        made: list[int] = []  # noqa: RUF012

        def dataset(self, split: str, data_seed: int) -> Examples:
            self.made.append(data_seed)
            return make_task(COPY).dataset("train", data_seed)

    one_set(Counting(), "train", [4, 4, 9, 4])  # type: ignore[arg-type]
    assert Counting.made == [4, 9]


def test_stage_one_divides_the_training_set() -> None:
    weights, shape = two_parts(make_task(COPY), [1, 1], [0.2, 0.5])
    assert weights.sizes.tolist() == [48, 30]
    assert shape.sizes.tolist() == [12, 30]
    memorize = make_task(MemorizeConfig(values=6))
    weights, shape = two_parts(memorize, [1], [0.2])
    assert weights.sizes.tolist() == shape.sizes.tolist() == [36]


def test_derived_seeds_are_their_own() -> None:
    seeds = [derived_seed(seed, "search", str(m)) for seed in range(20) for m in range(8)]
    assert len(set(seeds)) == 160
    assert min(seeds) > 1000
    assert derived_seed(3, "search", "1") == derived_seed(3, "search", "1")
