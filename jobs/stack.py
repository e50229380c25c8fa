"""P models of equal shape as one program: their weights in one buffer, one backward pass, one update, and a mask.

Nothing that happens to one model reaches another: a model that is not active gets no gradient and no rate, so its
weights stay as they are, whatever its losses are.

Of several processes each holds all models, passes its part of every batch through them, and adds losses and gradients
up with the others, so that all make the same update.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from jobs.data import Batch
from jobs.errors import JobError
from jobs.evaluation import hits, member_losses
from jobs.lr_schedule import warmup_constant
from jobs.optimizer import FlatParameters, PackedAdamW, clip_rows, gradient_norms, mask_rows
from jobs.ranks import Ranks, alone
from jobs.train_config import TrainConfig
from models.build import Member, build_pack
from models.errors import ModelError


@dataclass(frozen=True)
class Pass:
    """One forward and backward pass.

    Attributes:
        losses: ``[P]``, mean cross-entropy of each model over the whole batch.
        logits: ``[P, B, S, V]``, detached; of several processes each holds those of its part of the batch.
        targets: ``[P, B, S]``, what the logits speak of.
    """

    losses: Tensor
    logits: Tensor
    targets: Tensor


class Stack:
    """The models, their optimiser, and each model's own rate, warm-up, clipping and bound on the loss.

    Attributes:
        norms: ``[P]``, gradient norms of the last pass before clipping, as ``fallen`` saw them.
    """

    def __init__(
        self,
        members: Sequence[Member],
        configs: Sequence[TrainConfig],
        *,
        train_shapes: bool = False,
        ranks: Ranks | None = None,
    ) -> None:
        """``configs``: one a model; betas, eps and weight decay are the first one's (equal in a pack).

        Raises:
            JobError: the members cannot be built as one stack, or not by so many processes.
        """
        self._ranks = ranks or Ranks()
        if self._ranks.size > 1 and (why := alone(configs[0])):
            raise JobError(f"{why}, but {self._ranks.size} were started; set strategy: ddp, or resources.processes: 1")
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
        losses, done = self._forward(batch)
        self.flat.gather(torch.autograd.grad(losses.sum(), self.flat.parameters), self._gradient)
        self._ranks.sum(self._gradient, done.losses)
        return done

    def shapes_pass(self, batch: Batch) -> tuple[Pass, list[Tensor]]:
        """Losses, and the gradients of ``model.shapes()`` (the mean over each group's active models)."""
        losses, done = self._forward(batch)
        gradients = torch.autograd.grad(losses.sum(), tuple(self.model.shapes().values()))
        self._ranks.sum(*gradients, done.losses)
        return done, list(gradients)

    def _forward(self, batch: Batch) -> tuple[Tensor, Pass]:
        """Losses to be differentiated (of several processes: its share of them), and what was passed through."""
        if self._ranks.size == 1:
            logits = self.model(batch.tokens, batch.positions)
            losses = member_losses(logits, batch.targets)
            return losses, Pass(losses.detach(), logits.detach(), batch.targets)
        rows = batch.tokens.shape[1]
        if rows < self._ranks.size:
            raise JobError(f"a batch of {rows} cannot be shared by {self._ranks.size} processes; ask for fewer of them")
        part = batch.part(self._ranks.share(rows))
        logits = self.model(part.tokens, part.positions)
        losses = member_losses(logits, part.targets, batch.targets)
        return losses, Pass(losses.detach().clone(), logits.detach(), part.targets)

    def count_hits(self, done: Pass, *, by_sequence: bool) -> tuple[Tensor, Tensor]:
        """(right, counted) of each model over the whole batch, int64 ``[P]`` each; see ``hits``."""
        right, counted = (found.sum(dim=1) for found in hits(done.logits, done.targets, by_sequence=by_sequence))
        self._ranks.sum(right, counted)
        return right, counted

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
