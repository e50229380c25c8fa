"""Looking early costs: group-sequential boundaries that spend alpha over the planned looks.

Lan & DeMets (Biometrika 70, 1983) spending with the O'Brien-Fleming or the Pocock shape; the boundaries come
from the recursive integration of Armitage, McPherson & Rowe (1969). For t tests and families the nominal
level of the look replaces alpha, which is how such boundaries are used when sigma is estimated.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from scipy import special

from sweeps.analysis import student
from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.results import Result, is_final, is_planned

Spending = Literal["obrien-fleming", "pocock"]
SPENDINGS: tuple[str, ...] = get_args(Spending)


@dataclass(frozen=True)
class Look:
    """Where in its plan an analysis stands.

    Attributes:
        fractions: planned information at each look, ascending, the last 1 (share of the planned runs).
        now: which look this is, from 1.
        spending: shape of the spending function.
    """

    fractions: tuple[float, ...] = (1.0,)
    now: int = 1
    spending: Spending = "obrien-fleming"

    def level(self, alpha: float) -> float:
        """The two-sided nominal level to test at, at this look.

        Raises:
            AnalysisError: a look that was not planned.
        """
        if not 1 <= self.now <= len(self.fractions):
            raise AnalysisError(
                f"look {self.now} was not planned ({len(self.fractions)} were); such a result is exploratory"
            )
        return nominal_levels(self.fractions, alpha, self.spending)[self.now - 1]


def planned_look(fractions: Sequence[float], results: Iterable[Result]) -> Look | None:
    """The planned look that the finished share of the runs has reached; None before the first or with one alone."""
    planned = [r for r in results if is_planned(r)]
    if len(fractions) < 2 or not planned:
        return None
    share = sum(r.value is not None or is_final(r) for r in planned) / len(planned)
    reached = sum(fraction <= share + 1e-9 for fraction in fractions)
    return Look(tuple(fractions), reached) if reached else None


def spent(fraction: float, alpha: float, spending: Spending = "obrien-fleming") -> float:
    """Two-sided alpha used up at an information fraction in (0, 1], half of it on each side."""
    if spending == "pocock":
        return alpha * math.log1p((math.e - 1) * fraction)
    return float(4 * special.ndtr(special.ndtri(alpha / 4) / math.sqrt(fraction)))


def nominal_levels(
    fractions: Sequence[float], alpha: float = 0.05, spending: Spending = "obrien-fleming"
) -> list[float]:
    """Two-sided nominal level at each look.

    Raises:
        AnalysisError: fractions that do not rise to 1, or an unknown spending function.
    """
    return [2 * float(special.ndtr(-z)) for z in boundaries(fractions, alpha, spending)]


def boundaries(fractions: Sequence[float], alpha: float = 0.05, spending: Spending = "obrien-fleming") -> list[float]:
    """|Z| at which each look stops, two-sided symmetric."""
    if spending not in SPENDINGS:
        raise AnalysisError(f"spending {spending!r} is unknown; choose from {', '.join(SPENDINGS)}")
    rising = all(a < b for a, b in itertools.pairwise(fractions))
    if not fractions or not rising or fractions[0] <= 0 or abs(fractions[-1] - 1) > 1e-9:
        raise AnalysisError(f"looks {list(fractions)} must be shares of the planned runs that rise to 1")
    nodes, weights = np.polynomial.legendre.leggauss(160)
    limits: list[float] = []
    before, states, density = 0.0, np.zeros(1), np.ones(1)
    already = 0.0
    for fraction in fractions:
        budget, step = spent(fraction, alpha, spending) - already, math.sqrt(fraction - before)

        def crossing(z: float, edge=math.sqrt(fraction), at=states, mass=density, sd=step) -> float:
            tail = special.ndtr((at - z * edge) / sd) + special.ndtr((-at - z * edge) / sd)
            return float(mass @ tail)

        limit = student.solve(lambda z, f=crossing, b=budget: f(z) - b, 0.0, 12.0) if crossing(12.0) < budget else 12.0
        limits.append(limit)
        half = limit * math.sqrt(fraction)
        grid = half * nodes
        kernel = np.exp(-0.5 * ((grid[:, None] - states) / step) ** 2) / (step * math.sqrt(2 * math.pi))
        states, density = grid, half * weights * (kernel @ density)
        before, already = fraction, spent(fraction, alpha, spending)
    return limits
