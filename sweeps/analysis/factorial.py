"""Main effects and interactions over chosen cells, by least squares (statsmodels)."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import statsmodels.api as sm
from numpy.typing import ArrayLike

from sweeps.analysis.errors import AnalysisError

Row = Mapping[str, float | str]


@dataclass(frozen=True)
class Term:
    """One coefficient, in the unit of the outcome.

    Attributes:
        name: factor, or ``a x b`` for an interaction.
        effect: outcome with it less outcome without.
        standard_error, t, df, p: of the effect.
        low, high: 95 % interval.
    """

    name: str
    effect: float
    standard_error: float
    t: float
    df: int
    p: float
    low: float
    high: float


@dataclass(frozen=True)
class Fit:
    """A least-squares fit.

    Attributes:
        terms: coefficients, without the intercept.
        r_squared: in sample.
        r_squared_left_out: 1 - PRESS / SST, each row predicted by a fit that has not seen it.
        residual_sd: with ``df`` degrees of freedom.
        n: rows.
    """

    terms: tuple[Term, ...]
    r_squared: float
    r_squared_left_out: float
    residual_sd: float
    df: int
    n: int

    def term(self, name: str) -> Term:
        """The coefficient of a name; KeyError if there is none."""
        return {t.name: t for t in self.terms}[name]


def fit(factors: Mapping[str, ArrayLike], outcome: ArrayLike, interactions: Sequence[tuple[str, str]] = ()) -> Fit:
    """Regress an outcome on factors and the products of some of them.

    Args:
        factors: name -> 0/1 (or counts) per row.
        outcome: one value per row.
        interactions: pairs of names.

    Raises:
        AnalysisError: too few rows, or factors that cannot be told apart in these cells.
    """
    y = np.asarray(outcome, dtype=float)
    columns = {name: np.asarray(values, dtype=float) for name, values in factors.items()}
    columns |= {f"{a} x {b}": columns[a] * columns[b] for a, b in interactions}
    design = sm.add_constant(np.column_stack(list(columns.values())), has_constant="add")
    if len(y) <= design.shape[1]:
        raise AnalysisError(f"{len(y)} rows cannot fit {design.shape[1]} coefficients; drop terms or add runs")
    if np.linalg.matrix_rank(design) < design.shape[1]:
        raise AnalysisError(f"the terms {', '.join(columns)} cannot be told apart in these cells; drop one")
    found = sm.OLS(y, design).fit()
    bounds = np.asarray(found.conf_int(0.05))
    leverage = np.asarray(found.get_influence().hat_matrix_diag)
    press = float(np.sum((np.asarray(found.resid) / (1 - leverage)) ** 2))
    terms = tuple(
        Term(
            name=name,
            effect=float(found.params[i]),
            standard_error=float(found.bse[i]),
            t=float(found.tvalues[i]),
            df=int(found.df_resid),
            p=float(found.pvalues[i]),
            low=float(bounds[i, 0]),
            high=float(bounds[i, 1]),
        )
        for i, name in enumerate(columns, start=1)
    )
    return Fit(
        terms=terms,
        r_squared=float(found.rsquared),
        r_squared_left_out=1 - press / float(np.sum((y - y.mean()) ** 2)),
        residual_sd=math.sqrt(float(found.mse_resid)),
        df=int(found.df_resid),
        n=len(y),
    )


@dataclass(frozen=True)
class Pair:
    """Two rows that differ in one factor only.

    Attributes:
        factor: the one that differs.
        before, after: its two levels.
        change: outcome of ``after`` less outcome of ``before``.
        shared: the levels they have in common.
    """

    factor: str
    before: float | str
    after: float | str
    change: float
    shared: tuple[tuple[str, float | str], ...]


def single_factor_pairs(rows: Sequence[Row], factors: Sequence[str], outcome: str) -> list[Pair]:
    """All pairs of rows that differ in exactly one factor."""
    pairs = []
    for one, other in itertools.combinations(rows, 2):
        differing = [f for f in factors if one[f] != other[f]]
        if len(differing) == 1:
            (factor,) = differing
            shared = tuple((f, one[f]) for f in factors if f != factor)
            change = float(other[outcome]) - float(one[outcome])
            pairs.append(Pair(factor, one[factor], other[factor], change, shared))
    return pairs


def replicate_sd(pairs: Sequence[Pair]) -> tuple[float, int]:
    """sd of one run from pairs that should be equal: sqrt(sum d^2 / 2k), with k degrees of freedom.

    Raises:
        AnalysisError: no pairs.
    """
    if not pairs:
        raise AnalysisError("no two rows are replicates of each other: the noise of a run is not known")
    return math.sqrt(math.fsum(p.change**2 for p in pairs) / (2 * len(pairs))), len(pairs)


def cell_means(one: ArrayLike, other: ArrayLike, outcome: ArrayLike) -> dict[tuple[int, int], tuple[float, int]]:
    """Mean and count of the outcome in the cells of two 0/1 factors."""
    a, b, y = np.asarray(one), np.asarray(other), np.asarray(outcome, dtype=float)
    cells = {}
    for i, j in itertools.product((0, 1), repeat=2):
        chosen = y[(a == i) & (b == j)]
        if len(chosen):
            cells[i, j] = (float(chosen.mean()), len(chosen))
    return cells
