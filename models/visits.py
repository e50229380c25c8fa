"""Where the inputs of an activation lie: smallest, largest and a histogram over the spline's bins, for each member."""

from dataclasses import dataclass

import torch
from torch import Tensor

from models import spline
from models.config import SplineGrid


@dataclass(frozen=True)
class VisitSummary:
    """What was recorded at one slot, all layers together.

    ``minimum`` and ``maximum`` are ``[P]`` (NaN inputs are left out; +inf and -inf before the first). ``counts`` is
    int64 ``[P, K + 1]``: bin 0 below the first knot of ``grid``, bin k between knots k - 1 and k, bin K above the
    last. NaN inputs are counted in bin 0.
    """

    grid: SplineGrid
    minimum: Tensor
    maximum: Tensor
    counts: Tensor


class VisitRecorder:
    """Accumulates a :class:`VisitSummary` on the CPU while the model runs; costs about as much as the spline itself."""

    def __init__(self, members: int, grid: SplineGrid) -> None:
        self.grid = grid
        self.minimum = torch.full((members,), float("inf"))
        self.maximum = torch.full((members,), float("-inf"))
        self.counts = torch.zeros(members, grid.knots + 1, dtype=torch.int64)

    @torch.no_grad()
    def add(self, x: Tensor) -> None:
        """Take in the inputs ``x [P, ...]`` of one call."""
        flat = x.detach().float().cpu().reshape(x.shape[0], -1)
        none = flat.isnan()
        self.minimum = torch.minimum(self.minimum, flat.masked_fill(none, float("inf")).amin(dim=1))
        self.maximum = torch.maximum(self.maximum, flat.masked_fill(none, float("-inf")).amax(dim=1))
        for member, row in enumerate(flat):
            where, _ = spline.locate(row, self.grid)
            self.counts[member] += torch.bincount(where, minlength=self.grid.knots + 1)

    def summary(self) -> VisitSummary:
        """A copy of what was recorded so far."""
        return VisitSummary(self.grid, self.minimum.clone(), self.maximum.clone(), self.counts.clone())
