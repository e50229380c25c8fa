"""The typed description of a network; torch is never imported here.

Everything that decides what a network computes, and nothing else, is a field of :class:`TransformerConfig`. The values
are frozen, so a config may be hashed, compared and written into a run's identity.
"""

from collections.abc import Hashable
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from models.errors import ConfigError

FixedKind = Literal["gelu", "relu", "relu2", "silu", "tanh", "identity"]
Start = Literal["constant", "identity", "gelu"]
Where = Literal["mlp", "attention", "both"]


class _Description(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class SplineGrid(_Description):
    """Uniformly spaced knots, both ends included: ``knots`` points from ``low`` to ``high``."""

    low: float = -20.0
    high: float = 20.0
    knots: int = Field(default=122, ge=2)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.low < self.high:
            raise ValueError(f"a spline grid needs low < high, got low={self.low}, high={self.high}")
        return self

    @property
    def spacing(self) -> float:
        """Distance of two neighbouring knots."""
        return (self.high - self.low) / (self.knots - 1)


class FixedActivation(_Description):
    """A function without parameters. ``gelu`` is the tanh approximation of GPT-2, ``relu2`` is max(x, 0)^2."""

    kind: FixedKind = "gelu"


class LearnedActivation(_Description):
    """A piecewise linear spline whose knot values are the product of a search (stage I).

    In a search ``start`` says where the values begin (``constant`` is 0.01 everywhere, as published); once the values
    are handed in from a search that has ended, ``start`` no longer matters.
    """

    kind: Literal["learned"] = "learned"
    grid: SplineGrid = SplineGrid()
    start: Start = "constant"


class ScaledGeluActivation(_Description):
    """``a * GeLU(b * x)``: the control that asks if the shape helps or only its gain.

    (a, b) come from a search, which starts at (1, 1).
    """

    kind: Literal["scaled_gelu"] = "scaled_gelu"


class FileSplineActivation(_Description):
    """A published spline with its values written out, so that what identifies a run is the curve and not a path.

    :func:`models.spline_file.read_spline_csv` makes one from a file.
    """

    kind: Literal["spline_file"] = "spline_file"
    low: float
    high: float
    values: tuple[float, ...] = Field(min_length=2)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        SplineGrid(low=self.low, high=self.high)
        return self

    @property
    def grid(self) -> SplineGrid:
        """The grid that the values lie on."""
        return SplineGrid(low=self.low, high=self.high, knots=len(self.values))


class RandomSplineActivation(_Description):
    """A smooth random curve, the control for "any odd shape would do".

    ``seed`` names the curve and has nothing to do with a run's seed. The values are scaled so that the second moment
    of the output under standard normal input is ``second_moment``; None means that of GeLU.
    """

    kind: Literal["random_spline"] = "random_spline"
    seed: int = Field(default=0, ge=0)
    grid: SplineGrid = SplineGrid()
    second_moment: float | None = Field(default=None, gt=0)


ActivationConfig = Annotated[
    FixedActivation | LearnedActivation | ScaledGeluActivation | FileSplineActivation | RandomSplineActivation,
    Field(discriminator="kind"),
]
SearchedActivation = LearnedActivation | ScaledGeluActivation


class AttentionConfig(_Description):
    """What stands between queries and keys.

    ``softmax`` is softmax(QK^T / sqrt(d_head)). ``spline`` applies ``activation`` elementwise to queries and keys and
    takes their inner product instead; ``norm`` then says how a row of that signed kernel is scaled: ``none`` divides
    by sqrt(d_head) * sqrt(i + 1) (our choice, the paper is silent), ``sum_abs`` by the row's sum of absolute values,
    ``softmax`` puts a softmax on top. ``norm`` and ``activation`` mean nothing for the softmax kernel and must be left
    alone there, so that one architecture has one description.
    """

    kernel: Literal["softmax", "spline"] = "softmax"
    norm: Literal["none", "sum_abs", "softmax"] = "none"
    activation: ActivationConfig = FixedActivation(kind="identity")

    @model_validator(mode="after")
    def _one_spelling(self) -> Self:
        default = FixedActivation(kind="identity")
        if self.kernel == "softmax" and (self.norm != "none" or self.activation != default):
            raise ValueError(
                "attention.norm and attention.activation belong to kernel 'spline'; drop them or set kernel: spline"
            )
        return self


class TransformerConfig(_Description):
    """A GPT-2-style pre-norm decoder. ``length`` is the longest input (the size of the learned position table)."""

    vocab: int = Field(ge=2)
    length: int = Field(ge=1)
    layers: int = Field(default=2, ge=1)
    width: int = Field(default=64, ge=1)
    heads: int = Field(default=4, ge=1)
    mlp_ratio: int = Field(default=4, ge=1)
    positions: Literal["learned", "alibi"] = "learned"
    activation: ActivationConfig = FixedActivation()
    attention: AttentionConfig = AttentionConfig()
    share_activation: Literal["shared", "per_layer"] = "shared"
    init_std: float = Field(default=0.02, gt=0)
    layer_norm_eps: float = Field(default=1e-5, gt=0)

    @model_validator(mode="after")
    def _heads_divide_width(self) -> Self:
        if self.width % self.heads:
            fitting = [h for h in range(1, min(self.width, 64) + 1) if self.width % h == 0]
            raise ConfigError(
                f"heads must divide width: width={self.width}, heads={self.heads}; "
                f"heads that fit this width: {', '.join(map(str, fitting))}",
                "heads",
                "width",
            )
        return self

    @property
    def head_width(self) -> int:
        """Width of one attention head."""
        return self.width // self.heads

    @property
    def hidden(self) -> int:
        """Width inside the feed-forward block."""
        return self.mlp_ratio * self.width

    def slots(self) -> dict[str, ActivationConfig]:
        """The places where an elementwise function acts: ``mlp`` always, ``attention`` if its kernel has one."""
        found: dict[str, ActivationConfig] = {"mlp": self.activation}
        if self.attention.kernel == "spline":
            found["attention"] = self.attention.activation
        return found

    def searched(self) -> dict[str, SearchedActivation]:
        """The slots whose function is the product of a search."""
        return {
            slot: activation
            for slot, activation in self.slots().items()
            if isinstance(activation, LearnedActivation | ScaledGeluActivation)
        }

    def stack_key(self) -> Hashable:
        """What members must agree on to be trained as one stacked program; the functions in the slots are not in it."""
        return (
            *(self.vocab, self.length, self.layers, self.width, self.heads, self.mlp_ratio),
            *(self.positions, self.attention.kernel, self.attention.norm, self.layer_norm_eps),
        )

    def search_key(self) -> Hashable:
        """What members must agree on to be *searched* as one program: also the slots searched and their grids."""
        searched = tuple(
            (slot, activation.kind, getattr(activation, "grid", None)) for slot, activation in self.searched().items()
        )
        return (self.stack_key(), self.share_activation, searched)


def with_search(
    config: TransformerConfig,
    where: Where,
    activation: SearchedActivation | None = None,
) -> TransformerConfig:
    """``config`` with a searched function (None: a default spline) in the MLP, the attention kernel, or both."""
    activation = activation or LearnedActivation()
    changes: dict[str, object] = {}
    if where in ("mlp", "both"):
        changes["activation"] = activation
    if where in ("attention", "both"):
        norm = config.attention.norm
        changes["attention"] = AttentionConfig(kernel="spline", norm=norm, activation=activation)
    return config.model_copy(update=changes)
