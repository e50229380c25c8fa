"""The written rule that chooses a task's learning rate and its fixed step T from a pilot. Validation data only.

Rate: the largest of the grid whose median final validation loss over the pilot's seeds is within 10 % of the best
median, and at which no seed diverged. Where it is the largest or smallest of the grid, the grid must be extended and
the pilot run again: an edge says only that the answer lies further out.

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
from sweeps.design import Design
from sweeps.errors import SweepError

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
    grouped: dict[str, dict[float, dict[int, list[Mapping[str, Any]]]]] = {}
    for row in rows:
        by_rate = grouped.setdefault(row["task"], defaultdict(lambda: defaultdict(list)))
        by_rate[float(row["lr"])][int(row["seed"])].append(row)
    if not grouped:
        raise SweepError("there are no pilot runs to choose from; run `orchestrate sweep pilot.yaml` first")
    used = {seed for by_rate in grouped.values() for seeds in by_rate.values() for seed in seeds}
    if shared := sorted(used & set(study_seeds)):
        raise SweepError(f"seeds {shared} of the pilot are seeds of the study too; choose others for the pilot")
    if missing := [task for task in grouped if task not in chance]:
        raise SweepError(f"no chance level is known for {', '.join(missing)}")
    return [_choose(task, by_rate, chance[task], clip) for task, by_rate in grouped.items()]


def chance_levels(design: Design, column: str = "task") -> dict[str, float]:
    """Accuracy without learning of each level of ``column``, as the task in its cells' configs knows it."""
    levels: dict[str, float] = {}
    for cell in design.cells:
        if column in cell.labels and cell.labels[column] not in levels:
            task = getattr(runners.validate_config(cell.runner, cell.config), "task", None)
            if (chance := getattr(task, "chance", None)) is not None:
                levels[cell.labels[column]] = float(chance)
    return levels


def rates_yaml(choices: Sequence[TaskRate], command: str, size: str) -> str:
    """The table as a part that a recipe includes: ``values.rates``, who made it, and what is doubtful about it.

    Args:
        command: what was typed to make it.
        size: what the table is for, in its first line ("mini", "full").
    """
    lines = [
        f"# Learning rate and fixed step T of each task ({size} size), for compat.yaml.",
        f"# Made by: {command}",
        "# Rule: sweeps/rates.py. Pilot seeds only, validation data only.",
        "values:",
        "  rates:",
    ]
    for c in choices:
        lines.append(f"    {c.task}: {{lr: {c.lr!r}, T: {c.T}, steps: {c.steps}}}")
        ground = f"loss {c.loss:.4g}, best {c.best_loss:.4g}; accuracy {c.final_accuracy:.3f}, chance {c.chance:.3f}"
        doubt = [f"the {c.edge} rate of the grid: extend it"] if c.edge else []
        doubt += [] if c.learned else ["hardly above chance: T means little"]
        lines.append(f"    # {'; '.join([ground, *doubt])}")
    lines += ["  rates_source:", f"    made_by: {_quoted(command)}", "    provisional: false", ""]
    edges = [f"{c.task} ({c.edge})" for c in choices if c.edge]
    lines.append("notices:")
    if edges:
        text = f"rates chosen at an edge of the pilot's grid, which should be extended: {', '.join(edges)}"
        lines.append(f"  rates: {_quoted(text)}")
    else:
        lines.append("  rates: null")
    return "\n".join(lines) + "\n"


def _choose(
    task: str, by_rate: Mapping[float, Mapping[int, list[Mapping[str, Any]]]], chance: float, clip: tuple[int, int]
) -> TaskRate:
    grid = sorted(by_rate)
    seeds = {tuple(sorted(by_seed)) for by_seed in by_rate.values()}
    if len(seeds) > 1:
        raise SweepError(f"{task}: its rates have different seeds, so the pilot is not finished; run it to its end")
    diverged = tuple(lr for lr in grid if any(_diverged(rows) for rows in by_rate[lr].values()))
    losses = {lr: median(_last(rows)[LOSS] for rows in by_rate[lr].values()) for lr in grid if lr not in diverged}
    if not losses:
        raise SweepError(f"{task}: a seed diverged at every rate of the grid {grid}; extend it downwards")
    best = min(losses.values())
    lr = max(rate for rate, loss in losses.items() if loss <= best * (1 + WITHIN))
    curve = _mean_curve(by_rate[lr])
    final = curve[max(curve)]
    fixed = _fixed_step(curve, chance, clip)
    return TaskRate(
        task=task,
        lr=lr,
        T=fixed,
        steps=2 * fixed + fixed // 2,
        loss=losses[lr],
        best_loss=best,
        final_accuracy=final,
        chance=chance,
        edge=_edge(lr, grid),
        diverged=diverged,
        seeds=next(iter(seeds)),
    )


def _edge(lr: float, grid: Sequence[float]) -> str | None:
    if lr == grid[-1]:
        return "largest"
    return "smallest" if lr == grid[0] else None


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


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
