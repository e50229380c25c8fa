"""The spline against its definition: worked values, finite differences, a float64 oracle, bits."""

import pytest
import torch
from torch.nn import functional

from models import spline
from models.config import SplineGrid
from models.curves import knots, start_values

SMALL = SplineGrid(low=-1.0, high=1.0, knots=3)
VALUES = [2.0, 0.0, 4.0]
GRID = SplineGrid()


def frozen(x, values, grid):
    """The chunked path of frozen members: (value, slope)."""
    right, rise = spline.tables(values)
    out, slope = torch.empty_like(x), torch.empty_like(x)
    saved = spline.forward_into(x, out, right.contiguous(), rise.contiguous(), grid)
    spline.backward_into(torch.ones_like(x), saved, slope, grid)
    return out, slope


def oracle(x, values, grid):
    """The definition, written out in float64 with a search: value, slope, segment, fraction of one member."""
    tau = knots(grid)
    theta, x = values.double(), x.double()
    i = (torch.bucketize(x, tau, right=False) - 1).clamp(0, grid.knots - 2)
    f = ((x - tau[i]) / grid.spacing).clamp(0.0, 1.0)
    inside = (x >= grid.low) & (x <= grid.high)
    slope = torch.where(inside, (theta[i + 1] - theta[i]) / grid.spacing, torch.zeros_like(x))
    return theta[i] + f * (theta[i + 1] - theta[i]), slope, i, f


@pytest.mark.parametrize(
    ("x", "value", "slope", "values_gradient"),
    [
        (-0.25, 0.5, -2.0, (0.25, 0.75, 0.0)),
        (0.0, 0.0, -2.0, (0.0, 1.0, 0.0)),
        (1.5, 4.0, 0.0, (0.0, 0.0, 1.0)),
        (-3.0, 2.0, 0.0, (1.0, 0.0, 0.0)),
        (-1.0, 2.0, -2.0, (1.0, 0.0, 0.0)),
        (1.0, 4.0, 4.0, (0.0, 0.0, 1.0)),
    ],
)
def test_worked_check(x, value, slope, values_gradient):
    point = torch.tensor([[x]], requires_grad=True)
    theta = torch.tensor([VALUES], requires_grad=True)
    y = spline.trained_spline(point, theta, SMALL)
    y.sum().backward()
    assert point.grad is not None
    assert theta.grad is not None
    assert (y.item(), point.grad.item(), tuple(theta.grad[0].tolist())) == (value, slope, values_gradient)
    y, slopes = frozen(point.detach(), theta.detach(), SMALL)
    assert (y.item(), slopes.item()) == (value, slope)
    right, rise = spline.tables(theta.detach())
    assert spline.evaluate(point.detach(), right, rise, SMALL).item() == value


def test_not_a_number_stays_and_infinities_give_the_end_values():
    x = torch.tensor([[float("nan"), float("inf"), float("-inf")]])
    for y in (frozen(x, torch.tensor([VALUES]), SMALL)[0], spline.trained_spline(x, torch.tensor([VALUES]), SMALL)):
        assert y[0, 0].isnan()
        assert y[0, 1:].tolist() == [4.0, 2.0]


def test_every_knot_of_the_default_grid_gives_its_value_and_the_slope_on_its_left():
    theta = torch.randn(1, GRID.knots, generator=torch.Generator().manual_seed(0))
    x = knots(GRID).float().unsqueeze(0)
    y, slope = frozen(x, theta, GRID)
    rounding = 121 * 2**-24 + 20 * 2**-24 / GRID.spacing  # of t and of the knot, in units of the spacing
    assert (y - theta).abs().max() <= 2 * rounding * (theta[0, 1:] - theta[0, :-1]).abs().max()
    end = (theta[0, -1] - theta[0, -2]) / GRID.spacing
    torch.testing.assert_close(slope[0, -1], end, rtol=1e-5, atol=0)
    torch.testing.assert_close(slope[0, 0], (theta[0, 1] - theta[0, 0]) / GRID.spacing, rtol=1e-5, atol=0)


def test_finite_differences():
    generator = torch.Generator().manual_seed(1)
    grid = SplineGrid(low=-2.0, high=3.0, knots=6)
    segment = torch.randint(-1, 7, (2, 40), generator=generator)
    off_the_knots = 0.1 + 0.8 * torch.rand(2, 40, generator=generator, dtype=torch.float64)
    x = (grid.low + grid.spacing * (segment + off_the_knots)).requires_grad_()
    theta = torch.randn(2, 6, generator=generator, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, theta: spline.trained_spline(x, theta, grid), (x, theta))


def test_against_the_float64_oracle():
    generator = torch.Generator().manual_seed(2)
    x = 8.0 * torch.randn(3, 70_000, generator=generator)
    theta = torch.randn(3, GRID.knots, generator=generator)
    g = torch.randn(3, 70_000, generator=generator)
    point, trained = x.clone().requires_grad_(), theta.clone().requires_grad_()
    y = spline.trained_spline(point, trained, GRID)
    (y * g).sum().backward()
    assert point.grad is not None
    assert trained.grad is not None
    assert torch.equal(frozen(x, theta, GRID)[0], y)
    for p in range(3):
        value, slope, i, f = oracle(x[p], theta[p], GRID)
        assert (y[p] - value).abs().max() <= 2e-5 * theta.abs().max()  # x of 20 is good to 1e-6, slopes reach 10
        away = (x[p].double() - knots(GRID)[:, None]).abs().amin(dim=0) > 1e-5
        torch.testing.assert_close(point.grad[p][away].double(), (slope * g[p])[away], rtol=1e-5, atol=1e-5)
        exact = torch.zeros(GRID.knots, dtype=torch.float64)
        exact.index_add_(0, i, g[p] * (1 - f)).index_add_(0, i + 1, g[p] * f)
        size = torch.zeros(GRID.knots, dtype=torch.float64).index_add_(0, i, g[p].double().abs())
        assert (trained.grad[p] - exact).abs().max() <= 1e-5 * size.max()


@pytest.mark.parametrize(("members", "each"), [(1, 300_000), (3, 131_072), (40, 7_000), (5, 1), (2, 0)])
def test_chunks_cover_everything_exactly_once(members, each):
    seen = torch.zeros(members, each, dtype=torch.int64)
    for first, count, begin, size in spline._chunks(members, each):
        seen[first : first + count, begin : begin + size] += 1
        assert count * size <= spline._CHUNK
    assert bool((seen == 1).all())


def test_members_read_their_own_table_whatever_the_chunk():
    generator = torch.Generator().manual_seed(3)
    theta = torch.randn(50, GRID.knots, generator=generator)
    x = 5.0 * torch.randn(50, 9_001, generator=generator)
    together, slopes = frozen(x, theta, GRID)
    gradient = spline.values_gradient(x, x, GRID)
    for p in (0, 13, 14, 49):
        alone, slope = frozen(x[p : p + 1].clone(), theta[p : p + 1].clone(), GRID)
        assert torch.equal(together[p], alone[0])
        assert torch.equal(slopes[p], slope[0])
        assert torch.equal(gradient[p], spline.values_gradient(x[p : p + 1], x[p : p + 1], GRID)[0])


def test_values_gradient_is_the_same_bits_twice_and_keeps_members_apart():
    generator = torch.Generator().manual_seed(4)
    x = 5.0 * torch.randn(4, 50_000, generator=generator)
    g = torch.randn(4, 50_000, generator=generator)
    first = spline.values_gradient(g, x, GRID)
    assert torch.equal(first, spline.values_gradient(g, x, GRID))
    x[1], g[2] = float("nan"), float("nan")
    spoilt = spline.values_gradient(g, x, GRID)
    assert torch.equal(first[0], spoilt[0])
    assert torch.equal(first[3], spoilt[3])
    assert spoilt[2].isnan().any()


def test_gelu_sampled_at_a_third_differs_by_at_most_the_bound_of_its_curvature():
    x = torch.linspace(-20.0, 20.0, 400_001).unsqueeze(0)
    y, _ = frozen(x, start_values(GRID, "gelu").float().unsqueeze(0), GRID)
    gap = (y - functional.gelu(x, approximate="tanh")).abs().max().item()
    assert 0.008 < gap <= 0.011


def test_evaluate_is_the_same_function_and_has_the_same_gradient():
    generator = torch.Generator().manual_seed(5)
    theta = torch.randn(3, GRID.knots, generator=generator)
    x = (12.0 * torch.randn(3, 20, 11, generator=generator)).requires_grad_()
    right, rise = spline.tables(theta)
    y = spline.evaluate(x, right, rise, GRID)
    y.sum().backward()
    flat = x.detach().reshape(3, -1)
    value, slope = frozen(flat, theta, GRID)
    assert torch.equal(y.detach().reshape(3, -1), value)
    assert x.grad is not None
    torch.testing.assert_close(x.grad.reshape(3, -1), slope)
