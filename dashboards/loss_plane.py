"""Loss beside downstream: every arm's place, what its loss predicts, and where a loss alone would have misled."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dashboards.evidence import Evidence, Loss
from dashboards.verdicts import Verdicts, verdicts_of
from sweeps.analysis import student
from sweeps.analysis.decoupling import (
    ATTENTION_OUTPUT,
    LOSS_MASK,
    Decoupled,
    Point,
    chance_corrected,
    compute_lost,
    decoupling,
    kendall_by_kind,
    loss_only_warning,
    slope,
)
from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.verdict import Verdict


@dataclass(frozen=True)
class Placed:
    """One arm with a loss.

    Attributes:
        verdict: downstream, None where the arm has no value there.
        kind: class of the change.
        loss: relative loss; ``early`` the same below position 128, None where not given.
        compute: share of compute that such a loss stands for.
        found: its decoupling index, None without a downstream value or a slope.
        corrected: (A - c) / (1 - c) less the baseline's, None where chance is not known.
        warning: why a verdict must not rest on its loss, or None.
    """

    arm: str
    kind: str
    verdict: Verdict | None
    loss: Loss
    early: Loss | None
    compute: float
    found: Decoupled | None
    corrected: float | None
    warning: str | None

    @property
    def masked(self) -> bool:
        """A loss that looks harmless and a metric that is decided as worse."""
        return self.verdict is not None and self.verdict.verdict == "worse" and self.loss.percent <= LOSS_MASK

    @property
    def masked_by_t(self) -> bool:
        """The same by the arm's own t alone, which decides nothing."""
        return self.found is not None and self.found.masked


@dataclass(frozen=True)
class Plane:
    """All arms of one scale that have a loss.

    Attributes:
        placed: by index, most decoupled first.
        beta: metric lost by a percent of loss, None with ``no_slope``.
        fitted: arms the slope is from.
        critical: t beyond which a metric counts as fallen, two-sided at alpha.
        sigma_loss: standard error of a relative loss, percent; 0 where nobody gave one.
        floor: difference at which the metric is at chance, None where that is not known.
        kendall: class -> tau of (-loss, metric), its p, arms.
        without_loss: arms with a downstream value and no loss.
        verdicts: of the metric.
    """

    placed: tuple[Placed, ...]
    beta: float | None
    no_slope: str | None
    fitted: tuple[str, ...]
    critical: float
    sigma_loss: float
    floor: float | None
    kendall: dict[str, tuple[float, float, int]]
    without_loss: tuple[str, ...]
    verdicts: Verdicts

    @property
    def indexed(self) -> list[Placed]:
        """Arms whose index can differ from 0: an arm that sets the slope alone lies on it by construction."""
        return [p for p in self.placed if p.found is not None and self.fitted != (p.arm,)]


def loss_plane(evidence: Evidence, scale: str | None) -> Plane:
    """Place every arm of one scale.

    Raises:
        AnalysisError: no losses, or a metric that cannot be judged.
    """
    if not evidence.losses:
        raise AnalysisError(
            f"{evidence.name} has no held-out losses: give a column of them (--loss-column), or loss_percent"
        )
    if evidence.options.lower_is_better:
        raise AnalysisError(f"{evidence.metric}: less is better; decoupling needs a downstream metric, more is better")
    here = evidence.at(scale)
    verdicts = verdicts_of(here)
    by_arm = {j.verdict.arm: j.verdict for j in verdicts.judged}
    arms = [arm for arm in here.arms if (arm, scale) in evidence.losses]
    points = [_point(evidence, arm, scale, by_arm[arm]) for arm in arms if _has_value(by_arm.get(arm))]
    errors = [loss.error for (arm, at), loss in evidence.losses.items() if loss.error is not None and at == scale]
    sigma_loss = sorted(errors)[len(errors) // 2] if errors else 0.0
    sigma, no_slope, beta = verdicts.sigma or verdicts.band or 0.0, None, None
    dfs = [v.df for v in by_arm.values() if v.df is not None]
    critical = student.critical(evidence.options.alpha / 2, min(dfs)) if dfs else 2.0
    found: dict[str, Decoupled] = {}
    try:
        beta = slope(points)
        indices = decoupling(points, sigma_accuracy=sigma, sigma_loss=sigma_loss,
                             n_baseline=max(1, verdicts.n_baseline), beta=beta, critical=critical)  # fmt: skip
        found = {d.point.arm: d for d in indices}
    except AnalysisError as error:
        no_slope = str(error)
    placed = [_placed(evidence, arm, scale, by_arm.get(arm), found.get(arm)) for arm in arms]
    placed.sort(key=lambda p: (p.found is None, p.found.index if p.found else 0.0, p.arm))
    chance = evidence.overall_chance
    return Plane(
        placed=tuple(placed),
        beta=beta,
        no_slope=no_slope,
        fitted=tuple(p.arm for p in points if p.kind != ATTENTION_OUTPUT and p.loss != 0),
        critical=critical,
        sigma_loss=sigma_loss,
        floor=None if chance is None or verdicts.baseline is None else chance - verdicts.baseline,
        kendall=kendall_by_kind(points),
        without_loss=tuple(arm for arm in here.arms if arm not in arms),
        verdicts=verdicts,
    )


@dataclass(frozen=True)
class OnTask:
    """The plane of one task, or why there is none."""

    task: str
    plane: Plane | None
    reason: str | None = None


def task_planes(evidence: Evidence, scale: str | None) -> list[OnTask]:
    """The same task by task, where there are several; each has its own slope."""
    tasks = evidence.at(scale).tasks
    made = []
    for task in tasks if len(tasks) > 1 else ():
        try:
            made.append(OnTask(task, loss_plane(evidence.of_task(task), scale)))
        except AnalysisError as error:
            made.append(OnTask(task, None, str(error)))
    return made


def _point(evidence: Evidence, arm: str, scale: str | None, verdict: Verdict) -> Point:
    kind, loss = evidence.classes.get(arm, "not given"), evidence.losses[arm, scale].percent
    return Point(arm, kind, loss, verdict.difference or 0.0, max(1, verdict.n), verdict.statistic)


def _placed(
    evidence: Evidence, arm: str, scale: str | None, verdict: Verdict | None, found: Decoupled | None
) -> Placed:
    loss, kind = evidence.losses[arm, scale], evidence.classes.get(arm, "not given")
    chance, corrected, warning = evidence.overall_chance, None, None
    if verdict is not None and verdict.difference is not None and verdict.mean is not None and chance is not None:
        base = verdict.mean - verdict.difference
        corrected = chance_corrected(verdict.mean, chance) - chance_corrected(base, chance)
    if "loss" in evidence.metric or not _has_value(verdict):
        warning = loss_only_warning(Point(arm, kind, loss.percent, 0.0))
    return Placed(
        arm=arm,
        kind=kind,
        verdict=verdict,
        loss=loss,
        early=evidence.early.get((arm, scale)),
        compute=compute_lost(loss.percent) if loss.percent > -100 else math.nan,
        found=found,
        corrected=corrected,
        warning=warning,
    )


def _has_value(verdict: Verdict | None) -> bool:
    return verdict is not None and verdict.difference is not None
