"""The verdicts a report shows: the engine's over runs, or over published means, with the audit's z rule beside them."""

from __future__ import annotations

from dataclasses import dataclass

from dashboards.evidence import Evidence
from sweeps.analysis.audit import TESTS, AuditLine, line
from sweeps.analysis.comparison import compare
from sweeps.analysis.equivalence import provable_margin
from sweeps.analysis.power import detectable
from sweeps.analysis.summaries import compare_summaries, pooled_df
from sweeps.analysis.verdict import Verdict


@dataclass(frozen=True)
class Judged:
    """One arm under both rules.

    Attributes:
        verdict: the one that counts.
        z: the audit's rule (z against the baseline's sd, Bonferroni), None without that sd or without a difference.
        pooled: over published means only: the verdict if the arms with replicates shared the baseline's spread.
        kind: class of the change.
    """

    verdict: Verdict
    z: AuditLine | None
    pooled: Verdict | None
    kind: str


@dataclass(frozen=True)
class Seen:
    """What a design can see: smallest effect with 80 % power after Bonferroni, and provable equivalence margin."""

    n: int
    n_baseline: int
    df: float
    effect: float
    margin: float


@dataclass(frozen=True)
class Verdicts:
    """All of one scale.

    Attributes:
        judged: by descending difference, arms without one last.
        family: size of the family.
        sigma, df: sd of one run as the smallest detectable effects take it (pooled where runs are known).
        band: the baseline's own sd, which draws the noise band and defines z; None with one baseline run.
        n_baseline: runs of the baseline; ``baseline`` its mean.
        seen: by runs an arm.
        exploratory: why the verdicts are not confirmatory, or None.
    """

    judged: tuple[Judged, ...]
    family: int
    sigma: float | None
    df: float
    band: float | None
    n_baseline: int
    baseline: float | None
    seen: tuple[Seen, ...]
    exploratory: str | None = None

    def named(self, *words: str) -> list[str]:
        """Arms with one of these verdicts."""
        return [j.verdict.arm for j in self.judged if j.verdict.verdict in words]


def verdicts_of(evidence: Evidence) -> Verdicts:
    """Judge every arm at the evidence's one scale.

    Raises:
        AnalysisError: no baseline, no noise, or results that cannot be compared.
    """
    options = evidence.options
    if evidence.means:
        base = evidence.summary(options.baseline)
        arms = [m for m in evidence.means if m.arm != options.baseline]
        band, df = evidence.sigma
        own = compare_summaries(arms, base, options, band, df, "the baseline's sd") if base else []
        more = pooled_df(evidence.means)
        words = "if every arm with replicates had the baseline's sd"
        pooled = compare_summaries(arms, base, options, band, more, words) if base and more > df else []
        by_arm = {v.arm: v for v in pooled}
        family = max(len(arms), options.family or 0)
        judged = tuple(_judged(evidence, v, band, family, by_arm.get(v.arm)) for v in own)
        n, mean = (base.n, base.mean) if base else (0, None)
        counts = sorted({m.n for m in arms if m.mean is not None})
        return Verdicts(
            judged, family, band, df, band, n, mean, _seen(counts, n, band, df, options.alpha / max(1, family))
        )
    found = compare(evidence.averaged(), options)
    floor = found.floors[0] if found.floors else None
    band = floor.own.sd if floor is not None and floor.own is not None and floor.own.sd > 0 else None
    family = max(len(found.verdicts), options.family or 0)
    judged = tuple(_judged(evidence, v, band, family, None) for v in found.verdicts)
    counts = sorted({v.n for v in found.verdicts if v.n})
    pool = floor.pooled if floor is not None and floor.pooled is not None and floor.pooled.sd > 0 else None
    return Verdicts(
        judged,
        family,
        pool.sd if pool else None,
        pool.df if pool else 0,
        band,
        floor.n if floor else 0,
        floor.baseline if floor else None,
        _seen(counts, floor.n, pool.sd, pool.df, options.alpha / max(1, family)) if floor and pool else (),
        found.exploratory,
    )


def _judged(evidence: Evidence, verdict: Verdict, band: float | None, family: int, pooled: Verdict | None) -> Judged:
    z = None
    if band and verdict.difference is not None:
        z = line(verdict.arm, verdict.difference / band, family or TESTS, evidence.options.alpha)
    return Judged(verdict, z, pooled, evidence.classes.get(verdict.arm, "not given"))


def _seen(counts: list[int], n_baseline: int, sigma: float, df: float, level: float) -> tuple[Seen, ...]:
    return tuple(
        Seen(
            n,
            n_baseline,
            df,
            detectable(sigma, n, n_baseline, df, level),
            provable_margin(sigma, n, n_baseline, df),
        )
        for n in counts
    )
