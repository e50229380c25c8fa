"""Loss against downstream: where does a change hurt accuracy more than its loss says?"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.ranks import kendall

ATTENTION_OUTPUT = "attention output"
LOSS_MASK = 3.0
"""Relative loss increase, percent, up to which a loss looks harmless."""


@dataclass(frozen=True)
class Point:
    """One arm in the plane of loss and downstream.

    Attributes:
        arm: its name.
        kind: class of the change: "attention output", "norm", "residual", "MLP", "position", ...
        loss: x = 100 (L / L_base - 1) on held-out tokens, percent.
        accuracy: y = A - A_base, in the unit of the metric.
        n: runs behind it.
        t: t statistic of ``accuracy``, where there is one.
    """

    arm: str
    kind: str
    loss: float
    accuracy: float
    n: int = 1
    t: float | None = None


@dataclass(frozen=True)
class Decoupled:
    """A point with its index.

    Attributes:
        point: the arm.
        index: D = (y - beta x) / se; below about -2 accuracy falls by more than the loss predicts.
        masked: a loss-masked failure: loss within `LOSS_MASK` percent and t below minus the critical value.
        warning: why a verdict must not rest on the loss, or None.
    """

    point: Point
    index: float
    masked: bool
    warning: str | None


def relative_loss(loss: float, baseline: float) -> float:
    """100 (L / L_base - 1), percent."""
    return 100 * (loss / baseline - 1)


def compute_lost(loss_percent: float, exponent: float = 0.05) -> float:
    """Share of compute a relative loss increase stands for, under L ~ C^-exponent.

    A loss 2.4 % higher is 38 % less compute: "near baseline" hides size.
    """
    return 1 - (1 + loss_percent / 100) ** (-1 / exponent)


def chance_corrected(accuracy: float, chance: float) -> float:
    """(A - c) / (1 - c): 0 at chance, 1 at the ceiling.

    Raises:
        AnalysisError: a chance level outside [0, 1).
    """
    if not 0 <= chance < 1:
        raise AnalysisError(f"chance level {chance} lies outside [0, 1)")
    return (accuracy - chance) / (1 - chance)


def slope(points: Sequence[Point]) -> float:
    """Theil-Sen slope through the origin (the median of y / x) over the arms that do not touch attention output.

    Raises:
        AnalysisError: no such arm whose loss differs from the baseline's.
    """
    ratios = [p.accuracy / p.loss for p in points if p.kind != ATTENTION_OUTPUT and p.loss != 0]
    if not ratios:
        raise AnalysisError(
            f"the loss slope needs arms that are not {ATTENTION_OUTPUT!r} and whose loss differs from the baseline's"
        )
    return float(np.median(ratios))


def decoupling(
    points: Sequence[Point],
    *,
    sigma_accuracy: float,
    sigma_loss: float,
    n_baseline: int,
    beta: float | None = None,
    critical: float = 2.0,
) -> list[Decoupled]:
    """Index of every arm: D = (y - beta x) / sqrt(sigma_A^2 (1/n + 1/n_b) + beta^2 sigma_x^2).

    Args:
        points: the arms.
        sigma_accuracy: seed sd of the metric.
        sigma_loss: standard error of x, percent.
        n_baseline: baseline runs.
        beta: slope, from `slope` where absent.
        critical: |t| that counts as a downstream failure.
    """
    b = slope(points) if beta is None else beta
    found = []
    for p in points:
        error = math.sqrt(sigma_accuracy**2 * (1 / p.n + 1 / n_baseline) + (b * sigma_loss) ** 2)
        if not error > 0:
            raise AnalysisError("the decoupling index needs the noise of accuracy or loss; both are 0")
        masked = p.loss <= LOSS_MASK and p.t is not None and p.t < -critical
        found.append(Decoupled(p, (p.accuracy - b * p.loss) / error, masked, loss_only_warning(p)))
    return found


def loss_only_warning(point: Point) -> str | None:
    """A change of the attention output whose downstream effect was not tested must not be judged by loss."""
    if point.kind == ATTENTION_OUTPUT and point.t is None:
        return f"{point.arm} changes the attention output and is judged by loss alone: evaluate downstream (R6)"
    return None


def kendall_by_kind(points: Sequence[Point]) -> dict[str, tuple[float, float, int]]:
    """Kendall's tau of (-loss, accuracy) per class with at least three arms: tau, p, arms."""
    found = {}
    for kind in sorted({p.kind for p in points}):
        members = [p for p in points if p.kind == kind]
        if len(members) >= 3:
            tau, p_value = kendall([-p.loss for p in members], [p.accuracy for p in members])
            if math.isfinite(tau):
                found[kind] = (tau, p_value, len(members))
    return found
