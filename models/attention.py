"""Causal self-attention: the usual softmax, or a signed kernel phi(Q) phi(K)^T of an elementwise function."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from models import lane_attention
from models.config import TransformerConfig
from models.linear import Linear
from models.normalization import NormedLinear
from models.positions import alibi_slopes, kernel_factor, score_bias

_TINY = 1e-6  # keeps the sum_abs norm finite where a kernel row is all zero


def _missing_keys(length: int, device: torch.device) -> int:
    """Keys to add so that a softmax row fills whole vector registers.

    On CPU torch's softmax is 12 times slower over 15 numbers than over 16 (AVX-512), and then half of a whole step.
    """
    return -length % 16 if device.type == "cpu" and length > 4 else 0


class Attention(nn.Module):
    """LayerNorm, fused Q/K/V projection, attention, output projection.

    In a stack one batched product serves all members, sequences and heads (``[P * B * H, L, d]``): products this small
    gain nothing from a fused attention kernel, which cannot express the signed kernels either. Very narrow heads on a
    CPU go by :mod:`models.lane_attention`; a single model with softmax takes torch's fused attention, which long
    contexts need.
    """

    def __init__(self, config: TransformerConfig, pack: tuple[int, ...]) -> None:
        super().__init__()
        self.config = config
        self.alibi_heads = config.heads if config.positions == "alibi" else 0
        self.qkv = NormedLinear(pack, config.width, 3 * config.width, config.layer_norm_eps)
        self.project = Linear(pack, config.width, config.width)

    def forward(self, x: Tensor, batch: int, activation: Callable[[Tensor], Tensor] | None) -> Tensor:
        """``[*pack, B * L, D] -> same``; ``activation`` acts on queries and keys of the spline kernel."""
        pack, width = x.shape[:-2], self.config.width
        qkv = self.qkv(x)
        if activation is not None:
            phi = activation(qkv[..., : 2 * width].contiguous())
            qkv = torch.cat([phi, qkv[..., 2 * width :]], dim=-1)
        return self.project(self._mix(qkv, batch, packed=bool(pack)).reshape(x.shape))

    def _mix(self, qkv: Tensor, batch: int, *, packed: bool) -> Tensor:
        """Weighted sums of the values, ``[*pack, B * L, 3 * D] -> [P * B, L, D]``."""
        heads, size = self.config.heads, self.config.head_width
        length = qkv.shape[-2] // batch
        sequences = qkv.view(-1, length, 3 * self.config.width)
        softmax = self.config.attention.kernel == "softmax"
        eager = packed and not torch.compiler.is_compiling()
        if eager and softmax and lane_attention.worthwhile(sequences.shape[0] * heads, size, qkv.device):
            slopes = torch.tensor(alibi_slopes(heads), device=qkv.device) if self.alibi_heads else None
            return lane_attention.attend(sequences, heads, slopes)
        q, k, v = sequences.view(-1, length, 3, heads, size).permute(2, 0, 3, 1, 4).unbind(0)  # [P * B, H, L, d]
        if softmax and not packed:
            return self._fused(q, k, v).transpose(1, 2)
        if softmax or self.config.attention.norm == "softmax":
            extra = _missing_keys(length, qkv.device)
            k, v = functional.pad(k, (0, 0, 0, extra)), functional.pad(v, (0, 0, 0, extra))
            weights = self._softmax(q.reshape(-1, length, size), k.reshape(-1, length + extra, size))
        else:
            weights = self._kernel(q.reshape(-1, length, size), k.reshape(-1, length, size))
        mixed = torch.bmm(weights, v.reshape(weights.shape[0], -1, size))
        return mixed.view(-1, heads, length, size).transpose(1, 2)

    def _fused(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if not self.alibi_heads:
            return functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        bias = score_bias(self.alibi_heads, q.shape[-2], 0, q.device).to(q.dtype)
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=bias.unsqueeze(0))

    def _softmax(self, q: Tensor, k: Tensor) -> Tensor:
        bias = score_bias(self.alibi_heads, q.shape[-2], k.shape[-2] - q.shape[-2], q.device)
        bias = bias.expand(q.shape[0], -1, -1) if bias.shape[0] == 1 else bias.repeat(q.shape[0] // bias.shape[0], 1, 1)
        scale = 1.0 / math.sqrt(self.config.head_width)
        return torch.softmax(torch.baddbmm(bias.to(q.dtype), q, k.transpose(1, 2), alpha=scale), dim=-1)

    def _kernel(self, q: Tensor, k: Tensor) -> Tensor:
        norm, length = self.config.attention.norm, q.shape[-2]
        kernel = torch.bmm(q, k.transpose(1, 2))
        scale_width = self.config.head_width if norm == "none" else 0
        factor = kernel_factor(self.alibi_heads, scale_width, length, q.device).to(q.dtype)
        kernel = (kernel.view(-1, factor.shape[0], length, length) * factor).view(-1, length, length)
        if norm == "sum_abs":
            kernel = kernel / (kernel.abs().sum(dim=-1, keepdim=True) + _TINY)
        return kernel
