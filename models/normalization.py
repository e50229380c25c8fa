"""Layer normalisation, together with the affine map that follows every one of them in this decoder."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.linear import affine


class NormedLinear(nn.Module):
    """LayerNorm followed by an affine map, as every LayerNorm of this decoder is.

    For a stack of small models, gain and shift are folded into the weight, ``(n * g + s) W + b = n (g W) + (s W + b)``:
    the same function, but gain and shift then cost work on a ``[in, out]`` matrix instead of four passes over all
    tokens. A single model takes the fused LayerNorm.

    Args:
        pack: () or (P,).
        inputs, outputs: widths.
        eps: of the normalisation.
        bias: if the affine map has one.
    """

    def __init__(self, pack: tuple[int, ...], inputs: int, outputs: int, eps: float, *, bias: bool = True) -> None:
        super().__init__()
        self.eps = eps
        self.gain = nn.Parameter(torch.empty(*pack, inputs))
        self.shift = nn.Parameter(torch.empty(*pack, inputs))
        self.weight = nn.Parameter(torch.empty(*pack, inputs, outputs))
        self.bias = nn.Parameter(torch.empty(*pack, outputs)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """``[*pack, N, in] -> [*pack, N, out]``."""
        width = (x.shape[-1],)
        if self.weight.dim() == 2:
            return affine(functional.layer_norm(x, width, self.gain, self.shift, self.eps), self.weight, self.bias)
        normal = functional.layer_norm(x, width, eps=self.eps)
        shifted = torch.bmm(self.shift.unsqueeze(-2), self.weight).squeeze(-2)
        bias = shifted if self.bias is None else shifted + self.bias
        return affine(normal, self.gain.unsqueeze(-1) * self.weight, bias)
