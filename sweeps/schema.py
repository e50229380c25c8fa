"""What may stand in a sweep file. docs/sweep-files.md explains each key; a test keeps the two together."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

Scalar = str | int | float | bool | None
Fragment = dict[str, Any]
"""A piece of a runner's config; pieces are laid over each other key by key."""

LABEL = r"[A-Za-z_][A-Za-z0-9_-]*"
"""Factors, stages and inputs have names that can stand in a dotted override."""

Name = Annotated[str, Field(pattern=rf"^{LABEL}$")]
SWEEP_NAME = r"^[a-z0-9][a-z0-9_-]{0,59}$"


def _listed(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else [value]


def _or_empty(value: Any) -> Any:
    """A key with nothing behind it is an empty mapping."""
    return {} if value is None else value


def _or_none(value: Any) -> Any:
    """Rules that were taken back."""
    return () if value is None else value


Choice = Annotated[tuple[Scalar, ...], BeforeValidator(_listed), Field(min_length=1)]
"""One label value or several of them."""
When = Annotated[dict[str, Choice], BeforeValidator(_or_empty)]
"""Label -> the values it may have. All labels named must agree; ``stage`` is a label too."""
Config = Annotated[Fragment, BeforeValidator(_or_empty)]


class _Block(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Factor(_Block):
    """Levels by name, each a fragment of config; or plain ``values`` for the config key at ``path``."""

    levels: dict[str, Config] | None = None
    path: Annotated[str, Field(pattern=rf"^{LABEL}(\.{LABEL})*$")] | None = None
    values: Annotated[tuple[Any, ...], Field(min_length=1)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _spelled_out(cls, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return {"values": value}
        if isinstance(value, dict) and not ({"levels", "values"} & value.keys() or isinstance(value.get("path"), str)):
            return {"levels": value}
        return value

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.levels is None) == (self.values is None):
            raise ValueError("a factor has either levels or values")
        if self.levels is not None and self.path is not None:
            raise ValueError("path goes with values; a level is a fragment of config and needs none")
        if self.levels is not None and not self.levels:
            raise ValueError("a factor needs at least one level")
        return self


class Seeds(_Block):
    """``values`` is a list, or how many, counted from ``first``. ``name`` is the label they get."""

    name: Name = "seed"
    values: tuple[Annotated[int, Field(ge=0, lt=2**31)], ...] = Field(default=(1,), min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _counted(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            value = {"values": value}
        value = dict(value)
        first = value.pop("first", 1)
        values = value.get("values")
        if isinstance(values, int) and not isinstance(values, bool):
            if values < 1 or not isinstance(first, int):
                raise ValueError("seeds are counted from `first` (an integer), and there is at least one")
            value["values"] = list(range(first, first + values))
        elif "values" in value and not isinstance(values, list | tuple):
            raise ValueError("seeds are a number of them, or a list such as [1, 2]")
        elif "values" in value and first != 1:
            raise ValueError("`first` goes with a number of seeds, not with a list of them")
        return value

    @model_validator(mode="after")
    def _different(self) -> Self:
        doubled = sorted({seed for seed in self.values if self.values.count(seed) > 1})
        if doubled:
            raise ValueError(f"a seed may stand here once: {', '.join(map(str, doubled))}")
        return self


class Need(_Block):
    """A product of another stage, handed to the run as an input.

    The producers are the runs of ``stage`` whose labels agree: labels in ``where`` have these values, labels in
    ``match`` have the value of the named label of the consumer, and labels both sides have are equal. A label that only
    producers have (its ``search_seed``, say) becomes the consumer's as well: one nested run for each producer.
    """

    stage: str
    product: str
    match: Annotated[dict[str, str], BeforeValidator(_or_empty)] = {}
    where: When = {}
    when: When = {}


Needs = Annotated[tuple[Need, ...], BeforeValidator(_listed), Field(min_length=1)]
"""The first whose ``when`` agrees with the consumer's labels is used."""


class Pack(_Block):
    """Runs of one stage, shape, resources and execution that agree in the labels ``by`` train as one program."""

    by: tuple[str, ...] = ()
    max: Annotated[int, Field(ge=1, le=4096)] = 1


class Resources(_Block):
    """What one pack asks for; keys left out keep the wider setting (cell over stage over file)."""

    cpus: Annotated[int, Field(ge=1)] | None = None
    gpus: Annotated[int, Field(ge=0)] | None = None
    memory_mb: Annotated[int, Field(ge=1)] | None = None
    max_memory_mb: Annotated[int, Field(ge=1)] | None = None
    """After an attempt that ran out of memory the next asks for more, up to this."""
    nodes: Annotated[int, Field(ge=1)] | None = None
    processes: Annotated[int, Field(ge=1)] | None = None
    """On each node."""
    minutes: Annotated[int, Field(ge=1)] | None = None
    extra: dict[str, str] | None = None


class Execution(_Block):
    """How a pack is carried out; never part of a result."""

    checkpoint_steps: Annotated[int, Field(ge=1)] | None = None
    checkpoint_seconds: Annotated[float, Field(gt=0)] | None = None
    hang_floor_s: Annotated[float, Field(gt=0)] | None = None
    threads: Annotated[int, Field(ge=1)] | None = None


class Stage(_Block):
    """Runs of one runner over some of the factors."""

    runner: str
    factors: tuple[str, ...] | None = None
    seeds: Seeds | None = None
    config: Config = {}
    needs: Annotated[dict[Name, Needs], BeforeValidator(_or_empty)] = {}
    pack: Pack | None = None
    resources: Resources = Resources()
    execution: Execution = Execution()


class Exclusion(_Block):
    when: Annotated[When, Field(min_length=1)]
    reason: Annotated[str, Field(min_length=1)]


class CellRule(_Block):
    """What the cells that ``when`` names have of their own."""

    when: Annotated[When, Field(min_length=1)]
    config: Config = {}
    resources: Resources = Resources()
    execution: Execution = Execution()


class Analysis(_Block):
    """The comparison this sweep was made for, frozen at its first launch."""

    metric: str = "test/accuracy"
    goal: Literal["max", "min"] = "max"
    baseline: dict[str, Scalar] = {}
    arm: str | None = None
    column: str | None = None
    primary: When = {}
    step: Annotated[int, Field(ge=1)] | dict[str, Annotated[int, Field(ge=1)]] | None = None
    test: Literal["nested_t", "dunnett", "welch", "paired_t"] = "nested_t"
    correction: Literal["none", "bonferroni", "sidak", "holm", "hommel", "bh", "by", "dunnett"] = "holm"
    sigma: Annotated[str, Field(pattern=r"^(auto|own|pooled|baseline|known:[0-9.eE+-]+)$")] = "pooled"
    family: Literal["matrix"] = "matrix"
    margin: Annotated[float, Field(gt=0)] | None = None
    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.05
    looks: tuple[Annotated[float, Field(gt=0, le=1)], ...] = Field(default=(1.0,), min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _spelled_out(cls, value: Any) -> Any:
        looks = value.get("looks") if isinstance(value, dict) else None
        if isinstance(looks, int) and not isinstance(looks, bool) and looks >= 1:
            value = {**value, "looks": [k / looks for k in range(1, looks + 1)]}
        return value

    @model_validator(mode="after")
    def _one_rule(self) -> Self:
        for test, name, value in (("dunnett", "correction", "dunnett"), ("welch", "sigma", "own")):
            if self.test == test and name in self.model_fields_set and getattr(self, name) != value:
                raise ValueError(f"test: {test} means {name}: {value}, not {getattr(self, name)}; drop one of the two")
        return self

    def planned(self) -> dict[str, Any]:
        """The block as a plan keeps it: every value, and under ``written`` the keys that the file names itself."""
        return self.model_dump(mode="json") | {"written": sorted(self.model_fields_set)}

    @model_validator(mode="after")
    def _to_the_end(self) -> Self:
        if list(self.looks) != sorted(set(self.looks)) or self.looks[-1] != 1.0:
            raise ValueError("looks are rising shares of all runs that end with 1, or their number")
        return self


class Pilot(_Block):
    """Where ``values.<name>`` comes from: another sweep's results, by a written rule. Nothing is trained before that.

    The rule gives an entry a level of the pilot's factor ``column``, chosen from the levels of its factor ``factor``.
    """

    sweep: Annotated[str, Field(min_length=1)]
    overrides: tuple[str, ...] = ()
    rule: Literal["rates"] = "rates"
    column: Name = "task"
    factor: Name = "lr"
    clip: tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]] = (150, 3000)
    rounds: Annotated[int, Field(ge=0, le=10)] = 2
    size: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")] = "full"

    @model_validator(mode="after")
    def _rising(self) -> Self:
        if self.clip[0] > self.clip[1]:
            raise ValueError("clip is the smallest and the largest T")
        return self


class SweepFile(_Block):
    """A whole file, after includes, preset, overrides and interpolation."""

    name: Annotated[str, Field(pattern=SWEEP_NAME)]
    description: str = ""
    values: Config = {}
    pilots: Annotated[dict[Name, Pilot | None], BeforeValidator(_or_empty)] = {}
    config: Config = {}
    factors: Annotated[dict[Name, Factor], BeforeValidator(_or_empty)] = {}
    zip: tuple[tuple[str, ...], ...] = ()
    only: When = {}
    seeds: Seeds = Seeds()
    runner: str | None = None
    stages: Annotated[dict[Name, Stage], BeforeValidator(_or_empty)] = {}
    exclude: Annotated[tuple[Exclusion, ...], BeforeValidator(_or_none)] = ()
    cells: Annotated[tuple[CellRule, ...], BeforeValidator(_or_none)] = ()
    pack: Pack = Pack()
    resources: Resources = Resources()
    execution: Execution = Execution()
    analysis: Analysis = Analysis()
    max_in_flight: Annotated[int, Field(ge=1)] | None = None
    tags: Annotated[dict[str, str], BeforeValidator(_or_empty)] = {}
    notices: Annotated[dict[str, str | None], BeforeValidator(_or_empty)] = {}

    @model_validator(mode="after")
    def _runs(self) -> Self:
        if (self.runner is None) == (not self.stages):
            raise ValueError("a sweep has either `runner` or `stages`; one of the two says who carries out its runs")
        return self

    def all_stages(self) -> dict[str, Stage]:
        """``runner: x`` is short for one stage ``x`` over all factors."""
        return {self.runner: Stage(runner=self.runner)} if self.runner is not None else self.stages
