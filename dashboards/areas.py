"""Area under the curve of each run: its mean height over the steps it was evaluated at."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sweeps.analysis.steps_to_accuracy import area
from sweeps.tables import read_curves


def areas(root: Path, sweep: str, metric: str) -> dict[str, float]:
    """Run -> mean height of a metric such as ``test/accuracy``; runs with fewer than two finite points are absent."""
    split, slash, name = metric.partition("/")
    table = read_curves(root, sweep, [(split, name) if slash else ("", split)])
    codes, names = table.codes("run")
    steps, values = table.floats("step"), table.floats("value")
    keep = np.isfinite(values)
    codes, steps, values = codes[keep], steps[keep], values[keep]
    found: dict[str, float] = {}
    edges = np.flatnonzero(np.diff(codes)) + 1 if len(codes) else []
    for part in np.split(np.arange(len(codes)), edges):
        if len(part) and (height := area(steps[part].tolist(), values[part].tolist())) is not None:
            found[names[codes[part[0]]]] = height
    return found
