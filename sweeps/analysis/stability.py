"""Does an effect seen at one scale hold at another? Signs, ranks, attenuation by noise, divergences."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from sweeps.analysis import student
from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.ranks import RankCorrelation, spearman


@dataclass(frozen=True)
class Effect:
    """An arm's effect against the baseline at two scales, in the metric's unit.

    Attributes:
        arm: its name.
        small, large: effect at each scale; ``large`` is None where the arm did not finish.
        small_error, large_error: standard errors.
        diverged: (diverged seeds, seeds started) at the larger scale.
        small_noise, large_noise: standard errors of the arm's own mean alone, where they are known. What the baseline's
            mean is off by moves all effects together and no order among them.
    """

    arm: str
    small: float
    small_error: float
    large: float | None = None
    large_error: float | None = None
    diverged: tuple[int, int] = (0, 0)
    small_noise: float | None = None
    large_noise: float | None = None


@dataclass(frozen=True)
class Slope:
    """Effect at the larger scale per effect at the smaller one, errors in both; interval by leaving out each arm."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Share:
    """A count with its Clopper-Pearson interval."""

    count: int
    total: int
    low: float
    high: float


@dataclass(frozen=True)
class Stability:
    """What two scales say about each other.

    Attributes:
        arms: arms that finished at both scales.
        same_sign: how many keep the sign of their effect.
        sign_p: chance of at least as many by independent coin flips. Arms that share a baseline agree more often: 10
            null arms of 3 seeds against one of 3 keep all their signs in 1.9 % of draws, not 0.1 %.
        ranks: Spearman's rho over the finished arms, or None below three.
        reliability_small, reliability_large: share of the spread of effects that is not their own noise.
        attenuation: factor by which noise alone shrinks a correlation of 1; None where no reliability is left.
        disattenuated: rho / attenuation, cut to [-1, 1]; None where the attenuation is below 0.2.
        slope: Deming's, which noise does not flatten; None below four arms or without errors.
        diverged: arms of which every seed diverged at the larger scale.
        words: one sentence that claims no more than this.
    """

    arms: int
    same_sign: Share
    sign_p: float
    ranks: RankCorrelation | None
    reliability_small: float
    reliability_large: float
    attenuation: float | None
    disattenuated: float | None
    slope: Slope | None
    diverged: Share
    words: str


def compare_scales(effects: Sequence[Effect]) -> Stability:
    """Summarise effects at two scales.

    Raises:
        AnalysisError: no arm that was tried at both scales.
    """
    finished = [(e, e.large, e.large_error) for e in effects if e.large is not None]
    if not effects or not finished:
        raise AnalysisError("no arm finished at both scales: there is nothing to compare")
    small = [e.small for e, _, _ in finished]
    large = [value for _, value, _ in finished]
    kept = sum(a * b > 0 for a, b in zip(small, large, strict=True))
    ranked = spearman(small, large) if len(finished) >= 3 else None
    of_small = reliability(small, [_or(e.small_noise, e.small_error) for e, _, _ in finished])
    of_large = reliability(large, [_or(e.large_noise, error or 0.0) for e, _, error in finished])
    factor = math.sqrt(of_small * of_large)
    lost = sum(1 for e in effects if e.diverged[1] and e.diverged[0] == e.diverged[1])
    return Stability(
        arms=len(finished),
        same_sign=clopper_pearson(kept, len(finished)),
        sign_p=float(stats.binom.sf(kept - 1, len(finished), 0.5)),
        ranks=ranked,
        reliability_small=of_small,
        reliability_large=of_large,
        attenuation=factor or None,
        disattenuated=None if ranked is None or factor < 0.2 else max(-1.0, min(1.0, ranked.rho / factor)),
        slope=_slope(
            small, large, _rms([e.small_error for e, _, _ in finished]), _rms([x or 0.0 for *_, x in finished])
        ),
        diverged=clopper_pearson(lost, len(effects)),
        words=_words(len(finished), kept, ranked, factor, lost, len(effects)),
    )


def clopper_pearson(count: int, total: int, confidence: float = 0.95) -> Share:
    """Exact binomial interval of a rate.

    Raises:
        AnalysisError: a count outside 0 to total.
    """
    if not 0 <= count <= total or not total:
        raise AnalysisError(f"{count} of {total} is no share")
    interval = stats.binomtest(count, total).proportion_ci(confidence, method="exact")
    return Share(count, total, float(interval.low), float(interval.high))


def reliability(effects: Sequence[float], errors: Sequence[float]) -> float:
    """1 - mean squared standard error / variance of the effects, in [0, 1].

    The share of what orders the arms that is not noise: a rank order of arms inside the noise band has
    reliability near 0, and no second scale can agree with it.
    """
    if len(effects) < 2:
        return 0.0
    variance = float(np.var(effects, ddof=1))
    return 0.0 if variance == 0 else max(0.0, 1 - float(np.mean(np.square(errors))) / variance)


def deming(x: Sequence[float], y: Sequence[float], x_error: float, y_error: float) -> float:
    """Slope of y on x through the origin with errors in both (known standard errors).

    Minimises sum (y - b x)^2 / (y_error^2 + b^2 x_error^2); the larger root of its quadratic.

    Raises:
        AnalysisError: no points, or errors that are not positive.
    """
    if not len(x) or len(x) != len(y) or not (x_error > 0 and y_error > 0):
        raise AnalysisError("a Deming slope needs points and a positive standard error on either axis")
    sxx, syy, sxy = np.dot(x, x), np.dot(y, y), np.dot(x, y)
    if sxy == 0:
        return 0.0
    ratio = (y_error / x_error) ** 2
    gap = syy - ratio * sxx
    return float((gap + math.sqrt(gap**2 + 4 * ratio * sxy**2)) / (2 * sxy))


def _slope(small: Sequence[float], large: Sequence[float], small_error: float, large_error: float) -> Slope | None:
    """Deming's slope with its jackknife interval over the arms (Student t with one degree less than arms)."""
    n = len(small)
    if n < 4 or not (small_error > 0 and large_error > 0):
        return None
    everyone = deming(small, large, small_error, large_error)
    left_out = [
        deming([*small[:i], *small[i + 1 :]], [*large[:i], *large[i + 1 :]], small_error, large_error) for i in range(n)
    ]
    error = math.sqrt((n - 1) / n * sum((b - sum(left_out) / n) ** 2 for b in left_out))
    half = error * student.critical(0.025, n - 1)
    return Slope(everyone, everyone - half, everyone + half)


def _or(value: float | None, other: float) -> float:
    return other if value is None else value


def _rms(values: Sequence[float]) -> float:
    return math.sqrt(sum(v * v for v in values) / len(values))


def _words(n: int, kept: int, ranked: RankCorrelation | None, factor: float, lost: int, tried: int) -> str:
    text = f"{kept} of the {n} arms that finished at both scales keep the sign of their effect"
    if ranked is not None:
        sure = (
            "differs from no rank transfer" if ranked.p_permutation < 0.05 else "cannot be told from no rank transfer"
        )
        text += (
            f"; Spearman's rho is {ranked.rho:+.2f} [{ranked.low:+.2f}, {ranked.high:+.2f}] "
            f"(n = {ranked.n}, permutation p = {ranked.p_permutation:.2g}), which {sure}"
        )
        text += f"; noise alone would shrink a perfect agreement to {factor:.2f}"
    if lost:
        text += f"; {lost} of {tried} arms diverged in every seed at the larger scale"
    return text + "."
