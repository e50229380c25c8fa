"""What may stand under ``config:`` of the runners ``train`` and ``search``; neither torch nor numpy is imported."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_serializer,
    model_validator,
)

from jobs.identity import content_id
from jobs.runners import RunShape
from jobs.tasks.config import TaskConfig
from models import flops
from models.config import (
    ActivationConfig,
    AttentionConfig,
    FixedActivation,
    LearnedActivation,
    ScaledGeluActivation,
    SplineGrid,
    Start,
    TransformerConfig,
    Where,
    with_search,
)
from models.errors import ConfigError

ACTIVATION_INPUT = "activation"
"""Name of the input that brings the curves of a search to a run that trains with them."""

SHAPE_PRODUCT = "shape"
"""Name of the product that a search leaves."""

Step = Annotated[int, Field(ge=1)]
Share = Literal["shared", "per_layer"]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def _tagged(activation: Any, write: SerializerFunctionWrapHandler) -> Any:
    """The tag is written even where it is a default, or the rest could not be read back."""
    return {"kind": activation.kind, **write(activation)}


class AttentionSection(AttentionConfig):
    """``models.config.AttentionConfig``, written so that it can be read back with defaulted fields left out."""

    @field_serializer("activation", mode="wrap")
    def _activation(self, value: ActivationConfig, write: SerializerFunctionWrapHandler) -> Any:
        return _tagged(value, write)


class ModelConfig(_Section):
    """The decoder; vocabulary and length come from the task."""

    layers: Annotated[int, Field(ge=1)] = 2
    width: Annotated[int, Field(ge=1)] = 64
    heads: Annotated[int, Field(ge=1)] = 4
    mlp_ratio: Annotated[int, Field(ge=1)] = 4
    positions: Literal["learned", "alibi"] = "learned"
    activation: ActivationConfig = FixedActivation()
    attention: AttentionSection = AttentionSection()
    share: Share = "shared"
    """One learned curve for all layers, or one for each."""
    init_std: Annotated[float, Field(gt=0)] = 0.02
    """Of the initial weights; GPT-2's 0.02 suits its width of 768, where it is about 0.55 / sqrt(width)."""

    @field_serializer("activation", mode="wrap")
    def _activation(self, value: ActivationConfig, write: SerializerFunctionWrapHandler) -> Any:
        return _tagged(value, write)

    def transformer(self, task: TaskConfig) -> TransformerConfig:
        """The network for a task; it reads the L - 1 tokens that something is predicted from."""
        return TransformerConfig(
            vocab=task.vocab,
            length=task.length - 1,
            layers=self.layers,
            width=self.width,
            heads=self.heads,
            mlp_ratio=self.mlp_ratio,
            positions=self.positions,
            activation=self.activation,
            attention=AttentionConfig(
                kernel=self.attention.kernel, norm=self.attention.norm, activation=self.attention.activation
            ),
            share_activation=self.share,
            init_std=self.init_std,
        )


class OptimizerConfig(_Section):
    """AdamW. The rate in use is ``lr * relative_rate``: a recipe can scale a committed rate and keep both in sight."""

    name: Literal["adamw"] = "adamw"
    lr: Annotated[float, Field(gt=0)]
    relative_rate: Annotated[float, Field(gt=0)] = 1.0
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.99)
    eps: Annotated[float, Field(gt=0)] = 1e-8
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """Decoupled; acts on matrices and embeddings, not on biases, gains and shifts."""
    grad_clip: Annotated[float, Field(gt=0)] | None = None
    """Largest gradient norm of one member, None: no clipping."""

    @property
    def rate(self) -> float:
        return self.lr * self.relative_rate


class EvaluateConfig(_Section):
    """When the held-out sets are looked at, and which: a pilot for choosing a rate names ``validation`` only."""

    points: Annotated[int, Field(ge=0, le=10_000)] = 8
    """Evenly spaced, the last one at the last step."""
    at: tuple[Step, ...] = ()
    """Further steps. T/2, T and 2T of ``t_task`` and the last step are always among the evaluations."""
    splits: Annotated[tuple[Literal["validation", "test"], ...], Field(min_length=1)] = ("validation", "test")
    first_positions: Annotated[int, Field(ge=1)] = 128
    """The loss at positions below this is reported apart, where a task has predictions on both sides of it."""


class TrainConfig(_Section):
    """One training run of one model on one task."""

    task: TaskConfig
    model: ModelConfig = ModelConfig()
    optimizer: OptimizerConfig
    steps: Step
    warmup_steps: Annotated[int, Field(ge=0)] = 20
    batch_size: Annotated[int, Field(ge=1)] = 32
    evaluate: EvaluateConfig = EvaluateConfig()
    t_task: Step | None = None
    """The task's fixed step T, at which architectures are compared; recorded, so that reports know it."""
    diverged_above: Annotated[float, Field(gt=0)] | None = None
    """A training loss above this counts as divergence, as one that is not finite always does."""
    precision: Literal["float32"] = "float32"
    strategy: Literal["single", "ddp"] = "single"
    """``ddp``: all models on every process, each batch in as many parts as there are processes."""

    @model_validator(mode="after")
    def _builds(self) -> Self:
        late = [step for step in self.evaluate.at if step > self.steps]
        if late:
            told = f"evaluate.at={late} is never reached: steps={self.steps}; raise steps or drop them"
            raise ConfigError(told, "evaluate.at", "steps")
        try:
            self.transformer()
        except ValidationError as error:
            raise ConfigError.below("model", error.errors()) from None
        return self

    def transformer(self) -> TransformerConfig:
        return self.model.transformer(self.task)

    def landmarks(self) -> dict[str, int]:
        """Steps with a name in the summary: T/2, T, 2T where they are reached, and the last step."""
        named: dict[str, int] = {}
        if self.t_task is not None:
            for name, factor in (("T/2", Fraction(1, 2)), ("T", Fraction(1)), ("2T", Fraction(2))):
                step = max(1, int(self.t_task * factor))
                if step <= self.steps:
                    named[name] = step
        return {**named, "final": self.steps}

    def evaluations(self) -> frozenset[int]:
        """All steps after which the held-out sets are looked at."""
        points = self.evaluate.points
        even = {max(1, self.steps * k // points) for k in range(1, points + 1)}
        return frozenset(even | set(self.evaluate.at) | set(self.landmarks().values()))


class SearchSection(_Section):
    """Stage I: ``members`` models share one elementwise function, which learns from data that their weights do not."""

    members: Annotated[int, Field(ge=1, le=512)] = 8
    """M, models with weights and data order of their own."""
    learns: Literal["spline", "scaled_gelu"] = "spline"
    where: Where = "mlp"
    share: Share = "shared"
    start: Start = "constant"
    grid: SplineGrid = SplineGrid()
    holdout: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """Share of the training set (MEMORIZE: of each batch) that moves the shape and not the weights."""
    lr: Annotated[float, Field(gt=0)] = 0.1
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.99, 0.999)
    weight_steps_per_shape_step: Step = 1
    batch_size: Annotated[int, Field(ge=1)] | None = None
    """Of the shape's batch in each model; None: in proportion to the hold-out, a quarter of the weights' at 0.2."""


class SearchConfig(TrainConfig):
    """One search for a function: its product ``shape`` is what runs with a ``learned`` function consume."""

    search: SearchSection = SearchSection()

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.model.share != "shared":
            raise ValueError("a search says search.share, not model.share; move it there")
        where, model = self.search.where, self.model
        overwritten = []
        if model.activation != FixedActivation() and where != "attention":
            overwritten.append("model.activation")
        if model.attention.activation != AttentionSection().activation and where != "mlp":
            overwritten.append("model.attention.activation")
        if overwritten:
            raise ValueError(f"search.where={where!r} decides what is there; drop {' and '.join(overwritten)}")
        share, n = self.search.holdout, self.task.sizes["train"]
        if not 0 < round(share * n) < n:
            raise ValueError(f"search.holdout={share:g} leaves one part of {n} examples empty; raise task.train")
        stray = list(model.transformer(self.task).searched())
        if stray:
            raise ValueError(
                f"slot {stray[0]!r} is 'learned', but search.where={where!r}; searched slots are named by search.where"
            )
        return self

    def transformer(self) -> TransformerConfig:
        section = self.search
        learnt = (
            LearnedActivation(grid=section.grid, start=section.start)
            if section.learns == "spline"
            else ScaledGeluActivation()
        )
        config = self.model.transformer(self.task).model_copy(update={"share_activation": section.share})
        return with_search(config, section.where, learnt)

    @property
    def shape_batch(self) -> int:
        """Examples of one model whose loss moves the shape in one step."""
        if self.search.batch_size is not None:
            return self.search.batch_size
        share = self.search.holdout
        return max(1, round(self.batch_size * share / (1 - share)))


def _stack_key(config: TrainConfig, *more: Any) -> str:
    """What the members of one stacked program agree on. Rates, warm-up, clipping, steps, seeds, evaluations and the
    functions in the slots may differ: baseline and controls of a column share its pack."""
    optimizer = config.optimizer
    agreed = [
        config.task.model_dump(mode="json"),
        repr(config.transformer().stack_key()),
        [optimizer.name, optimizer.betas, optimizer.eps, optimizer.weight_decay],
        [config.batch_size, config.precision, config.strategy],
        *more,
    ]
    return content_id("k", agreed)


def _checkpoint_bytes(parameters: int, searched: int) -> int:
    """Values and two moments in float32 of everything trained, and a few kilobytes of bookkeeping."""
    return 12 * (parameters + searched) + 8192


def describe_train(config: TrainConfig) -> RunShape:
    """By formula, nothing is built."""
    model = config.transformer()
    parameters = flops.count_parameters(model)
    return RunShape(
        stack_key=_stack_key(config),
        parameters=parameters,
        flops_per_step=float(flops.flops_per_step(model, config.batch_size, model.length)),
        steps=config.steps,
        checkpoint_bytes=_checkpoint_bytes(parameters, 0),
        consumes=(ACTIVATION_INPUT,) if model.searched() else (),
    )


def describe_search(config: SearchConfig) -> RunShape:
    """As :func:`describe_train`; a shape step is counted as the forward and backward pass it costs."""
    model, section = config.transformer(), config.search
    parameters = flops.count_parameters(model)
    rows = model.layers if section.share == "per_layer" else 1
    size = section.grid.knots if section.learns == "spline" else 2
    step = flops.flops_per_step(model, config.batch_size, model.length)
    step += flops.flops_per_step(model, config.shape_batch, model.length) / section.weight_steps_per_shape_step
    agreed = section.model_dump(mode="json", exclude={"lr", "start", "holdout"})
    return RunShape(
        stack_key=_stack_key(config, agreed, config.shape_batch),
        parameters=parameters,
        flops_per_step=float(step * section.members),
        steps=config.steps,
        models=section.members,
        checkpoint_bytes=_checkpoint_bytes(parameters * section.members, rows * size * len(model.searched())),
        products=(SHAPE_PRODUCT,),
    )
