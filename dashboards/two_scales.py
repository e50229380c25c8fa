"""Effects of every arm at two scales, and what the two say about each other; published ranks where values are not."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from dashboards.evidence import Evidence, number_setting
from dashboards.norms import Watched, watched
from dashboards.verdicts import Verdicts, verdicts_of
from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.ranks import LARGEST_EXACT, RankCorrelation, critical_rho, fisher_interval, permutation_p, t_p
from sweeps.analysis.stability import Effect, Share, Stability, clopper_pearson, compare_scales
from sweeps.analysis.verdict import Verdict


@dataclass(frozen=True)
class Both:
    """One arm at both scales.

    Attributes:
        arm, kind: its name and class.
        small, large: verdicts, None where the arm was not tried (or the scale could not be judged).
        rank_small, rank_large: among the arms that finished at both, by effect or as published.
        diverged, started: runs at the larger scale.
        nan_step: first non-finite step there.
        watched: its gradient norms.
    """

    arm: str
    kind: str
    small: Verdict | None
    large: Verdict | None
    rank_small: int | None
    rank_large: int | None
    diverged: int
    started: int
    nan_step: int | None
    watched: tuple[Watched, ...]

    @property
    def lost(self) -> bool:
        return self.started > 0 and self.diverged >= self.started

    @property
    def finished(self) -> bool:
        """With an effect at both scales."""
        values = [v.difference if v is not None else None for v in (self.small, self.large)]
        return None not in values

    @property
    def whole(self) -> bool:
        """Without a run that has no value, its own or the baseline's."""
        return all(v is not None and "without a value" not in (v.reason or "") for v in (self.small, self.large))


@dataclass(frozen=True)
class TwoScales:
    """The whole comparison.

    Attributes:
        names: the two scales.
        arms: all arms tried at either.
        stability: from effects; None where fewer than one arm has values at both.
        ranks: Spearman's rho, from effects or as published.
        signs: arms that keep their sign; ``lost`` arms of which every seed diverged.
        critical: |rho| needed for p < 0.05 at this many arms, None beyond what is counted.
        published: whether ranks and signs are as published, not from effects.
        small: verdicts at the smaller scale, None where it could not be judged.
    """

    names: tuple[str, str]
    arms: tuple[Both, ...]
    stability: Stability | None
    ranks: RankCorrelation | None
    signs: Share | None
    lost: Share
    critical: float | None
    published: bool
    small: Verdicts | None


def two_scales(evidence: Evidence) -> TwoScales:
    """Compare the first scale of the evidence with its last.

    Raises:
        AnalysisError: fewer than two scales.
    """
    scales = [s for s in evidence.scales if s is not None]
    if len(scales) < 2:
        found = f"one scale ({scales[0]})" if scales else "no scale"
        raise AnalysisError(
            f"{evidence.name} has {found}: give a column (or a factor `scale`) with two (--scale-column)"
        )
    names = scales[0], scales[-1]
    judged = [_judged(evidence, scale) for scale in names]
    by_arm = [{j.verdict.arm: j.verdict for j in v.judged} if v else {} for v in judged]
    warm_up = int(number_setting(evidence.settings, "warm_up") or 0)
    arms = tuple(_both(evidence, arm, names, by_arm, warm_up) for arm in evidence.arms)
    sds = tuple(v.sigma if v is not None else None for v in judged)
    effects = [e for e in (_effect(arm, *sds) for arm in arms) if e is not None]
    stable = compare_scales(effects) if any(e.large is not None for e in effects) else None
    arms = _ranked(arms) if stable is not None else arms
    published = stable is None
    ranks = stable.ranks if stable is not None else _published_ranks(evidence)
    signs = stable.same_sign if stable is not None else _published_signs(evidence)
    tried = int(number_setting(evidence.settings, "tried") or 0) or sum(
        a.started > 0 or a.large is not None for a in arms
    )
    n = ranks.n if ranks is not None else 0
    critical = critical_rho(n) if 4 < n <= LARGEST_EXACT else None
    lost = clopper_pearson(sum(a.lost for a in arms), max(1, tried))
    return TwoScales(names, arms, stable, ranks, signs, lost, critical, published, judged[0])


def _judged(evidence: Evidence, scale: str) -> Verdicts | None:
    """Verdicts at a scale; None where the baseline has no value there."""
    here = evidence.at(scale)
    base = [r.value for r in here.results if r.arm == evidence.options.baseline]
    base += [m.mean for m in here.means if m.arm == evidence.options.baseline]
    return verdicts_of(here) if any(value is not None for value in base) else None


def _both(evidence: Evidence, arm: str, names: tuple[str, str], by_arm: list[dict[str, Verdict]], warm_up: int) -> Both:
    large = names[1]
    runs = [r for r in evidence.results if (r.arm, r.scale) == (arm, large)]
    seeds = {(r.search, r.seed): False for r in runs}
    for r in runs:
        seeds[r.search, r.seed] |= r.diverged
    means = [m for m in evidence.means if (m.arm, m.scale) == (arm, large)]
    return Both(
        arm=arm,
        kind=evidence.classes.get(arm, "not given"),
        small=by_arm[0].get(arm),
        large=by_arm[1].get(arm),
        rank_small=evidence.ranks.get((arm, names[0])),
        rank_large=evidence.ranks.get((arm, large)),
        diverged=sum(seeds.values()) + sum(m.diverged for m in means),
        started=len(seeds) + sum(m.n for m in means),
        nan_step=evidence.nan_steps.get((arm, large)),
        watched=tuple(watched(t, warm_up) for t in evidence.traces if t.arm == arm and t.scale in (None, large)),
    )


def _effect(arm: Both, small_sd: float | None, large_sd: float | None) -> Effect | None:
    """The arm for `compare_scales`; None where nothing is known at the smaller scale.

    Its errors are from the sd of one run, not from verdicts, which take a noise that is not known to be large: that is
    cautious in a test, and here it would call agreement noise.
    """
    small, large = arm.small, arm.large
    if small is None or small.difference is None or not arm.started:
        return None
    usable = large is not None and large.difference is not None and not arm.lost
    return Effect(
        arm.arm,
        small.difference,
        _error(small, small_sd) or 0.0,
        large.difference if usable and large is not None else None,
        _error(large, large_sd) if usable and large is not None else None,
        (arm.diverged, arm.started),
        _noise(small, small_sd),
        _noise(large, large_sd) if usable and large is not None else None,
    )


def _error(verdict: Verdict, sd: float | None) -> float | None:
    """Standard error of a difference by the sd of one run; a searched arm's is the verdict's."""
    if sd is None or verdict.searches or not verdict.n or not verdict.n_baseline:
        return verdict.standard_error
    return sd * math.sqrt(1 / verdict.n + 1 / verdict.n_baseline)


def _noise(verdict: Verdict, sd: float | None) -> float | None:
    """Standard error of the arm's own mean; None where it is not told from the baseline's."""
    return None if sd is None or verdict.searches or not verdict.n else sd / math.sqrt(verdict.n)


def _ranked(arms: tuple[Both, ...]) -> tuple[Both, ...]:
    """Ranks by effect among the arms that finished at both scales, 1 for the largest."""
    both = [a for a in arms if a.finished and not a.lost]

    def place(arm: Both, which: str) -> int | None:
        if arm not in both:
            return None
        mine = getattr(arm, which).difference
        return 1 + sum(getattr(other, which).difference > mine for other in both)

    return tuple(replace(a, rank_small=place(a, "small"), rank_large=place(a, "large")) for a in arms)


def _published_ranks(evidence: Evidence) -> RankCorrelation | None:
    """A published rho with the uncertainty it was published without."""
    rho, n = (number_setting(evidence.settings, name) for name in ("rho", "completed"))
    if rho is None or n is None or not 3 <= n <= LARGEST_EXACT:
        return None
    count = int(n)
    low, high = fisher_interval(rho, count)
    return RankCorrelation(rho, count, low, high, t_p(rho, count), permutation_p(rho, count), True)


def _published_signs(evidence: Evidence) -> Share | None:
    same, n = (number_setting(evidence.settings, name) for name in ("same_sign", "completed"))
    return None if same is None or n is None else clopper_pearson(int(same), int(n))
