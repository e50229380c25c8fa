"""One slot's elementwise function for a whole pack.

Frozen: any mixture of kinds, none of them trained. Searched: one kind, its shapes shared within groups of members.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from models import spline
from models.config import ActivationConfig, FixedActivation, LearnedActivation, ScaledGeluActivation, SplineGrid
from models.curves import grid_of
from models.elementwise import FIXED, FrozenSpline, Kernel, ScaledGelu
from models.errors import ModelError


@dataclass(frozen=True)
class _Span:
    """Members ``start`` to ``stop`` of the pack use ``kernel``."""

    start: int
    stop: int
    kernel: Kernel


class FrozenActivation(nn.Module):
    """Every member's own function, none of them trained.

    Args:
        activations: one description a member, in the caller's order.
        shapes: one tensor a member, ``[layers or 1, size]``.

    Neighbours of one kind are served together. Any order is correct and costs a few microseconds per change of kind.
    """

    def __init__(self, activations: Sequence[ActivationConfig], shapes: Sequence[Tensor]) -> None:
        super().__init__()
        self.kernels = nn.ModuleList()
        self.spans: list[_Span] = []
        for _, run in groupby(range(len(activations)), key=lambda p: _kernel_key(activations[p])):
            members = list(run)
            kernel = _kernel(activations[members[0]], torch.stack([shapes[p] for p in members]))
            self.kernels.append(kernel)
            self.spans.append(_Span(members[0], members[-1] + 1, cast(Kernel, kernel)))

    def forward(self, x: Tensor, layer: int) -> Tensor:
        """``x [P, ...]`` -> same shape; the pack dimension is there even for a solo model (P = 1)."""
        if torch.compiler.is_compiling():
            parts = [span.kernel.expression(x[span.start : span.stop], layer) for span in self.spans]
            return parts[0] if len(parts) == 1 else torch.cat(parts)
        result = _InPlaceSpans.apply(x, self.spans, layer)
        assert isinstance(result, Tensor)
        return result


class _InPlaceSpans(torch.autograd.Function):
    """All spans of a pack, written into one output: no slicing, concatenating or zero-filling in either direction."""

    @staticmethod
    def forward(ctx, x: Tensor, spans: list[_Span], layer: int) -> Tensor:
        flat = x.contiguous().view(x.shape[0], -1)
        out = torch.empty_like(flat)
        saved = [s.kernel.forward(flat[s.start : s.stop], out[s.start : s.stop], layer) for s in spans]
        ctx.save_for_backward(*saved)
        ctx.spans, ctx.layer = spans, layer
        return out.view(x.shape)

    @staticmethod
    def backward(ctx, *grads: Tensor):
        (grad,) = grads
        flat = grad.contiguous().view(grad.shape[0], -1)
        out = torch.empty_like(flat)
        for span, saved in zip(ctx.spans, ctx.saved_tensors, strict=True):
            part = slice(span.start, span.stop)
            span.kernel.backward(flat[part], saved, out[part], ctx.layer)
        return out.view(grad.shape), None, None


def _kernel_key(activation: ActivationConfig) -> tuple[str, SplineGrid | None]:
    grid = grid_of(activation)
    return ("spline" if grid is not None else activation.kind), grid


def _kernel(activation: ActivationConfig, shapes: Tensor) -> nn.Module:
    if isinstance(activation, FixedActivation):
        return FIXED[activation.kind]()
    if isinstance(activation, ScaledGeluActivation):
        return ScaledGelu(shapes)
    grid = grid_of(activation)
    assert grid is not None
    return FrozenSpline(shapes, grid)


class SearchedShapes(nn.Module):
    """The shapes that a search trains, one row a group of members.

    Args:
        start: ``[G, size]``, or ``[G, layers, size]`` with a shape for each layer.
        rows: for each member the row of ``theta`` that it uses.

    The gradient that arrives in ``theta`` is the *mean over the group's active members* of each member's own gradient,
    although the caller differentiates the *sum* of the members' losses (the members' weights then get their own
    gradient). A member whose gradient holds a NaN or an infinity adds nothing, so that it cannot take its group along.
    """

    weights: Tensor
    rows: Tensor

    def __init__(self, start: Tensor, rows: Sequence[int]) -> None:
        super().__init__()
        self.theta = nn.Parameter(start.to(torch.get_default_dtype()))
        self.register_buffer("rows", torch.tensor(rows), persistent=False)
        self.register_buffer("weights", torch.empty(start.shape[0], len(rows)), persistent=False)
        self.set_active([True] * len(rows))

    def set_active(self, active: Sequence[bool]) -> None:
        """Take the mean over these members only (a member that has diverged or ended is no longer one)."""
        belongs = functional.one_hot(self.rows.cpu(), self.theta.shape[0]).T.to(torch.get_default_dtype())
        belongs = belongs * torch.tensor(active, dtype=belongs.dtype)
        self.weights.copy_(belongs / belongs.sum(dim=1, keepdim=True).clamp(min=1.0))

    def forward(self) -> Tensor:
        """Each member's shapes, ``[P, layers or 1, size]``."""
        result = _ShareWithinGroup.apply(self.theta, self.rows, self.weights)
        assert isinstance(result, Tensor)
        return result.view(result.shape[0], -1, result.shape[-1])


class _ShareWithinGroup(torch.autograd.Function):
    @staticmethod
    def forward(ctx, theta: Tensor, rows: Tensor, weights: Tensor) -> Tensor:
        ctx.weights, ctx.shape = weights, theta.shape
        return theta.index_select(0, rows)

    @staticmethod
    def backward(ctx, *grads: Tensor):
        each = grads[0].reshape(grads[0].shape[0], -1)
        finite = torch.isfinite(each).all(dim=1, keepdim=True)
        mean = ctx.weights.to(each.dtype) @ torch.where(finite, each, torch.zeros_like(each))
        return mean.view(ctx.shape), None, None


class SearchedActivation(nn.Module):
    """One searched kind for all members; the shapes are handed in, because layers may share them."""

    def __init__(self, activation: ActivationConfig) -> None:
        super().__init__()
        if not isinstance(activation, LearnedActivation | ScaledGeluActivation):
            raise ModelError(f"a search needs a 'learned' or 'scaled_gelu' function, got {activation.kind!r}")
        self.grid = grid_of(activation)

    def forward(self, x: Tensor, shapes: Tensor, layer: int) -> Tensor:
        """``x [P, ...]`` with the members' shapes ``[P, layers or 1, size]``."""
        shape = shapes[:, layer if shapes.shape[1] > 1 else 0]
        if self.grid is not None:
            return spline.trained_spline(x, shape, self.grid)
        a, b = (factor.reshape(-1, *[1] * (x.dim() - 1)) for factor in shape.unbind(-1))
        return a * functional.gelu(b * x, approximate="tanh")
