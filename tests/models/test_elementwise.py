"""Each kernel against its own differentiable expression, and that against the function it is named for."""

import pytest
import torch
from torch.nn import functional

from models.config import SplineGrid
from models.elementwise import FIXED, FrozenSpline, ScaledGelu

X = 2 * torch.randn(3, 500, generator=torch.Generator().manual_seed(0))
G = torch.randn(3, 500, generator=torch.Generator().manual_seed(1))
GRID = SplineGrid(low=-4.0, high=4.0, knots=9)
SCALES = torch.tensor([[[1.0, 2.0], [0.5, 3.0]], [[-1.0, 0.3], [2.0, 2.0]], [[0.0, 1.0], [1.0, -1.0]]])
SPLINES = torch.randn(3, 2, 9, generator=torch.Generator().manual_seed(2))
KERNELS = {kind: make() for kind, make in FIXED.items()} | {
    "scaled_gelu": ScaledGelu(SCALES),
    "spline": FrozenSpline(SPLINES, GRID),
}
NAMED = {
    "gelu": lambda x: functional.gelu(x, approximate="tanh"),
    "relu": lambda x: x.clamp(min=0),
    "relu2": lambda x: x.clamp(min=0) ** 2,
    "silu": lambda x: x / (1 + torch.exp(-x)),
    "tanh": lambda x: (torch.exp(2 * x) - 1) / (torch.exp(2 * x) + 1),
    "identity": lambda x: x,
}


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("kind", KERNELS)
def test_values_and_gradients_are_those_of_the_expression(kind, layer):
    kernel, out, gradient = KERNELS[kind], torch.empty_like(X), torch.empty_like(X)
    point = X.clone().requires_grad_()
    expected = kernel.expression(point, layer)
    expected.backward(G)
    saved = kernel.forward(X, out, layer)
    kernel.backward(G, saved, gradient, layer)
    torch.testing.assert_close(out, expected.detach())
    torch.testing.assert_close(gradient, point.grad)


@pytest.mark.parametrize("kind", NAMED)
def test_fixed_functions_are_what_they_are_called(kind):
    torch.testing.assert_close(KERNELS[kind].expression(X, 0), NAMED[kind](X))


@pytest.mark.parametrize("layer", [0, 1])
def test_members_and_layers_have_functions_of_their_own(layer):
    scaled, spline = KERNELS["scaled_gelu"].expression(X, layer), KERNELS["spline"].expression(X, layer)
    for p in range(3):
        a, b = SCALES[p, layer]
        torch.testing.assert_close(scaled[p], a * functional.gelu(b * X[p], approximate="tanh"))
        at_knots = FrozenSpline(SPLINES[p : p + 1, layer : layer + 1], GRID)
        torch.testing.assert_close(spline[p], at_knots.expression(X[p : p + 1], 0)[0])
    assert not torch.equal(spline[0], spline[1])
