"""A GPT-2-style decoder for one model or for a stack of them.

Every parameter has the shape ``[*pack, ...]`` with ``pack`` either () or (P,). The members of a stack never meet: each
product, norm and table look-up is done per member, so the gradient of the summed loss is each member's own gradient,
and a member that has turned to NaN leaves the others' bits alone.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.activations import FrozenActivation, SearchedActivation, SearchedShapes
from models.attention import Attention
from models.config import SplineGrid, TransformerConfig
from models.feed_forward import FeedForward
from models.normalization import NormedLinear
from models.visits import VisitRecorder, VisitSummary

Function = Callable[[Tensor], Tensor]


class Block(nn.Module):
    """Attention and feed-forward, each added to the stream."""

    def __init__(self, config: TransformerConfig, pack: tuple[int, ...]) -> None:
        super().__init__()
        self.attention = Attention(config, pack)
        self.feed_forward = FeedForward(config, pack)

    def forward(
        self, x: Tensor, batch: int, mlp: Function, kernel: Function | None, rows: Tensor | None = None
    ) -> Tensor:
        """``[*pack, N, D] -> same``; with ``rows`` only these rows (of all members, flat) go on to the feed-forward."""
        x = x + self.attention(x, batch, kernel)
        if rows is not None:
            x = x.reshape(-1, x.shape[-1]).index_select(0, rows).view(*x.shape[:-2], -1, x.shape[-1])
        return x + self.feed_forward(x, mlp)


class Transformer(nn.Module):
    """The decoder; make one with :mod:`models.build`, which also draws the weights.

    Args:
        config: sizes, positions and attention kernel, common to all members (their ``stack_key``).
        pack: () for a single model, (P,) for a stack.
        frozen: slot -> the members' functions.
        searched: slot -> (function, shapes) where a search trains the shapes.
        grids: slot -> the grid on which visits are counted.
    """

    def __init__(
        self,
        config: TransformerConfig,
        pack: tuple[int, ...],
        frozen: Mapping[str, FrozenActivation],
        searched: Mapping[str, tuple[SearchedActivation, SearchedShapes]],
        grids: Mapping[str, SplineGrid],
    ) -> None:
        super().__init__()
        self.config, self.pack = config, pack
        self.token_embedding = nn.Parameter(torch.empty(*pack, config.vocab, config.width))
        learned = config.positions == "learned"
        table = torch.empty(*pack, config.length, config.width) if learned else None
        self.position_embedding = None if table is None else nn.Parameter(table)
        self.blocks = nn.ModuleList(Block(config, pack) for _ in range(config.layers))
        self.head = NormedLinear(pack, config.width, config.vocab, config.layer_norm_eps, bias=False)
        self.frozen = nn.ModuleDict(frozen)
        self.searched = nn.ModuleDict({slot: pair[0] for slot, pair in searched.items()})
        self.searches = nn.ModuleDict({slot: pair[1] for slot, pair in searched.items()})
        self._grids = dict(grids)
        self._recorders: dict[str, VisitRecorder] = {}

    def forward(self, tokens: Tensor, scored: Tensor | None = None) -> Tensor:
        """Logits of the next token.

        Args:
            tokens: int64 ``[*pack, B, L]``, L at most ``config.length`` (any L with ALiBi).
            scored: int64 ``[*pack, B, S]``, positions whose logits are wanted; None for all. The last feed-forward
                block and the head then run on these positions only.

        Returns:
            float ``[*pack, B, L or S, vocab]``.
        """
        batch, length = tokens.shape[-2:]
        x = self._embed(tokens)
        shapes = {slot: module() for slot, module in self.searches.items()}
        rows = None
        if scored is not None:
            first = torch.arange(0, tokens.numel(), length, device=tokens.device)
            rows = (scored + first.view(*tokens.shape[:-1], 1)).reshape(-1)
        for layer, block in enumerate(self.blocks):
            last = layer == len(self.blocks) - 1
            mlp = partial(self._function, "mlp", shapes, layer)
            kernel = None
            if self.config.attention.kernel == "spline":
                kernel = partial(self._function, "attention", shapes, layer)
            x = block(x, batch, mlp, kernel, rows if last else None)
        return self.head(x).view(*tokens.shape[:-1], -1, self.config.vocab)

    def _embed(self, tokens: Tensor) -> Tensor:
        table, length = self.token_embedding, tokens.shape[-1]
        if self.pack:
            start = torch.arange(0, table.shape[0] * table.shape[1], table.shape[1], device=tokens.device)
            tokens = tokens + start.view(-1, 1, 1)
        x = functional.embedding(tokens, table.reshape(-1, table.shape[-1]))
        if self.position_embedding is not None:
            if length > self.config.length:
                raise ValueError(f"{length} tokens, but the position table ends at {self.config.length}")
            x = x + self.position_embedding[..., :length, :].unsqueeze(-3)
        return x.flatten(-3, -2)

    def _function(self, slot: str, shapes: Mapping[str, Tensor], layer: int, x: Tensor) -> Tensor:
        stacked = x if self.pack else x.unsqueeze(0)
        if slot in self._recorders:
            self._recorders[slot].add(stacked)
        if slot in self.searched:
            y = self.searched[slot](stacked, shapes[slot], layer)
        else:
            y = self.frozen[slot](stacked, layer)
        return y if self.pack else y.squeeze(0)

    def weights(self) -> dict[str, nn.Parameter]:
        """The members' weights, name -> ``[*pack, ...]``; what a search trains is not among them."""
        return {name: p for name, p in self.named_parameters() if not name.startswith("searches.")}

    def shapes(self) -> dict[str, nn.Parameter]:
        """What a search trains, slot -> ``[G, size]`` or ``[G, layers, size]``; empty if nothing is searched.

        Differentiate the *sum* of the members' losses: the gradient here is the mean over each group's active members.
        """
        return {slot: module.theta for slot, module in self._searches().items()}

    def set_active(self, active: Sequence[bool]) -> None:
        """Take each group's mean over these members only; for those that have diverged or ended. Weights stay."""
        for module in self._searches().values():
            module.set_active(active)

    def record_visits(self, on: bool) -> None:
        """Start (from zero) or stop recording the inputs of each slot's function."""
        members = self.pack[0] if self.pack else 1
        grids = self._grids if on else {}
        self._recorders = {slot: VisitRecorder(members, grid) for slot, grid in grids.items()}

    def visits(self) -> dict[str, VisitSummary]:
        """What was recorded since recording was switched on, slot -> summary."""
        return {slot: recorder.summary() for slot, recorder in self._recorders.items()}

    def _searches(self) -> dict[str, SearchedShapes]:
        return {slot: module for slot, module in self.searches.items() if isinstance(module, SearchedShapes)}
