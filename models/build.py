"""Networks from descriptions: a single model, or a stack of members that differ in seed and in elementwise function."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from models.activations import FrozenActivation, SearchedActivation, SearchedShapes
from models.config import ActivationConfig, SplineGrid, TransformerConfig
from models.curves import grid_of, member_shapes
from models.errors import ModelError
from models.init import initialize
from models.transformer import Transformer

Curve = Tensor | Sequence[float] | Sequence[Sequence[float]]


@dataclass(frozen=True)
class Member:
    """One model of a stack.

    ``curves`` maps a slot (``mlp``, ``attention``) to the numbers of its searched function, ``[size]`` or ``[layers,
    size]``. ``group`` says, in a search, whose shapes this member shares.
    """

    config: TransformerConfig
    seed: int
    curves: Mapping[str, Curve] = field(default_factory=dict)
    group: int | None = None


def build_pack(members: Sequence[Member], *, train_shapes: bool = False) -> Transformer:
    """A stack of P models, in the given order, weights drawn.

    A member's initial weights depend on its seed (and sizes) alone. In a search (``train_shapes``) the members of a
    group share one row of ``model.shapes()``; rows are in ascending order of the group numbers. Members may be in any
    order; neighbours of one function are served fastest.

    Raises:
        ModelError: no members; members that cannot be stacked, or searched together; a curve missing or of wrong size.
    """
    if not members:
        raise ModelError("a pack needs at least one member")
    _agree(members, train_shapes)
    shapes = [member_shapes(m.config, m.curves, searching=train_shapes) for m in members]
    model = _assemble(members, shapes, (len(members),), train_shapes)
    initialize(model.weights(), [(m.config, m.seed) for m in members], packed=True)
    return model


def build_solo(config: TransformerConfig, seed: int, curves: Mapping[str, Curve] | None = None) -> Transformer:
    """A single model without a pack dimension, same initial weights as the pack member of this seed."""
    member = Member(config, seed, curves or {})
    model = _assemble([member], [member_shapes(config, member.curves, searching=False)], (), False)
    initialize(model.weights(), [(config, seed)], packed=False)
    return model


def build_skeleton(config: TransformerConfig, pack: tuple[int, ...] = ()) -> Transformer:
    """A model on the meta device: shapes without storage. Searched functions sit at their start."""
    members = [Member(config, seed) for seed in range(pack[0] if pack else 1)]
    with torch.device("cpu"):
        shapes = [member_shapes(config, {}, searching=True) for _ in members]
    with torch.device("meta"):
        return _assemble(members, shapes, pack, False).to("meta")


def _agree(members: Sequence[Member], train_shapes: bool) -> None:
    first = members[0].config
    for place, member in enumerate(members):
        if member.config.stack_key() != first.stack_key():
            raise ModelError(
                f"member {place} cannot be stacked with member 0: {member.config.stack_key()} is not "
                f"{first.stack_key()} (vocab, length, layers, width, heads, mlp_ratio, positions, kernel, norm, eps)"
            )
        if not train_shapes:
            continue
        if not member.config.searched():
            raise ModelError(f"member {place} has nothing to search: use a 'learned' or 'scaled_gelu' function")
        if member.config.search_key() != first.search_key():
            raise ModelError(f"member {place} searches for something else than member 0; search them in separate packs")
        if member.group is None:
            raise ModelError(f"member {place} has no group: in a search every member says whose shapes it shares")


def _assemble(
    members: Sequence[Member], shapes: Sequence[Mapping[str, Tensor]], pack: tuple[int, ...], train_shapes: bool
) -> Transformer:
    config = members[0].config
    frozen: dict[str, FrozenActivation] = {}
    searched: dict[str, tuple[SearchedActivation, SearchedShapes]] = {}
    grids: dict[str, SplineGrid] = {}
    for slot in config.slots():
        activations: list[ActivationConfig] = [m.config.slots()[slot] for m in members]
        rows = [s[slot] for s in shapes]
        grids[slot] = next((g for g in map(grid_of, activations) if g is not None), SplineGrid())
        if train_shapes and slot in config.searched():
            searched[slot] = SearchedActivation(activations[0]), _shared_shapes(slot, members, rows)
        else:
            depth = max(r.shape[0] for r in rows)
            frozen[slot] = FrozenActivation(activations, [r.expand(depth, -1) for r in rows])
    return Transformer(config, pack, frozen, searched, grids)


def _shared_shapes(slot: str, members: Sequence[Member], shapes: Sequence[Tensor]) -> SearchedShapes:
    groups = sorted({m.group for m in members if m.group is not None})
    places = [groups.index(m.group) for m in members if m.group is not None]
    starts: list[Tensor] = []
    for row, group in enumerate(groups):
        own = [shape for shape, place in zip(shapes, places, strict=True) if place == row]
        if any(not torch.equal(shape, own[0]) for shape in own):
            raise ModelError(f"the members of group {group} start the search of slot {slot!r} from different shapes")
        starts.append(own[0])
    start = torch.stack(starts)
    if members[0].config.share_activation == "shared":
        start = start.squeeze(1)
    return SearchedShapes(start, places)
