"""One value a run from its values on several tasks: the unweighted mean, or a reason."""

import math
from collections.abc import Sequence

from sweeps.analysis.results import FINAL, Result

MACRO = "mean of the tasks"


def macro(results: Sequence[Result]) -> list[Result]:
    """Average each run (arm, scale, search, seed) over the tasks; a run that lacks a task has a reason and no value.

    With a single task the results come back as they are.
    """
    tasks = sorted({r.task for r in results})
    if len(tasks) < 2:
        return list(results)
    runs: dict[tuple, dict[str, Result]] = {}
    for r in results:
        runs.setdefault((r.arm, r.scale or "", r.search, r.seed), {})[r.task] = r
    made = []
    for (arm, scale, search, seed), found in runs.items():
        values = [r.value for r in found.values() if r.value is not None]
        missing = [t for t in tasks if t not in found or found[t].value is None]
        why = None
        if missing:
            reasons = sorted({found[t].reason or "no reason given" for t in missing if t in found} or {"not run"})
            reasons.sort(key=lambda reason: (not reason.startswith(FINAL), reason))  # what is final is so for the mean
            why = f"{', '.join(reasons)}, on {len(missing)} of {len(tasks)} tasks"
            if all((found[t].reason or "").startswith("not planned") for t in missing if t in found) and not values:
                why = next(iter(reasons))
        made.append(
            Result(
                arm,
                MACRO,
                seed,
                search,
                None if missing else math.fsum(values) / len(values),
                why,
                diverged=any(r.diverged for r in found.values()),
                scale=scale or None,
            )
        )
    return made
