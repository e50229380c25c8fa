"""What a report is made from: results run by run, or only means, with what is known beside them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.macro import macro
from sweeps.analysis.options import Options
from sweeps.analysis.results import Result, at_chance, checked
from sweeps.analysis.summaries import Summary

Key = tuple[str, str | None]
"""An arm at a scale."""


@dataclass(frozen=True)
class Loss:
    """A relative change of a loss against the baseline's, percent, with its standard error (None: not known)."""

    percent: float
    error: float | None


@dataclass(frozen=True)
class Trace:
    """Gradient norms of one run of an arm; where it became non-finite the norm is NaN."""

    arm: str
    steps: tuple[int, ...]
    norms: tuple[float, ...]
    seed: int | None = None
    published: bool = False
    scale: str | None = None


@dataclass(frozen=True)
class Conduct:
    """How the study was carried out, as far as is known; None where nobody said (rules R1 to R12 read it).

    Attributes:
        codebases: unrelated codebases in which the changes were tried.
        fixed_rates: whether hyper-parameters were the same for all arms.
        other_rates: whether some arm ran at another rate as well.
        declared: whether family, alpha and metric were frozen before the first launch; ``departures`` from that.
        parity: whether the evaluation's loss was checked against the trainer's.
        one_path: whether the trainer itself evaluates, by its own forward pass, so that there are no two to disagree.
        omitted: whether omitted details of the published methods are named; ``left_out``: combinations that the plan
            leaves out, with their reasons.
        rescued: arms that diverged and were tried again at a smaller rate.
    """

    codebases: int | None = None
    fixed_rates: bool | None = None
    other_rates: bool | None = None
    declared: bool | None = None
    departures: tuple[str, ...] = ()
    parity: bool | None = None
    one_path: bool = False
    omitted: bool | None = None
    left_out: tuple[str, ...] = ()
    rescued: tuple[str, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """All that a report is told.

    Attributes:
        name, kicker, remarks: of the sweep or the table.
        metric: what is compared.
        options: how.
        results: one a run and task; empty where only means are known.
        means: one an arm (and scale), the baseline among them; empty where runs are known.
        classes: arm -> class of the change.
        losses: held-out loss by arm and scale; ``task_losses`` the same by task, where they differ; ``early`` the same
            over the first ``early_positions`` positions.
        chance: by task.
        heads: task -> its name for people, where it is a level of another factor (``lr 0.003``).
        traces: gradient norms, by arm.
        ranks: published rank by arm and scale.
        nan_steps: step of the first non-finite value by arm and scale.
        settings: further published facts, by name.
        conduct: how it was done.
        exploratory: departures from a frozen analysis.
    """

    name: str
    metric: str
    options: Options
    kicker: str = ""
    remarks: tuple[str, ...] = ()
    results: tuple[Result, ...] = ()
    means: tuple[Summary, ...] = ()
    classes: Mapping[str, str] = field(default_factory=dict)
    losses: Mapping[Key, Loss] = field(default_factory=dict)
    task_losses: Mapping[str, Mapping[Key, Loss]] = field(default_factory=dict)
    early: Mapping[Key, Loss] = field(default_factory=dict)
    early_positions: str = "128"
    chance: Mapping[str, float] = field(default_factory=dict)
    heads: Mapping[str, str] = field(default_factory=dict)
    traces: tuple[Trace, ...] = ()
    ranks: Mapping[Key, int] = field(default_factory=dict)
    nan_steps: Mapping[Key, int] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    conduct: Conduct = Conduct()
    exploratory: tuple[str, ...] = ()

    @property
    def scales(self) -> list[str | None]:
        """In the order in which they first stand."""
        return list(dict.fromkeys(r.scale for r in (*self.results, *self.means)))

    @property
    def tasks(self) -> list[str]:
        return list(dict.fromkeys(r.task for r in self.results))

    @property
    def arms(self) -> list[str]:
        """All but the baseline."""
        names = dict.fromkeys(r.arm for r in (*self.results, *self.means))
        return [name for name in names if name != self.options.baseline]

    def at(self, scale: str | None) -> Evidence:
        """The same at one scale."""
        return replace(
            self,
            results=tuple(r for r in self.results if r.scale == scale),
            means=tuple(m for m in self.means if m.scale == scale),
        )

    def of_task(self, task: str) -> Evidence:
        """The same on one task, with its own losses where they are known."""
        return replace(
            self,
            results=tuple(r for r in self.results if r.task == task),
            losses=self.task_losses.get(task, self.losses),
        )

    def beside(self, scale: str | None) -> tuple[str, ...]:
        """Words for the scales that a page about one of them leaves out."""
        others = [str(s) for s in self.scales if s != scale]
        return (f"Not on this page: {', '.join(others)} (see --kind scale).",) if others else ()

    def averaged(self) -> list[Result]:
        """One result a run: diverged ones at chance where it is known, tasks averaged."""
        return macro([at_chance(r, self.chance.get(r.task)) for r in checked(self.results)])

    def summary(self, arm: str) -> Summary | None:
        return next((m for m in self.means if m.arm == arm), None)

    @property
    def overall_chance(self) -> float | None:
        """Chance of the mean over tasks, where it is known for all of them."""
        if not self.results:
            return self.chance.get("all")
        known = [self.chance.get(task) for task in self.tasks]
        return None if None in known or not known else math.fsum(c for c in known if c is not None) / len(known)

    @property
    def sigma(self) -> tuple[float, int]:
        """Published sd of one run of the baseline and its degrees of freedom.

        Raises:
            AnalysisError: the baseline's runs, mean or sd were not published.
        """
        base = self.summary(self.options.baseline)
        if base is None or base.sd is None or base.n < 2:
            raise AnalysisError(
                f"{self.name}: the noise of one run is not known; give the baseline's `sd` over two or more `seeds`"
            )
        return base.sd, base.n - 1


def number_setting(settings: Mapping[str, Any], name: str) -> float | None:
    """A published fact as a number; None where the table does not state it."""
    value = settings.get(name)
    try:
        return None if value is None else float(value)
    except ValueError:
        raise AnalysisError(f"the table says {name} = {value!r}; it must be a number") from None
