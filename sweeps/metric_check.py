"""Is the metric that an analysis compares one that its runs can leave? Asked of their runners, before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jobs import runners
from sweeps.design import Cell
from sweeps.errors import Problem
from sweeps.load import Sweep
from sweeps.tree import origin_of


def known_metrics(configs: Iterable[tuple[str, Mapping[str, Any]]]) -> tuple[str, ...] | None:
    """What runs of these (runner, config) can leave, the plainest first; None where one of the runners does not say."""
    known: set[str] = set()
    for runner, config in configs:
        names = runners.metrics_of(runner, config)
        if names is None:
            return None
        known |= names
    return plainest_first(known)


def plainest_first(names: Iterable[str]) -> tuple[str, ...]:
    """``test/accuracy`` before ``test/accuracy@T`` before ``test/accuracy/length_2`` before ``steps``."""
    return tuple(sorted(names, key=lambda name: ("/" not in name, name.count("/"), "@" in name, name)))


def check_metric(sweep: Sweep, cells: Iterable[Cell]) -> Problem | None:
    """The mistake, if no cell of the compared stages can leave ``analysis.metric``.

    A default that nobody wrote is a mistake only where a baseline says that there is something to compare.
    """
    analysis = sweep.file.analysis
    written = "metric" in (sweep.settings.get("analysis") or {})
    if not written and not analysis.baseline:
        return None
    arm = analysis.arm or next(iter(analysis.baseline), None)
    every = list(cells)
    compared = [cell for cell in every if arm in cell.labels] or every
    last = [cell for cell in compared if cell.stage == compared[-1].stage]
    for cell in last:  # mostly the first one settles it
        names = runners.metrics_of(cell.runner, cell.config)
        if names is None or analysis.metric in names:
            return None
    known = known_metrics((cell.runner, cell.config) for cell in last)
    if not known:
        return None
    path = ("analysis", "metric") if written else ("analysis",)
    _, origin = origin_of(sweep.origins, path)
    message = f"no run of stage {last[0].stage} leaves this metric"
    return Problem("analysis.metric", message, origin.file, origin.line, analysis.metric, known)
