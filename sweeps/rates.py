"""The written rule that chooses a task's learning rate and its fixed step T from a pilot. Validation data only.

Rate: the largest of the grid whose median final validation loss over the pilot's seeds is within 10 % of the best
median, and at which no seed diverged. Where it is the largest or smallest of the grid (or a seed diverged at every
rate), the grid is continued on the 1-2-5 ladder by a decade, for that task alone, and the rule applied to all of it: an
edge says only that the answer lies further out.

T: the first evaluation at which the baseline's mean validation accuracy, at that rate, passes halfway between chance
and its final value, rounded up to an even step and clipped. Runs are full length: a rate that is best early is
not chosen for it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from jobs import runners
from sweeps.errors import SweepError

LADDER = (1, 2, 5)
"""Mantissas of the rates that a grid is continued with."""

WITHIN = 0.10
"""A median loss up to this much above the best counts as good as the best."""

LOSS, ACCURACY = "validation/loss", "validation/accuracy"


@dataclass(frozen=True)
class TaskRate:
    """What the rule chose for one task, and on what grounds.

    Attributes:
        lr: learning rate.
        T: fixed step at which architectures are compared.
        steps: length of the study's runs, a quarter more than 2T.
        loss, best_loss: median final validation loss at ``lr``, and the smallest of any rate.
        final_accuracy: mean validation accuracy at ``lr`` after the last step.
        chance: accuracy without learning.
        edge: "largest" or "smallest" where ``lr`` is that of the grid, else None.
        diverged: rates at which a seed diverged.
        seeds: pilot seeds behind each rate.
    """

    task: str
    lr: float
    T: int
    steps: int
    loss: float
    best_loss: float
    final_accuracy: float
    chance: float
    edge: str | None
    diverged: tuple[float, ...]
    seeds: tuple[int, ...]

    @property
    def learned(self) -> bool:
        """The baseline ends clearly above chance, so that T means something."""
        return self.final_accuracy > self.chance + 0.1 * (1 - self.chance)


def choose(
    rows: Iterable[Mapping[str, Any]],
    chance: Mapping[str, float],
    *,
    clip: tuple[int, int] = (150, 3000),
    study_seeds: Sequence[int] = (),
) -> list[TaskRate]:
    """Apply the rule.

    Args:
        rows: evaluations of finished pilot runs of the baseline: task, lr, seed, step, ``validation/loss``,
            ``validation/accuracy``, diverged (of the whole run).
        chance: accuracy without learning, by task.
        clip: smallest and largest T.
        study_seeds: seeds of the study; a pilot that used one of them is refused.

    Returns:
        One choice a task, in the order in which tasks appear.

    Raises:
        SweepError: a task without chance, rates with different seeds, no rate without a diverged seed, shared seeds.
    """
    grouped = _grouped(rows)
    if not grouped:
        raise SweepError("there are no pilot runs to choose from; run `orchestrate sweep pilot.yaml` first")
    used = {seed for by_rate in grouped.values() for seeds in by_rate.values() for seed in seeds}
    if shared := sorted(used & set(study_seeds)):
        raise SweepError(f"seeds {shared} of the pilot are seeds of the study too; choose others for the pilot")
    if missing := [task for task in grouped if task not in chance]:
        raise SweepError(f"no chance level is known for {', '.join(missing)}")
    return [_choose(task, by_rate, chance[task], clip) for task, by_rate in grouped.items()]


def extensions(rows: Iterable[Mapping[str, Any]]) -> dict[str, tuple[float, ...]]:
    """Rates to try next, by task: a decade of the ladder beyond the edge that the choice lies at.

    Tasks whose choice lies inside their grid are absent.

    Raises:
        SweepError: rates of a task with different seeds.
    """
    wanted: dict[str, tuple[float, ...]] = {}
    for task, by_rate in _grouped(rows).items():
        lr, _ = _rate(_losses(task, by_rate))
        edge = _edge(lr, sorted(by_rate))
        if edge is not None:
            wanted[task] = ladder(max(by_rate), up=True) if edge == "largest" else ladder(min(by_rate), up=False)
    return wanted


def ladder(rate: float, *, up: bool, count: int = len(LADDER)) -> tuple[float, ...]:
    """The next ``count`` rates of the 1-2-5 ladder beyond ``rate``, in rising order.

    >>> ladder(0.1, up=True)
    (0.2, 0.5, 1.0)
    """
    decade = math.floor(math.log10(rate))
    # Written as text and read back, so that a rate is the number its author would type.
    rungs = [float(f"{m}e{exponent}") for exponent in range(decade - count, decade + count + 2) for m in LADDER]
    beyond = [rung for rung in rungs if (rung > rate * (1 + 1e-9) if up else rung < rate * (1 - 1e-9))]
    return tuple(beyond[:count] if up else beyond[-count:])


def assumed(rates: Sequence[float], clip: tuple[int, int]) -> dict[str, Any]:
    """What an entry is taken to be while no pilot has chosen it, for prices only: T at its upper limit, so that no run
    gets longer, and the middle of the grid."""
    return _entry(sorted(rates)[len(rates) // 2], clip[1] + clip[1] % 2)


def chance_of(runner: str, config: Mapping[str, Any]) -> float | None:
    """Accuracy without learning, as the task of a config knows it; None where it knows none."""
    typed = runners.validate_config(runner, config)
    level = getattr(getattr(typed, "task", typed), "chance", None)
    return None if level is None else float(level)


ByRate = dict[float, dict[int, list[Mapping[str, Any]]]]
"""Rate -> seed -> evaluations."""


def _grouped(rows: Iterable[Mapping[str, Any]]) -> dict[str, ByRate]:
    grouped: dict[str, ByRate] = {}
    for row in rows:
        by_rate = grouped.setdefault(row["task"], defaultdict(lambda: defaultdict(list)))
        by_rate[float(row["lr"])][int(row["seed"])].append(row)
    return grouped


def _losses(task: str, by_rate: ByRate) -> dict[float, float]:
    """Median final loss of each rate at which no seed diverged."""
    if len({tuple(sorted(by_seed)) for by_seed in by_rate.values()}) > 1:
        raise SweepError(f"{task}: its rates have different seeds, so the pilot is not finished; run it to its end")
    return {
        lr: median(_last(rows)[LOSS] for rows in by_rate[lr].values())
        for lr in sorted(by_rate)
        if not any(_diverged(rows) for rows in by_rate[lr].values())
    }


def _rate(losses: Mapping[float, float]) -> tuple[float | None, float]:
    """(the rate that the rule chooses, the best loss); None where a seed diverged at every rate."""
    if not losses:
        return None, math.inf
    best = min(losses.values())
    return max(rate for rate, loss in losses.items() if loss <= best * (1 + WITHIN)), best


def _choose(task: str, by_rate: ByRate, chance: float, clip: tuple[int, int]) -> TaskRate:
    losses = _losses(task, by_rate)
    lr, best = _rate(losses)
    if lr is None:
        grid = ", ".join(f"{rate:g}" for rate in sorted(by_rate))
        raise SweepError(f"{task}: a seed diverged at every rate ({grid}); try smaller ones, or leave it out (`only`)")
    curve = _mean_curve(by_rate[lr])
    fixed = _fixed_step(curve, chance, clip)
    return TaskRate(
        task=task,
        **_entry(lr, fixed),
        loss=losses[lr],
        best_loss=best,
        final_accuracy=curve[max(curve)],
        chance=chance,
        edge=_edge(lr, sorted(by_rate)),
        diverged=tuple(rate for rate in sorted(by_rate) if rate not in losses),
        seeds=tuple(sorted(by_rate[lr])),
    )


def _entry(lr: float, fixed: int) -> dict[str, Any]:
    return {"lr": lr, "T": fixed, "steps": 2 * fixed + fixed // 2}


def _edge(lr: float | None, grid: Sequence[float]) -> str | None:
    if lr == grid[-1]:
        return "largest"
    return "smallest" if lr is None or lr == grid[0] else None


def _fixed_step(curve: Mapping[int, float], chance: float, clip: tuple[int, int]) -> int:
    halfway = (chance + curve[max(curve)]) / 2
    step = next(step for step in sorted(curve) if curve[step] >= halfway or step == max(curve))
    low, high = clip
    clipped = min(max(step, low), high)
    return clipped + clipped % 2  # T/2 is a step too


def _mean_curve(by_seed: Mapping[int, list[Mapping[str, Any]]]) -> dict[int, float]:
    """Step -> mean accuracy, at the steps that every seed has."""
    curves = [{int(row["step"]): float(row[ACCURACY]) for row in rows} for rows in by_seed.values()]
    steps = set.intersection(*(set(curve) for curve in curves))
    return {step: fmean(curve[step] for curve in curves) for step in sorted(steps)}


def _last(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return max(rows, key=lambda row: row["step"])


def _diverged(rows: Sequence[Mapping[str, Any]]) -> bool:
    return any(row.get("diverged") for row in rows) or not math.isfinite(_last(rows)[LOSS])
