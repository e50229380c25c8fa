"""P models of equal shape as one program: their weights in one buffer, one backward pass, one update, and a mask.

Nothing that happens to one model reaches another: a model that is not active gets no gradient and no rate, so its
weights stay as they are, whatever its losses are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from jobs.data import Batch
from jobs.errors import JobError
from jobs.evaluation import member_losses
from jobs.lr_schedule import warmup_constant
from jobs.optimizer import FlatParameters, PackedAdamW, clip_rows, gradient_norms, mask_rows
from jobs.train_config import TrainConfig
from models.build import Member, build_pack
from models.errors import ModelError


@dataclass(frozen=True)
class Pass:
    """One forward and backward pass.

    Attributes:
        losses: ``[P]``, mean cross-entropy of each model.
        logits: ``[P, B, S, V]``, detached.
    """

    losses: Tensor
    logits: Tensor


class Stack:
    """The models, their optimiser, and each model's own rate, warm-up, clipping and bound on the loss.

    Attributes:
        norms: ``[P]``, gradient norms of the last pass before clipping, as ``fallen`` saw them.
    """

    def __init__(
        self, members: Sequence[Member], configs: Sequence[TrainConfig], *, train_shapes: bool = False
    ) -> None:
        """``configs``: one a model; betas, eps and weight decay are the first one's (equal in a pack).

        Raises:
            JobError: the members cannot be built as one stack.
        """
        try:
            self.model = build_pack(members, train_shapes=train_shapes)
        except ModelError as error:
            raise JobError(f"the pack cannot be built: {error}") from error
        self.flat = FlatParameters(self.model.weights())
        optimizer = configs[0].optimizer
        self.adamw = PackedAdamW(
            self.flat.values, optimizer.betas, optimizer.eps, optimizer.weight_decay, self.flat.decays
        )
        self._gradient = torch.empty_like(self.flat.values)
        infinity = float("inf")
        self._rates = torch.tensor([c.optimizer.rate for c in configs])
        self._warmup = torch.tensor([c.warmup_steps for c in configs])
        self._clip = torch.tensor(
            [infinity if c.optimizer.grad_clip is None else c.optimizer.grad_clip for c in configs]
        )
        self._bound = torch.tensor([infinity if c.diverged_above is None else c.diverged_above for c in configs])

    def weights_pass(self, batch: Batch) -> Pass:
        """Losses, and the gradient of the weights (kept for ``update``)."""
        losses, logits = self._forward(batch)
        self.flat.gather(torch.autograd.grad(losses.sum(), self.flat.parameters), self._gradient)
        return Pass(losses.detach(), logits.detach())

    def shapes_pass(self, batch: Batch) -> tuple[Pass, list[Tensor]]:
        """Losses, and the gradients of ``model.shapes()`` (the mean over each group's active models)."""
        losses, logits = self._forward(batch)
        gradients = torch.autograd.grad(losses.sum(), tuple(self.model.shapes().values()))
        return Pass(losses.detach(), logits.detach()), list(gradients)

    def _forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        logits = self.model(batch.tokens, batch.positions)
        return member_losses(logits, batch.targets), logits

    def fallen(self, losses: Tensor) -> Tensor:
        """bool ``[P]``: loss not finite or above its bound, or a gradient that is not finite. Call after the pass."""
        self.norms = gradient_norms(self._gradient)
        return ~(torch.isfinite(losses) & torch.isfinite(self.norms) & (losses <= self._bound))

    def update(self, step: int, active: Tensor) -> None:
        """Move the weights of the active models (bool ``[P]``) by the gradient of the last ``weights_pass``."""
        mask_rows(self._gradient, active)
        clip_rows(self._gradient, torch.where(active, self.norms, 0.0), self._clip)
        self.adamw.update(step, self._gradient, warmup_constant(step, self._rates, self._warmup) * active)

    def state(self) -> dict[str, Tensor]:
        """Weights by name, and the moments."""
        named = {f"weights.{name}": p.detach() for name, p in self.model.weights().items()}
        return named | {f"weights_optimizer.{name}": t for name, t in self.adamw.state().items()}

    @torch.no_grad()
    def restore(self, state: dict[str, Tensor]) -> None:
        for name, parameter in self.model.weights().items():
            parameter.copy_(state[f"weights.{name}"])
        self.adamw.restore({name: state[f"weights_optimizer.{name}"] for name in self.adamw.state()})
