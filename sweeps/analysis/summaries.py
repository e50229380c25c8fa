"""Verdicts where only means were published: a difference, how many runs are behind it, and one sigma for all.

A mean, its runs and a sigma with its degrees of freedom are all that Student's t needs; what such a table cannot
show (arms with a noise of their own, seeds that were dropped) stays unknown, and the verdict says where sigma is from.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sweeps.analysis import contrasts
from sweeps.analysis.equivalence import tost_p
from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.family import Measured, correct
from sweeps.analysis.options import Options
from sweeps.analysis.verdict import Verdict


@dataclass(frozen=True)
class Summary:
    """What was published of one arm at one scale.

    Attributes:
        arm: its name.
        n: runs behind the mean.
        mean: in the metric's unit, None with a reason.
        sd: between those runs, where published.
        task, scale: where.
        diverged: diverged runs among those started.
        reason: why there is no mean.
    """

    arm: str
    n: int
    mean: float | None = None
    sd: float | None = None
    task: str = "all"
    scale: str | None = None
    diverged: int = 0
    reason: str | None = None


def compare_summaries(
    arms: Sequence[Summary], baseline: Summary, options: Options, sigma: float, df: float, source: str
) -> list[Verdict]:
    """A verdict for every arm, by descending difference, those without a mean last.

    Args:
        arms: the arms, without the baseline.
        baseline: the baseline, with its mean and its runs.
        options: correction, alpha, margin and the size of the family; its sigma rule is not used.
        sigma: sd of one run.
        df: degrees of freedom of ``sigma``; inf where it is taken as known.
        source: words for where sigma is from.

    Raises:
        AnalysisError: no mean of the baseline, or a sigma that is not positive.
    """
    if baseline.mean is None or baseline.n < 1:
        raise AnalysisError(f"the baseline {baseline.arm!r} has no published mean: nothing can be compared with it")
    if not (sigma > 0 and math.isfinite(sigma)):
        raise AnalysisError(f"sigma is {sigma}; give the published sd of one run, a positive number")
    measured = [_measured(arm, baseline, options, sigma, df, source) for arm in arms]
    verdicts = correct([measured], options, options.level)
    return sorted(verdicts, key=lambda v: (v.difference is None, -(v.difference or 0.0), v.arm))


def pooled_df(summaries: Sequence[Summary]) -> int:
    """Degrees of freedom that a sigma pooled over all of these arms would have: sum (n - 1)."""
    return sum(max(0, s.n - 1) for s in summaries if s.mean is not None)


def _measured(arm: Summary, baseline: Summary, options: Options, sigma: float, df: float, source: str) -> Measured:
    verdict = Verdict(arm.arm, arm.task, arm.scale, "undecided", n=arm.n, diverged=arm.diverged, margin=options.margin)
    if arm.mean is None or baseline.mean is None:
        lost = arm.n > 0 and arm.diverged >= arm.n
        why = arm.reason or (f"{arm.diverged} of {arm.n} seeds diverged" if lost else "no value published")
        word = "diverged" if lost else "undecided" if arm.n else "not run"
        return Measured(replace(verdict, verdict=word, reason=why))
    part, base = 1 / arm.n, 1 / baseline.n
    difference, error = arm.mean - baseline.mean, sigma * math.sqrt(part + base)
    test = contrasts.from_error("summary", difference, error, df, options.level)
    verdict = replace(
        verdict,
        n_baseline=baseline.n,
        mean=arm.mean,
        sd=arm.sd,
        difference=difference,
        standard_error=error,
        statistic=test.statistic,
        df=df,
        p=test.p,
        low=test.low,
        high=test.high,
        sigma=sigma,
        sigma_source=source,
        test="means",
        p_equivalence=None if options.margin is None else tost_p(difference, error, df, options.margin),
    )
    return Measured(verdict, math.sqrt(base / (part + base)))
