"""AdamW for a stack of models whose parameters lie in one ``[P, N]`` buffer: a few large operations a step, whatever
the number of layers, and no operation that mixes two rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn


class FlatParameters:
    """The stacked parameters of a model moved into one buffer; the model's parameters become views of it.

    Attributes:
        values: ``[P, N]``, row p holds all parameters of member p.
        names: of the parameters, in the order of their columns.
        decays: bool ``[N]``, True where a member's own tensor is a matrix or a table (weight decay acts there).
    """

    def __init__(self, parameters: Mapping[str, nn.Parameter]) -> None:
        """``parameters``: name -> ``[P, ...]``, one P for all."""
        self.names = tuple(parameters)
        self.parameters = tuple(parameters.values())
        members = self.parameters[0].shape[0]
        sizes = [p[0].numel() for p in self.parameters]
        self.values = torch.empty(members, sum(sizes), dtype=self.parameters[0].dtype)
        self.decays = torch.zeros(sum(sizes), dtype=torch.bool)
        start = 0
        for parameter, size in zip(self.parameters, sizes, strict=True):
            columns = slice(start, start + size)
            self.values[:, columns] = parameter.detach().reshape(members, size)
            self.decays[columns] = parameter.dim() > 2
            parameter.data = self.values[:, columns].view(parameter.shape)
            start += size

    def gather(self, gradients: Sequence[Tensor], out: Tensor) -> Tensor:
        """Gradients of the parameters, in their order, into ``out [P, N]``."""
        return torch.cat([g.reshape(g.shape[0], -1) for g in gradients], dim=1, out=out)


@dataclass
class PackedAdamW:
    """AdamW on the rows of a buffer, each row with its own rate; Adam where ``weight_decay`` is 0.

    All rows count the same steps. A row whose rate is 0 is left exactly as it is, provided its gradient is finite.

    Attributes:
        values: ``[P, N]``, updated in place.
        decays: bool ``[N]`` or None for all columns: where weight decay acts.
        first, second: the two moments, ``[P, N]``.
    """

    values: Tensor
    betas: tuple[float, float]
    eps: float = 1e-8
    weight_decay: float = 0.0
    decays: Tensor | None = None

    def __post_init__(self) -> None:
        self.first = torch.zeros_like(self.values)
        self.second = torch.zeros_like(self.values)
        self._scratch = torch.empty_like(self.values)

    @torch.no_grad()
    def update(self, step: int, gradient: Tensor, rates: Tensor) -> None:
        """One update.

        Args:
            step: updates made before this one (bias correction is a function of it: no state of its own to lose).
            gradient: ``[P, N]``, finite.
            rates: ``[P]``.
        """
        beta1, beta2 = self.betas
        rates = rates.unsqueeze(1)
        self.first.lerp_(gradient, 1.0 - beta1)
        self.second.mul_(beta2).addcmul_(gradient, gradient, value=1.0 - beta2)
        if self.weight_decay:
            shrink = 1.0 - rates * self.weight_decay
            self.values.mul_(shrink if self.decays is None else torch.where(self.decays, shrink, 1.0))
        scale = (1.0 - beta2 ** (step + 1)) ** -0.5
        denominator = torch.sqrt(self.second, out=self._scratch).mul_(scale).add_(self.eps)
        direction = torch.div(self.first, denominator, out=denominator)
        self.values.sub_(direction.mul_(rates / (1.0 - beta1 ** (step + 1))))

    def state(self) -> dict[str, Tensor]:
        """Tensors to checkpoint; the step is the caller's."""
        return {"first": self.first, "second": self.second}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.first.copy_(state["first"])
        self.second.copy_(state["second"])


def gradient_norms(gradient: Tensor) -> Tensor:
    """Euclidean norm of each row, ``[P, N] -> [P]``; not finite where an entry is not, or is beyond 1e19."""
    return torch.linalg.vector_norm(gradient, dim=1)


def clip_rows(gradient: Tensor, norms: Tensor, largest: Tensor) -> None:
    """Scale the rows whose norm is above ``largest [P]`` (inf: never) down to it, in place. Norms must be finite."""
    gradient.mul_((largest / norms.clamp(min=1e-30)).clamp(max=1.0).unsqueeze(1))


def mask_rows(tensor: Tensor, active: Tensor) -> None:
    """Zero the rows that are not active, in place, whatever they hold (a NaN times 0 would stay a NaN)."""
    tensor.masked_fill_(~active.unsqueeze(1), 0.0)
