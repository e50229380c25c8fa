"""The piecewise linear spline on uniform knots: values, slopes and the gradient of its values, in plain torch.

Semantics (spacing ``h``, ``K`` knots, values ``theta``), with ``t = (x - low) / h``::

    segment  i = clamp(ceil(t) - 1, 0, K - 2)        a point on a knot belongs to the segment on its left
    value    y = theta[i] + clamp(t - i, 0, 1) * (theta[i + 1] - theta[i])
    dy/dx      = (theta[i + 1] - theta[i]) / h inside [low, high], 0 outside
    dy/dtheta  = 1 - f at i and f at i + 1; out of range, 1 at the end knot

NaN gives NaN, infinities give the end values. The knots are uniform, so the segment is arithmetic and never a search.

How it is laid out: a table of ``K + 1`` *bins* instead of ``K - 1`` segments. Bin 0 lies below the grid, bin ``K``
above, both with slope 0, so that ``bin = ceil(t)`` needs no case distinction. Each bin stores the value at its right
knot and its rise; with ``r = t - bin`` in (-1, 0] the value is ``right + r * rise``, exact on a knot and free of the
cancellation that an intercept form has at large |x|.

Members of a pack have a table each. Work is cut into chunks that stay in the cache, because in eager mode the ten
elementwise passes would otherwise each go through main memory.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from models.config import SplineGrid

# Moves t = 0 (a point exactly on the first knot) into the first segment and nothing else: it is far below one rounding
# step of every other t, and far above the smallest normal float32.
_NUDGE = 1e-30
_COPIES = 4  # of the histogram
_CHUNK = 131_072  # elements; half a megabyte of float32, within a core's own cache


def tables(values: Tensor) -> tuple[Tensor, Tensor]:
    """(value at the right knot, rise) of each bin: ``[..., K]`` -> two contiguous ``[..., K + 1]``."""
    end = values[..., -1:]
    right = torch.cat([values, end], dim=-1)
    flat = torch.zeros_like(end)
    rise = torch.cat([flat, values[..., 1:] - values[..., :-1], flat], dim=-1)
    return right, rise


def locate(x: Tensor, grid: SplineGrid) -> tuple[Tensor, Tensor]:
    """(bin as int64, position relative to the bin's right knot) of each element; NaN: (0, NaN).

    The index is int64 although 8 bits would do: on CPU look-ups are 1.6 times faster with it than with int32. Getting
    there from float by way of int32 is faster again, which the chunked version below does.
    """
    t = ((x - grid.low) * (1.0 / grid.spacing)).clamp(-1.0, float(grid.knots))
    top = torch.ceil(t + _NUDGE)
    return top.to(torch.int64).clamp(0, grid.knots), t - top


def evaluate(x: Tensor, right: Tensor, rise: Tensor, grid: SplineGrid) -> Tensor:
    """The spline as a plain expression, for ``torch.compile`` and as the readable definition.

    Args:
        x: ``[P, ...]``.
        right, rise: ``[P, K + 1]`` from :func:`tables`, without gradient.
    """
    where, position = locate(x, grid)
    if right.shape[0] > 1:
        offsets = torch.arange(right.shape[0], device=x.device) * (grid.knots + 1)
        where = where + offsets.view(-1, *[1] * (x.dim() - 1))
    return torch.addcmul(right.reshape(-1)[where], position, rise.reshape(-1)[where])


class _Scratch:
    """Buffers for the chunks of one call."""

    def __init__(self, like: Tensor, size: int) -> None:
        self.t = torch.empty(size, dtype=like.dtype, device=like.device)
        self.top = torch.empty_like(self.t)
        self.small = torch.empty(size, dtype=torch.int32, device=like.device)
        self.bin = torch.empty(size, dtype=torch.int64, device=like.device)


def _chunks(members: int, each: int) -> Sequence[tuple[int, int, int, int]]:
    """(first member, members, first element, elements of each) so that a chunk is whole members or part of one."""
    if each == 0:
        return ()
    if each <= _CHUNK:
        step = max(1, _CHUNK // each)
        return [(p, min(step, members - p), 0, each) for p in range(0, members, step)]
    return [(p, 1, e, min(_CHUNK, each - e)) for p in range(members) for e in range(0, each, _CHUNK)]


def _locate_into(scratch: _Scratch, x: Tensor, first: int, grid: SplineGrid) -> tuple[Tensor, Tensor]:
    """:func:`locate` of a chunk ``[m, n]``, flat; int32 bins, offset into the tables of members from ``first`` on."""
    members, each = x.shape
    size = members * each
    t, top, small = scratch.t[:size], scratch.top[:size], scratch.small[:size]
    torch.sub(x, grid.low, out=t.view(members, each))
    t.mul_(1.0 / grid.spacing).clamp_(-1.0, float(grid.knots))
    torch.add(t, _NUDGE, out=top).ceil_()
    small.copy_(top).clamp_(0, grid.knots)
    torch.sub(t, top, out=t)
    if members > 1 or first > 0:
        bins = grid.knots + 1
        offsets = torch.arange(first * bins, (first + members) * bins, bins, dtype=torch.int32, device=x.device)
        small.view(members, each).add_(offsets.unsqueeze(1))
    return small, t


def forward_into(x: Tensor, out: Tensor, right: Tensor, rise: Tensor, grid: SplineGrid) -> Tensor:
    """Write the spline of ``x`` into ``out`` and return the rise of each element's bin, all that a backward needs.

    Args:
        x, out: contiguous ``[P, n]``.
        right, rise: contiguous ``[P, K + 1]``.
    """
    members, each = x.shape
    saved = torch.empty_like(x)
    scratch = _Scratch(x, min(x.numel(), _CHUNK))
    right, rise = right.view(-1), rise.view(-1)
    for first, count, begin, size in _chunks(members, each):
        part = slice(first, first + count), slice(begin, begin + size)
        small, position = _locate_into(scratch, x[part], first, grid)
        where = scratch.bin[: small.numel()].copy_(small)
        rises = torch.index_select(rise, 0, where, out=saved[part].view(-1))
        rights = torch.index_select(right, 0, where, out=scratch.top[: where.numel()])
        torch.addcmul(rights.view(count, size), position.view(count, size), rises.view(count, size), out=out[part])
    return saved


def backward_into(grad: Tensor, saved: Tensor, out: Tensor, grid: SplineGrid) -> None:
    """``out = grad * rise / h``, in one pass."""
    torch.addcmul(grad.new_zeros(()), grad, saved, value=1.0 / grid.spacing, out=out)


def values_gradient(grad: Tensor, x: Tensor, grid: SplineGrid) -> Tensor:
    """Gradient of each member's knot values, ``[P, n], [P, n] -> [P, K]``, summed in float64 in a fixed order.

    A histogram: with S0 the sum of g and S1 the sum of g * r over a bin, and r = t - bin, a knot receives
    ``S0[bin] + S1[bin]`` from the bin on its left and ``-S1[next bin]`` from the bin on its right; the two outer bins
    give their S0 to the end knot. Two runs on the same device give the same bits.

    Activations crowd into a few bins, and each addition to a bin would wait for the one before it. So neighbouring
    elements add to different copies of the histogram: three times faster where it matters.
    """
    members, each = x.shape
    bins = grid.knots + 1
    sums = torch.zeros(2, members * bins, dtype=torch.float64, device=x.device)
    scratch = _Scratch(x, min(x.numel(), _CHUNK))
    copy = torch.arange(min(each, _CHUNK), dtype=torch.int32, device=x.device) % _COPIES
    for first, count, begin, size in _chunks(members, each):
        part = slice(first, first + count), slice(begin, begin + size)
        small, position = _locate_into(scratch, x[part], 0, grid)
        small.view(count, size).add_(copy[:size], alpha=count * bins)
        g = grad[part].reshape(-1).double()
        window = slice(first * bins, (first + count) * bins)
        sums[0, window] += _histogram(small, g, count * bins)
        sums[1, window] += _histogram(small, g.mul_(position), count * bins)
    s0, s1 = sums.view(2, members, bins)
    # Outside the grid r * rise vanishes because the rise does, so S1 of the outer bins must not count (r may be NaN).
    inner0, inner1 = s0[:, 1:-1], s1[:, 1:-1]
    out = torch.zeros(members, grid.knots, dtype=torch.float64, device=x.device)
    out[:, 1:] += inner0 + inner1
    out[:, :-1] -= inner1
    out[:, 0] += s0[:, 0]
    out[:, -1] += s0[:, -1]
    return out.to(x.dtype)


def _histogram(where: Tensor, weights: Tensor, bins: int) -> Tensor:
    if weights.is_cuda:  # bincount adds atomically there; an accumulating index_put sorts and is deterministic
        sums = weights.new_zeros(_COPIES * bins).index_put_((where,), weights, accumulate=True)
    else:
        sums = torch.bincount(where, weights=weights, minlength=_COPIES * bins)
    return sums.view(_COPIES, bins).sum(dim=0)


class TrainedSpline(torch.autograd.Function):
    """The spline with gradients of its input and of its values; saves the input and one rise per element."""

    @staticmethod
    def forward(ctx, x: Tensor, values: Tensor, grid: SplineGrid) -> Tensor:
        right, rise = tables(values)
        flat = x.contiguous().view(x.shape[0], -1)
        out = torch.empty_like(flat)
        saved = forward_into(flat, out, right, rise, grid)
        ctx.save_for_backward(flat, saved)
        ctx.grid = grid
        return out.view(x.shape)

    @staticmethod
    def backward(ctx, *grads: Tensor):
        (grad,) = grads
        x, saved = ctx.saved_tensors
        flat = grad.contiguous().view(x.shape)
        dx = torch.empty_like(flat)
        backward_into(flat, saved, dx, ctx.grid)
        dvalues = values_gradient(flat, x, ctx.grid) if ctx.needs_input_grad[1] else None
        return dx.view(grad.shape), dvalues, None


def trained_spline(x: Tensor, values: Tensor, grid: SplineGrid) -> Tensor:
    """``x [P, ...]`` through the splines ``values [P, K]``, differentiable in both."""
    result = TrainedSpline.apply(x, values, grid)
    assert isinstance(result, Tensor)
    return result
