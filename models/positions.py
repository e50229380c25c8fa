"""What a model knows about order: learned position vectors (in transformer.py) or ALiBi, and the causal masks."""

from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional


def alibi_slopes(heads: int) -> list[float]:
    """s_h = 2^(-8 h / heads), h = 1 ... heads (Press et al. 2022; used as it stands for any number of heads)."""
    return [2.0 ** (-8.0 * (h + 1) / heads) for h in range(heads)]


def _penalty(alibi_heads: int, length: int) -> tuple[Tensor, Tensor]:
    """(s_h (i - j) as ``[heads or 1, L, L]``, which pairs look ahead as ``[L, L]``)."""
    position = torch.arange(length, dtype=torch.float64, device="cpu")
    distance = position[:, None] - position[None, :]
    slopes = torch.tensor(alibi_slopes(alibi_heads) or [0.0], dtype=torch.float64, device="cpu")
    return slopes[:, None, None] * distance.clamp(min=0), distance < 0


def score_bias(alibi_heads: int, length: int, extra: int, device: torch.device) -> Tensor:
    """Added to scores before a softmax: -inf ahead, ALiBi's -s_h (i - j) behind; ``[heads or 1, L, L + extra]``.

    Args:
        alibi_heads: number of heads with ALiBi, 0 without it.
        length: L.
        extra: keys behind the last one that are only padding; -inf.
        device: where the result lives.
    """
    compute = _score_bias if torch.compiler.is_compiling() else _cached_score_bias
    return compute(alibi_heads, length, extra, device)


def kernel_factor(alibi_heads: int, scale_width: int, length: int, device: torch.device) -> Tensor:
    """Multiplies a signed kernel: 0 ahead, exp(-s_h (i - j)) behind (ALiBi's analogue); ``[heads or 1, L, L]``.

    Args:
        alibi_heads: number of heads with ALiBi, 0 without it.
        scale_width: d_head to divide row i by sqrt(d_head) sqrt(i + 1), the size of a sum of that many independent
            terms; 0 to leave the scale alone.
        length: L.
        device: where the result lives.
    """
    compute = _kernel_factor if torch.compiler.is_compiling() else _cached_kernel_factor
    return compute(alibi_heads, scale_width, length, device)


@torch.inference_mode(False)  # a cached value outlives the mode in which it was first asked for
def _score_bias(alibi_heads: int, length: int, extra: int, device: torch.device) -> Tensor:
    penalty, ahead = _penalty(alibi_heads, length)
    bias = (-penalty).masked_fill(ahead, float("-inf"))
    return functional.pad(bias, (0, extra), value=float("-inf")).to(device, torch.float32)


@torch.inference_mode(False)
def _kernel_factor(alibi_heads: int, scale_width: int, length: int, device: torch.device) -> Tensor:
    penalty, ahead = _penalty(alibi_heads, length)
    factor = torch.exp(-penalty)
    if scale_width:
        row = torch.arange(1, length + 1, dtype=torch.float64, device="cpu")
        factor = factor / (scale_width * row[:, None]).sqrt()
    return factor.masked_fill(ahead, 0.0).to(device, torch.float32)


# The compiler looks through a cache and says so in a warning; what it compiles is computed once anyway.
_cached_score_bias = lru_cache(maxsize=64)(_score_bias)
_cached_kernel_factor = lru_cache(maxsize=64)(_kernel_factor)
