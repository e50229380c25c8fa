"""Where a pack stands, apart from its tensors of weights: who has ended or diverged, and sums since the last look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor


@dataclass
class RunState:
    """One run of the pack.

    Attributes:
        ended: it has its finished fact (or is about to): its models are masked.
        landmarks: name of a step (``T/2``, ``final``) -> metrics seen there.
    """

    ended: bool = False
    landmarks: dict[str, dict[str, float]] = field(default_factory=dict)


@dataclass
class PackState:
    """All that the loop itself must know to go on; a function of the steps done, so equal steps give equal state.

    Attributes:
        runs: in the pack's order.
        owner: int64 ``[P]``, the run that each model belongs to.
        diverged_at: int64 ``[P]``, the step at which a model fell, -1 while it stands.
        sums: name -> float64 ``[P]``, what the steps since each model's last evaluation add up to.
    """

    runs: list[RunState]
    owner: Tensor
    diverged_at: Tensor
    sums: dict[str, Tensor]

    @staticmethod
    def fresh(models: Sequence[int]) -> PackState:
        """``models``: how many models each run has."""
        owner = torch.repeat_interleave(torch.arange(len(models)), torch.tensor(models))
        return PackState([RunState() for _ in models], owner, torch.full_like(owner, -1), {})

    def active(self) -> Tensor:
        """bool ``[P]``: models that still train."""
        going = torch.tensor([not run.ended for run in self.runs])
        return going[self.owner] & (self.diverged_at < 0)

    def places(self, run: int) -> Tensor:
        """Indices of a run's models."""
        return torch.nonzero(self.owner == run).squeeze(1)

    def survivors(self, run: int) -> Tensor:
        """Indices of a run's models that have not diverged."""
        return torch.nonzero((self.owner == run) & (self.diverged_at < 0)).squeeze(1)

    def add(self, name: str, values: Tensor) -> None:
        if name not in self.sums:
            self.sums[name] = torch.zeros(len(self.owner), dtype=torch.float64)
        self.sums[name] += values

    def take(self, run: int) -> dict[str, float]:
        """The run's sums over its surviving models, set back to 0."""
        who = self.survivors(run)
        found = {name: float(total[who].sum()) for name, total in self.sums.items()}
        for total in self.sums.values():
            total[self.places(run)] = 0.0
        return found

    def tensors(self) -> dict[str, Tensor]:
        return {"diverged_at": self.diverged_at} | {f"sums.{name}": total for name, total in self.sums.items()}

    def record(self) -> list[dict[str, Any]]:
        """JSON beside the tensors; who has ended is in the facts."""
        return [{"landmarks": run.landmarks} for run in self.runs]

    def restore(self, tensors: Mapping[str, Tensor], record: Sequence[Mapping[str, Any]]) -> None:
        self.diverged_at = tensors["diverged_at"].clone()
        self.sums = {k.removeprefix("sums."): v.clone() for k, v in tensors.items() if k.startswith("sums.")}
        self.runs = [RunState(landmarks=dict(run["landmarks"])) for run in record]
