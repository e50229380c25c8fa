"""One measured value, and the checks every method makes before it averages anything."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from sweeps.analysis.errors import AnalysisError

NOT_PLANNED = "not planned"
FINAL = ("failed", "killed", "diverged", "non-finite", "cancelled", "no row")
"""How the reasons begin of runs that have ended without a value, and of those that a table leaves out."""
NO_CHANCE = " (no chance level to count it at)"


@dataclass(frozen=True)
class Result:
    """What one run scored on one task, or why it did not.

    Attributes:
        arm: what is compared: the task an activation was learned for, or a control such as ``gelu``.
        task: the column: what was trained or evaluated on.
        seed: the run's seed; equal numbers may or may not mean equal data order (see each method).
        search: the search seed the arm's shape came from, stage II seeds being nested in it; None for an
            arm that was not searched for.
        value: the metric, or None when there is none.
        reason: why there is no value ("failed: nan at step 40", "running", "not planned").
        diverged: the run diverged; it counts at chance where a chance level is known.
        scale: the size at which it ran, where the sweep has several.
        item: the test item or item group, where values are kept that finely.
    """

    arm: str
    task: str
    seed: int
    search: int | None = None
    value: float | None = None
    reason: str | None = None
    diverged: bool = False
    scale: str | None = None
    item: str | None = None


def checked(results: Iterable[Result]) -> tuple[Result, ...]:
    """Carry non-finite values as reasons and refuse duplicates; the order is kept.

    Raises:
        AnalysisError: two results share arm, task, search, seed, scale and item.
    """
    clean = tuple(_with_reason(result) for result in results)
    counts = Counter((r.arm, r.task, r.search, r.seed, r.scale, r.item) for r in clean)
    doubled = [key for key, count in counts.items() if count > 1]
    if doubled:
        arm, task, search, seed, scale, item = doubled[0]
        where = f"arm {arm!r}, task {task!r}"
        where += "" if search is None else f", search {search}"
        where += f", seed {seed}"
        where += "" if scale is None else f", scale {scale!r}"
        where += "" if item is None else f", item {item!r}"
        raise AnalysisError(
            f"duplicate results: {counts[doubled[0]]} rows for {where}"
            + (f" (and {len(doubled) - 1} more such keys)" if len(doubled) > 1 else "")
            + "; keep one row per run: the seeds of a comparison must be independent"
        )
    return clean


def one_scale(results: Sequence[Result]) -> None:
    """Refuse results of several scales where a method compares at one.

    Raises:
        AnalysisError: more than one scale, or items that were not aggregated.
    """
    scales = sorted({str(r.scale) for r in results})
    if len(scales) > 1:
        raise AnalysisError(f"results mix the scales {', '.join(scales)}; select one scale and compare within it")
    items = {r.item for r in results} - {None}
    if items:
        raise AnalysisError(
            f"results hold single items (such as {min(map(str, items))!r}); aggregate them to one value per run"
        )


def without_value(results: Iterable[Result]) -> str:
    """Words for the runs that gave no value: ``2 running, 1 failed: nan at step 40``; empty if none."""
    reasons = Counter(r.reason or "no reason given" for r in results if r.value is None)
    return ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))


def by_search(found: Iterable[Result]) -> dict[int | None, dict[int, float]]:
    """Search -> seed -> value, of the results that have one, in a fixed order."""
    having = [(r.search, r.seed, r.value) for r in found if r.value is not None]
    having.sort(key=lambda r: (r[0] is not None, r[0] or 0, r[1]))
    return {s: {seed: value for _, seed, value in group} for s, group in groupby(having, key=lambda r: r[0])}


def at_chance(result: Result, chance: float | None) -> Result:
    """A diverged run counts at chance; where chance is not known it has a reason and no value.

    What it scored before it fell is not what a run that came to its end scored.
    """
    if not result.diverged:
        return result
    if chance is not None:
        return replace(result, value=chance)
    fell = None if result.value is None else f"at {result.value:.4g} when it fell"
    why = ", ".join(part for part in (result.reason, fell) if part) or "diverged"
    return replace(result, value=None, reason=why if why.endswith(NO_CHANCE) else why + NO_CHANCE)


def is_planned(result: Result) -> bool:
    """Whether the run belongs to the design (a pair that was skipped does not make it incomplete)."""
    return result.value is not None or result.diverged or not (result.reason or "").startswith(NOT_PLANNED)


def is_final(result: Result) -> bool:
    """Whether waiting will bring no value: a run that failed or diverged, not one that is still to come."""
    return result.diverged or (result.reason or "").startswith(FINAL)


def _with_reason(result: Result) -> Result:
    if result.value is None:
        return result if result.reason else replace(result, reason="no value and no reason recorded")
    if not math.isfinite(result.value):
        return replace(result, value=None, reason=result.reason or f"non-finite value ({result.value})")
    return result
