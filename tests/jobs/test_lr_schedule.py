import torch

from jobs.lr_schedule import warmup_constant


def rates(step: int) -> list[float]:
    return warmup_constant(step, torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4, 0, 2])).tolist()


def test_each_member_warms_up_linearly_and_stays() -> None:
    assert rates(0) == [0.25, 2.0, 1.5]
    assert rates(1) == [0.5, 2.0, 3.0]
    assert rates(3) == [1.0, 2.0, 3.0]
    assert rates(10_000) == [1.0, 2.0, 3.0]
