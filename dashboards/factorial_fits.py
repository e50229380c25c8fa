"""Everything the factorial report computes: effects, the count of harmful choices, pairs, and the noise of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dashboards.factors import Design
from dashboards.table_rows import words
from sweeps.analysis.corrections import adjust
from sweeps.analysis.factorial import Fit, Pair, Term, fit, replicate_sd, single_factor_pairs

ALPHA = 0.05
MOST_CELLS = 400
"""Cells up to which all pairs are listed."""


@dataclass(frozen=True)
class Found:
    """All fits of a table.

    Attributes:
        plan: the design.
        main: the main effects with their interactions; ``adjusted`` their p after Holm.
        count: the outcome on the count of harmful choices, None where none were stated.
        counts: that count for each row.
        pairs: rows that differ in one factor only, replicates apart.
        noise: sd of one run and its degrees of freedom, None without replicates.
        replicates: the outcomes it is from.
    """

    plan: Design
    main: Fit
    adjusted: tuple[float, ...]
    count: Fit | None
    counts: tuple[int, ...]
    pairs: tuple[Pair, ...]
    noise: tuple[float, int] | None
    replicates: tuple[tuple[float, ...], ...] = ()

    @property
    def decided(self) -> list[Term]:
        return [t for t, p in zip(self.main.terms, self.adjusted, strict=True) if self.sure(p)]

    def sure(self, adjusted: float) -> bool:
        """Whether an adjusted p decides: not where runs share what least squares takes for independent."""
        return adjusted < ALPHA and self.plan.nested is None


def fits(plan: Design) -> Found:
    """Fit a design.

    Raises:
        AnalysisError: terms that cannot be told apart in these cells, or too few rows.
    """
    y = [float(row[plan.outcome] or 0.0) for row in plan.rows]
    columns = {t.name: [float(t.holds(row)) for row in plan.rows] for t in plan.terms}
    columns = {name: values for name, values in columns.items() if len(set(values)) > 1}
    main = fit(columns, y, [p for p in plan.interactions if set(p) <= columns.keys()])
    adjusted = tuple(1.0 if p is None else p for p in adjust([t.p for t in main.terms], "holm"))
    counts = tuple(sum(h.holds(row) for h in plan.harmful) for row in plan.rows)
    count = fit({"harmful choices": counts}, y) if plan.harmful and len(set(counts)) > 1 else None
    names = [*plan.factors, *([plan.replicate] if plan.replicate and plan.replicate not in plan.factors else [])]
    rows = [{name: words(row.get(name)) for name in names} | {plan.outcome: value}
            for row, value in zip(plan.rows, y, strict=True)]  # fmt: skip
    groups = _replicate_groups(plan, rows)
    return Found(plan, main, adjusted, count, counts, _pairs(plan, names, rows), _replicates(plan, groups), groups)


def _pairs(plan: Design, names: Sequence[str], rows: Sequence[dict[str, Any]]) -> tuple[Pair, ...]:
    """Rows that differ in one factor; where replicates are seeds, means over seeds, else rows of equal replicate."""
    if plan.replicate != "seed":
        return tuple(p for p in single_factor_pairs(rows, names, plan.outcome) if p.factor != plan.replicate)
    cells: dict[tuple, list[float]] = {}
    for row in rows:
        cells.setdefault(tuple(row[f] for f in plan.factors), []).append(row[plan.outcome])
    means = [
        dict(zip(plan.factors, key, strict=True)) | {plan.outcome: math.fsum(v) / len(v)} for key, v in cells.items()
    ]
    return tuple(single_factor_pairs(means, plan.factors, plan.outcome)) if len(means) <= MOST_CELLS else ()


def _replicate_groups(plan: Design, rows: Sequence[dict[str, Any]]) -> tuple[tuple[float, ...], ...]:
    """Outcomes of rows that differ in the replicate column only, where there are two or more."""
    if plan.replicate is None:
        return ()
    groups: dict[tuple, list[float]] = {}
    for row in rows:
        groups.setdefault(tuple(row[f] for f in plan.factors), []).append(row[plan.outcome])
    return tuple(tuple(values) for values in groups.values() if len(values) > 1)


def _replicates(plan: Design, several: Sequence[Sequence[float]]) -> tuple[float, int] | None:
    """sd of one run from groups of replicates: pairs as such, larger groups pooled."""
    if plan.replicate is None or not several:
        return None
    if all(len(values) == 2 for values in several):
        pairs = [Pair(plan.replicate, "", "", values[1] - values[0], ()) for values in several]
        return replicate_sd(pairs)
    squares = math.fsum((v - math.fsum(g) / len(g)) ** 2 for g in several for v in g)
    df = sum(len(g) - 1 for g in several)
    return math.sqrt(squares / df), df
