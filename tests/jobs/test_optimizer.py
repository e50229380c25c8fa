import pytest
import torch
from torch import nn

from jobs.optimizer import FlatParameters, PackedAdamW, clip_rows, gradient_norms, mask_rows

SHAPES = {"table": (3, 4, 5), "bias": (3, 5)}


def parameters() -> dict[str, nn.Parameter]:
    draw = torch.Generator().manual_seed(1)
    return {name: nn.Parameter(torch.randn(*shape, generator=draw)) for name, shape in SHAPES.items()}


def gradients(step: int) -> list[torch.Tensor]:
    draw = torch.Generator().manual_seed(100 + step)
    return [torch.randn(*shape, generator=draw) for shape in SHAPES.values()]


def test_parameters_become_views_of_one_buffer() -> None:
    named = parameters()
    before = {name: p.detach().clone() for name, p in named.items()}
    flat = FlatParameters(named)
    assert flat.values.shape == (3, 25)
    for name, parameter in named.items():
        assert torch.equal(parameter, before[name])
    flat.values.zero_()
    assert all(float(p.detach().abs().sum()) == 0.0 for p in named.values())


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_a_row_is_what_torch_adamw_makes_of_that_member_alone(weight_decay: float) -> None:
    named = parameters()
    lr = [0.1, 0.01, 0.3]
    alone = [{name: nn.Parameter(p.detach()[m].clone()) for name, p in named.items()} for m in range(3)]
    theirs = [
        torch.optim.AdamW(
            [
                {"params": [own["table"]], "weight_decay": weight_decay},
                {"params": [own["bias"]], "weight_decay": 0.0},
            ],
            lr=rate,
            betas=(0.9, 0.99),
        )
        for own, rate in zip(alone, lr, strict=True)
    ]
    flat = FlatParameters(named)
    ours = PackedAdamW(flat.values, (0.9, 0.99), weight_decay=weight_decay, decays=flat.decays)
    for step in range(20):
        given = gradients(step)
        ours.update(step, flat.gather(given, torch.empty(3, 25)), torch.tensor(lr))
        for m in range(3):
            for parameter, gradient in zip(alone[m].values(), given, strict=True):
                parameter.grad = gradient[m].clone()
            theirs[m].step()
    for m in range(3):
        for name in SHAPES:
            torch.testing.assert_close(named[name][m], alone[m][name], rtol=2e-5, atol=2e-6)


def test_rows_do_not_meet() -> None:
    """Whatever two members do, the third has the same bits."""
    results = []
    for others in (1.0, 1e6):
        flat = FlatParameters(parameters())
        adamw = PackedAdamW(flat.values, (0.9, 0.99), weight_decay=0.1, decays=flat.decays)
        for step in range(5):
            gradient = flat.gather(gradients(step), torch.empty(3, 25))
            gradient[:2] *= others
            clip_rows(gradient, gradient_norms(gradient), torch.tensor([1.0, 1.0, 0.5]))
            adamw.update(step, gradient, torch.tensor([0.1, 0.1, 0.1]) * torch.tensor([others, 1.0, 1.0]))
        results.append(flat.values[2].clone())
    assert torch.equal(results[0], results[1])


def test_a_masked_row_stays_as_it_is_although_its_gradient_is_nan() -> None:
    flat = FlatParameters(parameters())
    adamw = PackedAdamW(flat.values, (0.9, 0.99), weight_decay=0.1, decays=flat.decays)
    before = flat.values.clone()
    active = torch.tensor([True, False, True])
    for step in range(3):
        gradient = flat.gather(gradients(step), torch.empty(3, 25))
        gradient[1] = float("nan")
        norms = gradient_norms(gradient)
        assert torch.isnan(norms).tolist() == [False, True, False]
        mask_rows(gradient, active)
        clip_rows(gradient, torch.where(active, norms, 0.0), torch.full((3,), float("inf")))
        adamw.update(step, gradient, torch.full((3,), 0.1) * active)
    assert torch.equal(flat.values[1], before[1])
    assert torch.isfinite(flat.values).all()
    assert not torch.equal(flat.values[0], before[0])


def test_clipping_scales_down_to_the_bound_and_never_up() -> None:
    gradient = torch.tensor([[3.0, 4.0], [0.3, 0.4], [3.0, 4.0], [0.0, 0.0]])
    clip_rows(gradient, gradient_norms(gradient), torch.tensor([1.0, 1.0, float("inf"), 1.0]))
    torch.testing.assert_close(gradient, torch.tensor([[0.6, 0.8], [0.3, 0.4], [3.0, 4.0], [0.0, 0.0]]))


def test_state_can_be_put_back() -> None:
    first = PackedAdamW(torch.ones(2, 3), (0.9, 0.99))
    first.update(0, torch.randn(2, 3), torch.tensor([0.1, 0.1]))
    state = {name: t.clone() for name, t in first.state().items()}
    values, gradient = first.values.clone(), torch.randn(2, 3)
    first.update(1, gradient, torch.tensor([0.1, 0.1]))
    second = PackedAdamW(values, (0.9, 0.99))
    second.restore(state)
    second.update(1, gradient, torch.tensor([0.1, 0.1]))
    assert torch.equal(first.values, second.values)
