"""What may stand under ``config:`` of a toy run: a torch-free trainer for tests of everything around training."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from jobs.runners import RunShape

Step = Annotated[int, Field(ge=0)]


class Faults(BaseModel):
    """Switches that break a toy run. They come from the config, or from ``launch.settings["toy"]`` (not in identity).

    Steps count from 1: a fault "at 3" strikes while the third step is done.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    attempts: tuple[int, ...] | None = None
    """Attempts in which the faults fire; None: in every one."""
    ranks: tuple[int, ...] | None = None
    """Processes in which the faults fire; None: in every one."""
    nan_at: Step | None = None
    """The loss becomes NaN: the member diverges, the others go on."""
    oom_at: Step | None = None
    """MemoryError."""
    gpu_oom_at: Step | None = None
    """The error that PyTorch raises when a GPU's memory is full."""
    hang_at: Step | None = None
    hold: str = ""
    """Path: while this file is there nothing goes on beyond step ``hold_at``; signals are heard, checkpoints made."""
    hold_at: Step = 0
    error_at: Step | None = None
    """An ordinary exception."""
    full_disk_at: Step | None = None
    """OSError ENOSPC."""
    exit_at: Step | None = None
    exit_code: int = 1
    """``os._exit`` with this code at ``exit_at``: no handler, no closing."""
    signal_at: Step | None = None
    signal: int = 9
    """The process sends itself this signal at ``signal_at``."""
    die_in_save: Step | None = None
    """SIGKILL in the middle of the save at this step (the first save at or after it)."""
    die_before_finish: bool = False
    """SIGKILL between the last save and the ``finished`` facts."""
    save_seconds: float = 0.0
    ignore_signals: bool = False
    """TERM, INT and USR2 are ignored, as by a trainer that never looks."""
    children: int = 0
    """So many child processes that ignore TERM and outlive the worker (at most 60 s)."""
    log_mb: float = 0.0
    cr_progress: bool = False
    """A progress bar that never ends its line."""
    not_utf8: bool = False
    """Bytes in the log that are no text."""
    jump_after_resume: float = 0.0
    """Added to the loss after a resume."""


class ToyConfig(BaseModel):
    """A pretended training: ``test/accuracy`` rises to ``level`` over ``steps`` with noise, from (seed, step) alone."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    steps: Step = 10
    step_seconds: Annotated[float, Field(ge=0)] = 0.0
    """Slept once a step for the whole pack."""
    level: float = 0.8
    noise: Annotated[float, Field(ge=0)] = 0.05
    metric_every: Annotated[int, Field(ge=1)] = 1
    checkpoint_bytes: Step = 0
    """Ballast in each checkpoint."""
    lr: Annotated[float, Field(gt=0)] | None = None
    """A rate makes it fit to be a pilot: the run also tells validation metrics, whose loss is least at ``best_lr``."""
    best_lr: Annotated[float, Field(gt=0)] = 1e-3
    chance: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Accuracy without learning."""
    stack: str = ""
    """Part of the stack key: runs of different ``stack`` never share a pack."""
    products: tuple[str, ...] = ()
    consumes: tuple[str, ...] = ()
    layout: Literal["whole", "sums", "sharded"] = "whole"
    """What its checkpoints say of the number of processes that wrote them; in truth a toy's are always whole."""
    note: str = ""
    """Decides nothing; tells arms of a sweep apart."""
    faults: Faults = Faults()


def describe(config: ToyConfig) -> RunShape:
    """The shape of a toy run."""
    return RunShape(
        stack_key=f"toy-{config.stack}",
        parameters=1,
        flops_per_step=1.0,
        steps=config.steps,
        checkpoint_bytes=config.checkpoint_bytes + 200,
        products=config.products,
        consumes=config.consumes,
    )


def metrics(config: ToyConfig) -> frozenset[str]:
    """Names of all values that a toy run leaves."""
    names = {"train/loss", "test/accuracy", "digest"}
    return frozenset(names | ({"validation/loss", "validation/accuracy"} if config.lr is not None else set()))
