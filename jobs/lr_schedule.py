"""Learning rates of the members of a pack over the steps: linear warm-up, then constant."""

from __future__ import annotations

import torch
from torch import Tensor


def warmup_constant(step: int, rates: Tensor, warmup_steps: Tensor) -> Tensor:
    """The rates in use at one step, a pure function of it.

    Args:
        step: updates made so far; the first update has step 0.
        rates: each member's rate after warm-up, ``[P]``.
        warmup_steps: each member's, ``[P]``; update number k (from 1) of a warm-up of n steps has k/n of the rate.

    Returns:
        ``[P]``, dtype of ``rates``.
    """
    share = (step + 1) / warmup_steps.to(rates.dtype).clamp(min=1.0)
    return rates * torch.clamp(share, max=1.0)
