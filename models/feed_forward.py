"""The feed-forward block: LayerNorm, widen, an elementwise function, narrow."""

from collections.abc import Callable

from torch import Tensor, nn

from models.config import TransformerConfig
from models.linear import Linear
from models.normalization import NormedLinear


class FeedForward(nn.Module):
    """``W' phi(W x + b) + b'`` on the normalised input, hidden width ``mlp_ratio * width``."""

    def __init__(self, config: TransformerConfig, pack: tuple[int, ...]) -> None:
        super().__init__()
        self.widen = NormedLinear(pack, config.width, config.hidden, config.layer_norm_eps)
        self.narrow = Linear(pack, config.hidden, config.width)

    def forward(self, x: Tensor, activation: Callable[[Tensor], Tensor]) -> Tensor:
        """``[*pack, N, D] -> same``."""
        return self.narrow(activation(self.widen(x)))
