"""Affine maps for one model or a stack of models."""

import torch
from torch import Tensor, nn


def affine(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """``x @ weight + bias``: ``[*pack, N, in], [*pack, in, out], [*pack, out] -> [*pack, N, out]``."""
    if weight.dim() == 2:
        return x @ weight if bias is None else torch.addmm(bias, x, weight)
    if bias is None:
        return torch.bmm(x, weight)
    return torch.baddbmm(bias.unsqueeze(-2), x, weight)


class Linear(nn.Module):
    """An affine map; the weight is stored ``[*pack, in, out]``, the layout in which stacked products run."""

    def __init__(self, pack: tuple[int, ...], inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(*pack, inputs, outputs))
        self.bias = nn.Parameter(torch.empty(*pack, outputs))

    def forward(self, x: Tensor) -> Tensor:
        """``[*pack, N, in] -> [*pack, N, out]``."""
        return affine(x, self.weight, self.bias)
