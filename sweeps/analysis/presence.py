"""Rows that a table does not have: an arm that was left out of a task, a seed that the other arms have."""

from collections import Counter
from collections.abc import Sequence

from sweeps.analysis.results import Result

ABSENT = "no row in the table"
"""The reason of an arm that has rows elsewhere and none here; it stays in the family."""


def with_absent(results: Sequence[Result]) -> list[Result]:
    """The results, and one without a value for each arm at each task and scale where it has no row.

    An arm that is shown only where it does well must not make the family smaller. Scales are not demanded of
    arms that were never run at them: fewer arms are taken to the larger scale, which is no omission.
    """
    places: dict[str | None, set[str]] = {}
    arms: dict[tuple[str, str | None], None] = {}
    for r in results:
        places.setdefault(r.scale, set()).add(r.task)
        arms[r.arm, r.scale] = None
    present = {(r.arm, r.task, r.scale) for r in results}
    missing = [
        Result(arm, task, seed=0, reason=ABSENT, scale=scale)
        for arm, scale in arms
        for task in sorted(places[scale])
        if (arm, task, scale) not in present
    ]
    return [*results, *missing]


def absent_seeds(arm: str, baseline: str, group: Sequence[Result]) -> list[int]:
    """Seeds that more than half of the other arms of a group have a row for, and this arm has not.

    The baseline's seeds count only for arms that are alone with it: it may well have more than they. Seeds nested
    in searches are numbered by search and say nothing here.
    """
    seeds: dict[str, set[int]] = {}
    for r in group:
        if r.search is not None:
            return []
        if r.reason != ABSENT:
            seeds.setdefault(r.arm, set()).add(r.seed)
    mine = seeds.pop(arm, set())
    others = [found for name, found in seeds.items() if name != baseline] or list(seeds.values())
    if not mine or (arm == baseline and len(others) < 2):
        return []
    counts = Counter(seed for found in others for seed in found)
    return sorted(seed for seed, count in counts.items() if seed not in mine and 2 * count > len(others))
