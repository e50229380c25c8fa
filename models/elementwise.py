"""Functions of one number, each with its derivative spelled out, for the members that use it.

A pack holds members with different functions. Each kernel here serves one run of neighbouring members of one kind and
works on their part of the pack's tensors in place, so that nothing is gathered or concatenated. ``forward`` writes its
result and returns what ``backward`` needs; ``expression`` is the same function for autograd and ``torch.compile``.
"""

from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from models import spline
from models.config import SplineGrid

_aten = torch.ops.aten


class Kernel(Protocol):
    """One kind of function for some members; ``layer`` picks the layer's own version where there are several."""

    def expression(self, x: Tensor, layer: int) -> Tensor:
        """The function of ``x [members, ...]``, built from differentiable operations."""
        ...

    def forward(self, x: Tensor, out: Tensor, layer: int) -> Tensor:
        """Write the function of contiguous ``x [members, n]`` into ``out``; return what ``backward`` needs."""
        ...

    def backward(self, grad: Tensor, saved: Tensor, out: Tensor, layer: int) -> None:
        """Write the gradient of the input into ``out``."""
        ...


class Gelu(nn.Module):
    """GeLU in its tanh approximation, as in GPT-2."""

    def expression(self, x: Tensor, layer: int) -> Tensor:
        return functional.gelu(x, approximate="tanh")

    def forward(self, x: Tensor, out: Tensor, layer: int) -> Tensor:
        _aten.gelu.out(x, approximate="tanh", out=out)
        return x

    def backward(self, grad: Tensor, saved: Tensor, out: Tensor, layer: int) -> None:
        _aten.gelu_backward.grad_input(grad, saved, approximate="tanh", grad_input=out)


class Relu(nn.Module):
    """max(x, 0)."""

    def expression(self, x: Tensor, layer: int) -> Tensor:
        return torch.relu(x)

    def forward(self, x: Tensor, out: Tensor, layer: int) -> Tensor:
        torch.clamp_min(x, 0.0, out=out)
        return x

    def backward(self, grad: Tensor, saved: Tensor, out: Tensor, layer: int) -> None:
        _aten.threshold_backward.grad_input(grad, saved, 0.0, grad_input=out)


class SquaredRelu(nn.Module):
    """max(x, 0)^2."""

    def expression(self, x: Tensor, layer: int) -> Tensor:
        return torch.relu(x).square()

    def forward(self, x: Tensor, out: Tensor, layer: int) -> Tensor:
        positive = torch.relu(x)
        torch.mul(positive, positive, out=out)
        return positive

    def backward(self, grad: Tensor, saved: Tensor, out: Tensor, layer: int) -> None:
        torch.mul(grad, saved, out=out).mul_(2.0)


class Silu(nn.Module):
    """x * sigmoid(x)."""

    def expression(self, x: Tensor, layer: int) -> Tensor:
        return functional.silu(x)

    def forward(self, x: Tensor, out: Tensor, layer: int) -> Tensor:
        _aten.silu.out(x, out=out)
        return x

    def backward(self, grad: Tensor, saved: Tensor, out: Tensor, layer: int) -> None:
        _aten.silu_backward.grad_input(grad, saved, grad_input=out)


class Tanh(nn.Module):
    """tanh(x)."""

    def expression(self, x: Tensor, layer: int) -> Tensor:
        return torch.tanh(x)

    def forward(self, x: Tensor, out: Tensor, layer: int) -> Tensor:
        return torch.tanh(x, out=out).clone()

    def backward(self, grad: Tensor, saved: Tensor, out: Tensor, layer: int) -> None:
        _aten.tanh_backward.grad_input(grad, saved, grad_input=out)


class Identity(nn.Module):
    """x."""

    def expression(self, x: Tensor, layer: int) -> Tensor:
        return x

    def forward(self, x: Tensor, out: Tensor, layer: int) -> Tensor:
        out.copy_(x)
        return x.new_empty(0)

    def backward(self, grad: Tensor, saved: Tensor, out: Tensor, layer: int) -> None:
        out.copy_(grad)


class ScaledGelu(nn.Module):
    """a * GeLU(b * x), frozen, with an own (a, b) for each member.

    Args:
        shapes: ``[members, layers or 1, 2]``.
    """

    scale: Tensor

    def __init__(self, shapes: Tensor) -> None:
        super().__init__()
        self.register_buffer("scale", shapes.to(torch.get_default_dtype()), persistent=False)

    def _factors(self, layer: int, dims: int) -> tuple[Tensor, Tensor]:
        row = self.scale[:, layer if self.scale.shape[1] > 1 else 0]
        a, b = row.unbind(-1)
        shape = (-1, *[1] * (dims - 1))
        return a.reshape(shape), b.reshape(shape)

    def expression(self, x: Tensor, layer: int) -> Tensor:
        a, b = self._factors(layer, x.dim())
        return a * functional.gelu(b * x, approximate="tanh")

    def forward(self, x: Tensor, out: Tensor, layer: int) -> Tensor:
        a, b = self._factors(layer, x.dim())
        inner = x * b
        _aten.gelu.out(inner, approximate="tanh", out=out)
        out.mul_(a)
        return inner

    def backward(self, grad: Tensor, saved: Tensor, out: Tensor, layer: int) -> None:
        a, b = self._factors(layer, grad.dim())
        _aten.gelu_backward.grad_input(grad, saved, approximate="tanh", grad_input=out)
        out.mul_(a * b)


class FrozenSpline(nn.Module):
    """A piecewise linear spline, frozen, with an own table for each member on a common grid.

    Args:
        shapes: knot values ``[members, layers or 1, K]``.
        grid: the knots.
    """

    right: Tensor
    rise: Tensor

    def __init__(self, shapes: Tensor, grid: SplineGrid) -> None:
        super().__init__()
        self.grid = grid
        right, rise = spline.tables(shapes.transpose(0, 1).to(torch.get_default_dtype()))
        self.register_buffer("right", right.contiguous(), persistent=False)
        self.register_buffer("rise", rise.contiguous(), persistent=False)

    def _tables(self, layer: int) -> tuple[Tensor, Tensor]:
        row = layer if self.right.shape[0] > 1 else 0
        return self.right[row], self.rise[row]

    def expression(self, x: Tensor, layer: int) -> Tensor:
        right, rise = self._tables(layer)
        return spline.evaluate(x, right, rise, self.grid)

    def forward(self, x: Tensor, out: Tensor, layer: int) -> Tensor:
        right, rise = self._tables(layer)
        return spline.forward_into(x, out, right, rise, self.grid)

    def backward(self, grad: Tensor, saved: Tensor, out: Tensor, layer: int) -> None:
        spline.backward_into(grad, saved, out, self.grid)


FIXED: dict[str, type[nn.Module]] = {
    "gelu": Gelu,
    "relu": Relu,
    "relu2": SquaredRelu,
    "silu": Silu,
    "tanh": Tanh,
    "identity": Identity,
}
