"""Verdicts where only means were published: a difference, how many runs are behind it, and what is known of the noise.

The rules are those of `sigma.py`, over published sds instead of runs. An arm whose sd was not published shows no noise
of its own, however many runs are behind it, and ``auto`` takes it to be up to ``noise_ratio`` times as noisy as the
rest, as it does with a single run; without that a family of nineteen such arms has an error of 0.09 to 0.17 where one
is noisier or the noise has heavy tails (docs/statistics.md). `plain_summaries` is Student's t with a sigma that is
simply given, to be shown beside it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sweeps.analysis import contrasts, nested
from sweeps.analysis.equivalence import tost_p
from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.family import Measured, correct
from sweeps.analysis.nested import Estimate, Variance
from sweeps.analysis.noise_floor import c4
from sweeps.analysis.options import Options
from sweeps.analysis.sigma import FEWEST_BASELINE, Noise, parse
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

    @property
    def shows_noise(self) -> bool:
        """Whether its mean comes with an sd over two or more runs."""
        return self.sd is not None and self.n > 1 and self.mean is not None


def compare_summaries(arms: Sequence[Summary], baseline: Summary, options: Options) -> list[Verdict]:
    """A verdict for every arm by the rule of the options, by descending difference, those without a mean last.

    Args:
        arms: the arms, without the baseline.
        baseline: the baseline, with its mean and its runs, and its sd but for a known sigma.
        options: sigma rule, correction, alpha, margin and the size of the family.

    Raises:
        AnalysisError: no mean or no sd of the baseline.
    """
    _check(baseline)
    known = parse(options.sigma)[0] == "known"
    if not known and (baseline.sd is None or baseline.n < 2 or not baseline.sd > 0):
        raise AnalysisError(
            f"the noise of one run is not known: {baseline.arm!r} needs a published sd over two or more runs"
        )
    return _judged(arms, baseline, options, lambda arm: _noise(arm, baseline, arms, options))


def plain_summaries(
    arms: Sequence[Summary], baseline: Summary, options: Options, sigma: float, df: float, source: str
) -> list[Verdict]:
    """Student's t of every arm against one sigma for all, by descending difference.

    Args:
        arms, baseline: as in `compare_summaries`.
        options: correction, alpha, margin and the size of the family; its sigma rule is not used.
        sigma: sd of one run, of the arms as of the baseline.
        df: degrees of freedom of ``sigma``; inf where it is taken as known.
        source: words for where sigma is from.

    Raises:
        AnalysisError: no mean of the baseline, or a sigma that is not positive.
    """
    _check(baseline)
    if not (sigma > 0 and math.isfinite(sigma)):
        raise AnalysisError(f"sigma is {sigma}; give the published sd of one run, a positive number")
    return _judged(arms, baseline, options, lambda arm: _one_sigma(arm, baseline, sigma, df, source))


def pooled_df(summaries: Sequence[Summary]) -> int:
    """Degrees of freedom that a sigma pooled over all of these arms would have: sum (n - 1)."""
    return sum(max(0, s.n - 1) for s in summaries if s.mean is not None)


def _check(baseline: Summary) -> None:
    if baseline.mean is None or baseline.n < 1:
        raise AnalysisError(f"the baseline {baseline.arm!r} has no published mean: nothing can be compared with it")


def _judged(
    arms: Sequence[Summary], baseline: Summary, options: Options, noise: Callable[[Summary], Noise]
) -> list[Verdict]:
    verdicts = correct([[_measured(arm, baseline, options, noise) for arm in arms]], options, options.level)
    return sorted(verdicts, key=lambda v: (v.difference is None, -(v.difference or 0.0), v.arm))


def _measured(arm: Summary, baseline: Summary, options: Options, noise: Callable[[Summary], Noise]) -> Measured:
    verdict = Verdict(arm.arm, arm.task, arm.scale, "undecided", n=arm.n, diverged=arm.diverged, margin=options.margin)
    if arm.mean is None or baseline.mean is None:
        lost = arm.n > 0 and arm.diverged >= arm.n
        why = arm.reason or (f"{arm.diverged} of {arm.n} seeds diverged" if lost else "no value published")
        word = "diverged" if lost else "undecided" if arm.n else "not run"
        return Measured(replace(verdict, verdict=word, reason=why))
    if arm.n < 1:
        raise AnalysisError(
            f"arm {arm.arm!r} has a mean of {arm.mean:g} over {arm.n} runs; give how many runs it is of"
        )
    difference, found = arm.mean - baseline.mean, noise(arm)
    verdict = replace(
        verdict, n_baseline=baseline.n, mean=arm.mean, sd=arm.sd, difference=difference, sigma=found.sigma,
        sigma_source=found.source, test="means", reason=found.reason,
    )  # fmt: skip
    if found.variance is None:
        return Measured(verdict)
    error, df = math.sqrt(found.variance.value), found.variance.df
    test = contrasts.from_error("summary", difference, error, df, options.level)
    verdict = replace(
        verdict,
        standard_error=error,
        statistic=test.statistic,
        df=df,
        p=test.p,
        low=test.low,
        high=test.high,
        p_equivalence=None if options.margin is None else tost_p(difference, error, df, options.margin),
    )
    return Measured(verdict, math.sqrt(found.variance.baseline_share))


def _one_sigma(arm: Summary, baseline: Summary, sigma: float, df: float, source: str) -> Noise:
    part, base = 1 / arm.n, 1 / baseline.n
    return Noise(Variance(sigma**2 * (part + base), df, base / (part + base)), sigma, source)


def _noise(arm: Summary, baseline: Summary, arms: Sequence[Summary], options: Options) -> Noise:
    """As `sigma.noise`, with published sds in the place of runs."""
    kind, known = parse(options.sigma)
    if kind == "known":
        return _one_sigma(arm, baseline, known or 0.0, math.inf, f"known, {known:g}")
    sd = baseline.sd or 0.0
    if kind == "baseline":
        return _one_sigma(arm, baseline, sd, baseline.n - 1, "the baseline's sd")
    if kind == "pooled":
        pool = _pool([*arms, baseline], "pooled")
        source = f"pooled over {sum(s.shows_noise for s in (*arms, baseline))} published sds"
        return _one_sigma(arm, baseline, math.sqrt(pool.mean_square), pool.df, source)
    if kind == "own":
        if not arm.shows_noise:
            return Noise(None, None, "own", f"no sd of {arm.arm} was published")
        mine = Estimate("arm", (arm.sd or 0.0) ** 2, arm.n - 1)
        return _sides(arm, baseline, mine, Estimate("baseline", sd**2, baseline.n - 1), "own (Welch)")
    return _auto(arm, baseline, arms, options.noise_ratio)


def _auto(arm: Summary, baseline: Summary, arms: Sequence[Summary], noise_ratio: float) -> Noise:
    theirs = _unbiased(baseline, "baseline")
    alone = not any(s.shows_noise for s in arms)
    pool = theirs if alone else _pool(arms, "pooled")
    base = theirs if theirs.mean_square > pool.mean_square else pool
    inflation, mine, source = 1.0, pool, "the baseline's" if alone else "pooled over the arms"
    if not arm.shows_noise:
        inflation = noise_ratio**2
        source = f"{noise_ratio:g} x {source}, for {'a single run' if arm.n == 1 else 'an arm without a published sd'}"
    elif (own := _unbiased(arm, "arm")).mean_square > pool.mean_square:
        mine, source = own, "own"
    if base is theirs and not alone:
        source += "; the baseline's side: its own"
    found = _sides(arm, baseline, mine, base, source, inflation)
    if baseline.n < FEWEST_BASELINE:
        return replace(found, reason=f"{baseline.n} baseline seeds cannot show its noise; give it {FEWEST_BASELINE}")
    return found


def _sides(
    arm: Summary, baseline: Summary, mine: Estimate, theirs: Estimate, source: str, inflation: float = 1.0
) -> Noise:
    parts = [(1 / baseline.n, theirs), (inflation / arm.n, mine)]
    found = nested.satterthwaite(parts)
    used = math.sqrt(mine.mean_square * inflation)
    if not found.value > 0:
        return Noise(None, used, source, "no spread between runs: no test is possible")
    return Noise(replace(found, baseline_share=theirs.mean_square / baseline.n / found.value), used, source)


def _unbiased(summary: Summary, name: str) -> Estimate:
    df = summary.n - 1
    return Estimate(name, ((summary.sd or 0.0) / c4(df)) ** 2, df)


def _pool(summaries: Sequence[Summary], name: str) -> Estimate:
    known = [s for s in summaries if s.shows_noise]
    df = sum(s.n - 1 for s in known)
    return Estimate(name, math.fsum((s.n - 1) * (s.sd or 0.0) ** 2 for s in known) / df, df)
