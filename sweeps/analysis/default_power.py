"""What a design can see by the default rule: `power.py` for a test whose noise is the larger of own and pooled.

Under equal, normal noise the rule (`sigma.py`) rests on three independent mean squares: the arm's own, the
baseline's own, and that of the other arms. The threshold that a difference must pass is a function of the three,
so power is an integral over their laws, without simulation. Two simplifications: Dunnett's critical value is taken
at the loading and the degrees of freedom of the arm in question for all contrasts of the family, and read from an
interpolated surface. tests/benchmarks/sim_calibration.py has the same powers by simulation.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.interpolate import RegularGridInterpolator

from sweeps.analysis import student
from sweeps.analysis.dunnett import critical_value
from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.noise_floor import c4
from sweeps.analysis.power import check
from sweeps.analysis.sigma import FEWEST_BASELINE, NOISE_RATIO

MOST_SEEDS = 1000
_POINTS, _POOL_POINTS = 64, 12
_LOADINGS = np.array([0.05, 0.35, 0.6, 0.8, 0.93, 0.99])

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Thresholds:
    """How large a difference must be to be decided, over the law of the mean squares, in true sd of one run.

    Attributes:
        error: true standard error of the difference.
        half: critical value times estimated standard error, one for each combination of mean squares.
        margin_half: the same for one of the two one-sided tests of equivalence, at alpha, not corrected.
        weights: probabilities, of the shape of ``half``.
    """

    error: float
    half: Array
    margin_half: Array
    weights: Array

    def power(self, effect: float) -> float:
        """Chance that a true difference, in sd of one run, is decided."""
        away = (self.half - abs(effect)) / self.error
        beyond = student.normal_upper(away) + student.normal_upper((self.half + abs(effect)) / self.error)
        return float(np.sum(self.weights * beyond))

    def power_at_zero(self, margin: float) -> float:
        """Chance that equal arms are proven to lie within a margin, in sd of one run."""
        room = np.maximum(0.0, margin - self.margin_half) / self.error
        return float(np.sum(self.weights * (1 - 2 * student.normal_upper(room))))


@dataclass(frozen=True)
class Plan:
    """Runs and family of a comparison by the default rule.

    Attributes:
        n_arm: runs of the arm in question.
        n_baseline: runs of the baseline.
        arms: arms compared with the baseline in one group.
        alpha: family-wise level.
        groups: tasks or columns in the family (Bonferroni over them).
        seen: whether the arm shows its own noise; a single run does not, nor a mean without a published sd.
        others_df: degrees of freedom that the other arms lend to the pool; where absent, all arms have ``n_arm`` runs.
        correction: "dunnett"; "none"; anything else counts as Bonferroni.
    """

    n_arm: int
    n_baseline: int
    arms: int
    alpha: float = 0.05
    groups: int = 1
    seen: bool = True
    others_df: float | None = None
    correction: str = "dunnett"

    @property
    def own(self) -> bool:
        return self.seen and self.n_arm > 1

    @property
    def rest(self) -> float:
        """Degrees of freedom of the other arms."""
        return (self.arms - 1) * (self.n_arm - 1) * self.own if self.others_df is None else self.others_df


def thresholds(plan: Plan) -> Thresholds:
    """Of a plan, under equal normal noise.

    Raises:
        AnalysisError: a baseline of fewer seeds than the rule decides with, or no arm.
    """
    if plan.n_baseline < FEWEST_BASELINE or plan.n_arm < 1 or plan.arms < 1:
        raise AnalysisError(
            f"the default rule decides nothing with {plan.n_baseline} baseline seeds; give it {FEWEST_BASELINE} or more"
        )
    return _thresholds(plan)


def detectable_by_default(plan: Plan, sigma: float = 1.0, wanted: float = 0.8) -> float:
    """Smallest true difference that the default rule finds with the wanted power, in the unit of ``sigma``.

    Raises:
        AnalysisError: see `thresholds`.
    """
    found = thresholds(plan)
    return sigma * student.solve(lambda effect: found.power(effect) - wanted, 0.0, float(found.half.max()) + 20.0)


def provable_by_default(plan: Plan, sigma: float = 1.0, wanted: float = 0.8) -> float:
    """Smallest margin within which an equal arm is proven equivalent, one arm at a time.

    Raises:
        AnalysisError: see `thresholds`.
    """
    found = thresholds(plan)
    high = float(found.margin_half.max()) + 20.0 * found.error
    return sigma * student.solve(lambda margin: found.power_at_zero(margin) - wanted, 0.0, high)


def seeds_by_default(effect: float, sigma: float, arms: int, alpha: float = 0.05, wanted: float = 0.8) -> int:
    """Seeds an arm, the baseline included, with which the default rule sees an effect.

    Raises:
        AnalysisError: an effect of 0, or one that needs more than `MOST_SEEDS`.
    """
    check(sigma, alpha, wanted)
    if not abs(effect) > 0:
        raise AnalysisError("an effect of 0 cannot be detected; give the smallest effect that would matter")

    def enough(n: int) -> bool:
        return thresholds(Plan(n, n, arms, alpha)).power(effect / sigma) >= wanted

    low, high = FEWEST_BASELINE - 1, FEWEST_BASELINE
    while not enough(high):
        if high >= MOST_SEEDS:
            raise AnalysisError(f"an effect of {effect:g} at sigma {sigma:g} needs more than {MOST_SEEDS} seeds an arm")
        low, high = high, min(2 * high, MOST_SEEDS)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


@lru_cache(maxsize=256)
def _thresholds(plan: Plan) -> Thresholds:
    n, nb, rest_df = plan.n_arm, plan.n_baseline, plan.rest
    mine_df, base_df = (n - 1.0 if plan.own else 0.0), nb - 1.0
    few = not (plan.own and rest_df)  # with two laws left, finer
    m, b, q, weights = _squares(mine_df, base_df, rest_df, 300 if few else _POINTS)
    own_base = b / c4(base_df) ** 2
    pool_df = mine_df + rest_df or base_df
    pool = (mine_df * m + rest_df * q) / pool_df if mine_df + rest_df else own_base
    own = m / c4(mine_df) ** 2 if plan.own else np.zeros_like(m)
    inflation = 1.0 if plan.own else NOISE_RATIO**2
    apart_arm, apart_base = own > pool, own_base > pool
    of_arm, of_base = inflation * np.maximum(own, pool) / n, np.maximum(own_base, pool) / nb
    df_arm, df_base = np.where(apart_arm, mine_df, pool_df), np.where(apart_base, base_df, pool_df)
    variance = of_arm + of_base
    df = np.where(
        apart_arm | apart_base,
        variance**2 / (of_arm**2 / np.maximum(df_arm, 1.0) + of_base**2 / df_base),
        pool_df,
    )
    estimated = np.sqrt(variance)
    half = estimated * _critical(plan, df, np.sqrt(of_base / variance))
    return Thresholds(math.sqrt(1 / n + 1 / nb), half, estimated * -special.stdtrit(df, plan.alpha), weights)


def _squares(mine_df: float, base_df: float, rest_df: float, points: int) -> tuple[Array, Array, Array, Array]:
    """Mean squares of the arm, the baseline and the other arms on a grid, each over its true value; weights."""
    one = (np.ones(1), np.ones(1))
    mine = student.chi_nodes(mine_df, points) if mine_df else one
    base = student.chi_nodes(base_df, points)
    rest = student.chi_nodes(rest_df, _POOL_POINTS if mine_df else points) if rest_df else one
    m, b, q = (x**2 for x in np.meshgrid(mine[0], base[0], rest[0], indexing="ij"))
    return m, b, q, mine[1][:, None, None] * base[1][None, :, None] * rest[1][None, None, :]


def _critical(plan: Plan, df: Array, loading: Array) -> Array:
    level = plan.alpha / plan.groups
    if plan.correction != "dunnett" or plan.arms == 1:
        return -special.stdtrit(df, (plan.alpha if plan.correction == "none" else level / plan.arms) / 2)
    surface = _surface(plan.arms, level, float(np.floor(df.min())), float(np.ceil(df.max())))
    inverse, loadings = (np.clip(x, edge[0], edge[-1]) for x, edge in zip((1 / df, loading), surface.grid, strict=True))
    return np.exp(surface(np.stack([inverse, loadings], axis=-1)))


@lru_cache(maxsize=256)
def _surface(arms: int, alpha: float, low: float, high: float) -> RegularGridInterpolator:
    """ln of Dunnett's critical value over 1 / df and loading, for contrasts of one loading."""
    inverse = np.unique(np.linspace(1 / high, 1 / low, 6)) if high > low else np.array([1 / low - 1e-9, 1 / low])
    values = [[math.log(critical_value(alpha, 1 / x, [b] * arms)) for b in _LOADINGS] for x in inverse]
    return RegularGridInterpolator((inverse, _LOADINGS), np.array(values))
