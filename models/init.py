"""Initial weights: GPT-2's, drawn for each member from its own seed."""

import hashlib
import math

import torch
from torch import Tensor

from models.config import TransformerConfig

_RESIDUAL = ("project.weight", "narrow.weight")


def _deviation(name: str, config: TransformerConfig) -> float:
    if name.endswith(_RESIDUAL):
        return config.init_std / math.sqrt(2 * config.layers)
    return config.init_std


def draw(name: str, shape: torch.Size, config: TransformerConfig, seed: int) -> Tensor:
    """One member's initial value of one weight, float32 on the CPU.

    N(0, init_std), divided by sqrt(2 layers) for what writes to the residual stream; gains 1, shifts and biases 0. The
    stream of random numbers is keyed by (seed, name): the value depends neither on the member's place in a pack nor on
    which other weights exist, so that arms which differ in one part start from the same values in all others.
    """
    if name.endswith("gain"):
        return torch.ones(shape, device="cpu")
    if name.endswith(("shift", "bias")):
        return torch.zeros(shape, device="cpu")
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
    values = torch.empty(shape, dtype=torch.float32, device="cpu")
    return values.normal_(0.0, _deviation(name, config), generator=generator)


@torch.no_grad()
def initialize(
    weights: dict[str, torch.nn.Parameter], members: list[tuple[TransformerConfig, int]], packed: bool
) -> None:
    """Fill stacked (or, unpacked, one member's) weights in place from the members' (config, seed)."""
    for name, weight in weights.items():
        for place, (config, seed) in enumerate(members):
            target = weight[place] if packed else weight
            target.copy_(draw(name, target.shape, config, seed))
