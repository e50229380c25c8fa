"""What a transfer matrix says beyond its cells: specificity, shape or gain, seeds, speed, the best fixed one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import orjson

from dashboards.queries import Comparison
from dashboards.series import Line, read_lines
from sweeps.analysis.linear import Linear, closed, contrast
from sweeps.analysis.results import Result, at_chance
from sweeps.analysis.seed_spread import SeedSpread, seed_spreads
from sweeps.analysis.specificity import Index, Specific, specificity, specificity_index
from sweeps.analysis.steps_to_accuracy import Reached, Speed, reached, speed
from sweeps.layout import column_name, in_slice, row_name, search_of
from sweeps.scores import results_of
from sweeps.tables import Columns

GAIN, RANDOM = "scaled_gelu", "random_spline"
"""The controls that separate shape from gain: a GeLU with searched a and b, and any spline of equal second moment."""


@dataclass(frozen=True)
class BestFixed:
    """The fixed activation that is best on validation data, and how the learned one compares with it on test data.

    Attributes:
        column: where.
        chosen: the fixed arm with the largest mean on validation data; None with a reason.
        against: learned for the column less the chosen one, on test data, Holm over columns x candidates.
        over_baseline: the chosen one less the baseline, on test data, as in the matrix.
        reason: why none was chosen.
    """

    column: str
    chosen: str | None
    against: Linear | None = None
    over_baseline: Linear | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Additions:
    """Everything below the matrix; shares, not percentage points."""

    specific: tuple[Specific, ...]
    index: Index
    shape: Mapping[str, tuple[Linear, ...]]
    spreads: tuple[SeedSpread, ...]
    speeds: tuple[Speed, ...]
    fixed: tuple[BestFixed, ...]
    means: Mapping[tuple[str, str], float]


def additions(root: Path, sweep: str, runs: Columns, comparison: Comparison) -> Additions | None:
    """All of it for a transfer matrix of shares; None for another comparison."""
    if not comparison.is_transfer or comparison.primary.unit != "pp":
        return None
    columns = [c.name for c in comparison.columns]
    chance = {c.name: c.levels.chance for c in comparison.columns if c.levels.chance is not None}
    ceiling = {c.name: c.levels.ceiling for c in comparison.columns}
    alpha, baseline = comparison.primary.matrix.alpha, comparison.layout.baseline
    results = [at_chance(r, chance.get(r.task)) for r in comparison.results]
    own = [c for c in columns if c in comparison.rows]
    specific = specificity(results, comparison.rows, columns, alpha)
    against = {arm: [(c, {c: 1.0, arm: -1.0}) for c in own] for arm in (GAIN, RANDOM) if arm in comparison.controls}
    asked = [(arm, contrast(arm, c, w, results, alpha)) for arm, pairs in against.items() for c, w in pairs]
    decided = closed([c for _, c in asked], alpha)
    return Additions(
        specific=tuple(specific),
        index=specificity_index(specific, chance, ceiling, alpha),
        shape={arm: tuple(d for (a, _), d in zip(asked, decided, strict=True) if a == arm) for arm in against},
        spreads=tuple(seed_spreads(results, baseline, [(c, c) for c in own], alpha)),
        speeds=tuple(_speeds(root, sweep, runs, comparison, own)),
        fixed=tuple(_best_fixed(runs, comparison, results, own, alpha)),
        means=_means(results),
    )


def _means(results: Sequence[Result]) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], list[float]] = {}
    for r in results:
        if r.value is not None:
            found.setdefault((r.arm, r.task), []).append(r.value)
    return {key: math.fsum(values) / len(values) for key, values in found.items()}


def _speeds(root: Path, sweep: str, runs: Columns, comparison: Comparison, own: Sequence[str]) -> list[Speed]:
    """Steps until the baseline's own mean of the primary metric, from the curves."""
    layout = comparison.layout
    split, _, name = str(comparison.primary.metric).partition("@")[0].partition("/")
    wanted: dict[str, tuple[str, str]] = {}
    search: dict[str, int | None] = {}
    for run, stage, labels in zip(runs.values("run"), runs.values("stage"), runs.values("labels"), strict=True):
        found = orjson.loads(labels)
        arm, column = row_name(layout, found), column_name(layout, found)
        if stage == layout.stage and in_slice(layout, found) and arm is not None and arm in (layout.baseline, column):
            wanted[run], search[run] = (column, arm), search_of(layout, found)
    lines = read_lines(root, sweep, (split, name) if name else ("", split), wanted)
    target = {c.name: c.noise.baseline for c in comparison.columns}
    return [_speed(lines, search, column, layout.baseline, target.get(column)) for column in own]


def _speed(
    lines: Sequence[tuple[str, Line]],
    search: Mapping[str, int | None],
    column: str,
    baseline: str,
    target: float | None,
) -> Speed:
    ours: dict[int | None, list[Reached]] = {}
    theirs: list[Reached] = []
    for where, line in lines:
        if where != column or target is None:
            continue
        found = reached(line.steps, line.values, target)
        if found is None:
            continue
        if line.arm == baseline:
            theirs.append(found)
        else:
            ours.setdefault(search[line.run], []).append(found)
    return speed(column, column, target, ours, theirs)


def _best_fixed(
    runs: Columns, comparison: Comparison, results: Sequence[Result], own: Sequence[str], alpha: float
) -> list[BestFixed]:
    """Chosen by the validation counterpart of the test metric; the searched and random arms are no candidates.

    A run that was lucky is so on both splits, so that held-out data of the same runs do not undo the choice: all
    candidates are counted in the family, and a gain over the baseline is decided only where the matrix decides it.
    """
    layout = comparison.layout
    candidates = [layout.baseline, *(a for a in comparison.controls if a not in (GAIN, RANDOM))]
    metric = _validation(comparison.primary.metric, runs.metrics)
    if metric is None:
        return []
    held_out = _means([r for r in results_of(runs, metric, layout) if r.arm in candidates])
    chosen: dict[str, str | None] = {}
    for column in own:
        known = {arm: held_out[arm, column] for arm in candidates if (arm, column) in held_out}
        chosen[column] = max(known, key=lambda arm: (known[arm], arm), default=None)
    pairs = [(c, arm) for c, arm in chosen.items() if arm is not None]
    passed = [Linear("passed over", c) for c, _ in pairs for _ in candidates[1:]]
    asked = [contrast(arm, c, {c: 1.0, arm: -1.0}, results, alpha) for c, arm in pairs]
    against = closed([*asked, *passed], alpha)[: len(asked)]
    others = [(c, arm) for c, arm in pairs if arm != layout.baseline]
    over = closed([contrast(arm, c, {arm: 1.0, layout.baseline: -1.0}, results, alpha) for c, arm in others], alpha)
    by_column = {c.column: c for c in against}
    gains = {c.column: as_the_matrix(c, comparison) for c in over}
    return [
        BestFixed(c, arm, by_column.get(c), gains.get(c), None if arm else f"no {metric} of a fixed activation yet")
        for c, arm in chosen.items()
    ]


def as_the_matrix(gain: Linear, comparison: Comparison) -> Linear:
    """A fixed activation's gain over the baseline, decided only where its cell is."""
    cell = comparison.primary.matrix.cell(gain.name, gain.column)
    return (
        gain
        if cell.decided or not gain.decided
        else replace(gain, verdict="undecided", reason="undecided in the matrix")
    )


def _validation(metric: str, known: Sequence[str]) -> str | None:
    """``test/accuracy@T`` -> ``validation/accuracy@T`` where runs recorded it, or the same at their end."""
    split, _, rest = metric.partition("/")
    if split != "test":
        return None
    base = rest.partition("@")[0]
    wanted = (f"validation/{rest}", f"validation/{base}@T", f"validation/{base}@final", f"validation/{base}")
    return next((name for name in wanted if name in known), None)


def in_points(found: Linear) -> Linear:
    """A contrast of shares in percentage points."""
    names = ("value", "low", "high", "standard_error")
    scaled = {n: None if (v := getattr(found, n)) is None else 100 * v for n in names}
    return replace(found, **scaled)
