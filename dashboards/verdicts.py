"""The verdicts a report shows: the engine's over runs, or over published means, with the audit's z rule beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dashboards.evidence import Evidence
from sweeps.analysis.audit import TESTS, AuditLine, line
from sweeps.analysis.comparison import compare
from sweeps.analysis.default_power import Plan, detectable_by_default, provable_by_default
from sweeps.analysis.equivalence import provable_margin
from sweeps.analysis.options import Options
from sweeps.analysis.power import detectable
from sweeps.analysis.sigma import FEWEST_BASELINE
from sweeps.analysis.summaries import Summary, compare_summaries, plain_summaries, pooled_df
from sweeps.analysis.verdict import Verdict


@dataclass(frozen=True)
class Judged:
    """One arm under both rules.

    Attributes:
        verdict: the one that counts.
        z: the audit's rule (z against the baseline's sd, Bonferroni), None without that sd or without a difference.
        plain: over published means only: Student's t with the baseline's sd for every arm.
        pooled: the same if the arms with replicates shared the baseline's spread.
        kind: class of the change.
    """

    verdict: Verdict
    z: AuditLine | None
    plain: Verdict | None
    pooled: Verdict | None
    kind: str


@dataclass(frozen=True)
class Seen:
    """What a design can see with 80 % power.

    Attributes:
        n, n_baseline: runs of an arm and of the baseline.
        df: degrees of freedom of sigma for ``plain_effect``.
        effect, margin: smallest effect and provable equivalence margin by the rule that decides; None where that rule
            decides nothing with so few baseline runs.
        plain_effect: smallest effect of a Student t with that sigma, after Bonferroni.
    """

    n: int
    n_baseline: int
    df: float
    effect: float | None
    margin: float | None
    plain_effect: float


@dataclass(frozen=True)
class Verdicts:
    """All of one scale.

    Attributes:
        judged: by descending difference, arms without one last.
        family: size of the family.
        sigma, df: sd of one run as the smallest detectable effects take it (pooled where runs are known).
        band: the baseline's own sd, which draws the noise band and defines z; None with one baseline run.
        n_baseline: runs of the baseline; ``baseline`` its mean.
        seen: by runs an arm; ``rule`` names the rule that decides, as far as power is known for it.
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
    rule: str
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
        return _of_means(evidence)
    found = compare(evidence.averaged(), options)
    floor = found.floors[0] if found.floors else None
    band = floor.own.sd if floor is not None and floor.own is not None and floor.own.sd > 0 else None
    family = max(len(found.verdicts), options.family or 0)
    judged = tuple(_judged(evidence, v, band, family) for v in found.verdicts)
    counts = sorted({v.n for v in found.verdicts if v.n})
    pool = floor.pooled if floor is not None and floor.pooled is not None and floor.pooled.sd > 0 else None
    rule, seen = "", ()
    if floor is not None and pool is not None:
        arms_df = pool.df - (floor.own.df if floor.own is not None else 0)
        designs = [(n, n > 1, arms_df - (n - 1)) for n in counts]
        rule, seen = _seen(designs, options, floor.n, pool.sd, pool.df, len(found.verdicts), family)
    return Verdicts(
        judged,
        family,
        pool.sd if pool else None,
        pool.df if pool else 0,
        band,
        floor.n if floor else 0,
        floor.baseline if floor else None,
        seen,
        rule,
        found.exploratory,
    )


def _of_means(evidence: Evidence) -> Verdicts:
    """Published means: the rule of the options, and beside it Student's t with the baseline's sd for every arm."""
    options, base = evidence.options, evidence.summary(evidence.options.baseline)
    arms = [m for m in evidence.means if m.arm != options.baseline]
    band, df = evidence.sigma
    found = compare_summaries(arms, base, options) if base else []
    plain = plain_summaries(arms, base, options, band, df, "the baseline's sd") if base else []
    more = pooled_df(evidence.means)
    words = "if every arm with replicates had the baseline's sd"
    pooled = plain_summaries(arms, base, options, band, more, words) if base and more > df else []
    by_plain, by_pooled = ({v.arm: v for v in verdicts} for verdicts in (plain, pooled))
    family = max(len(arms), options.family or 0)
    judged = tuple(_judged(evidence, v, band, family, by_plain.get(v.arm), by_pooled.get(v.arm)) for v in found)
    designs = sorted({(m.n, m.shows_noise, _others(m, arms)) for m in arms if m.mean is not None and m.n})
    n, mean = (base.n, base.mean) if base else (0, None)
    rule, seen = _seen(designs, options, n, band, df, len(arms), family)
    return Verdicts(judged, family, band, df, band, n, mean, seen, rule)


def _others(summary: Summary, arms: Sequence[Summary]) -> float:
    """Degrees of freedom of the other arms with a published sd."""
    return sum(m.n - 1 for m in arms if m.shows_noise and m is not summary)


def _judged(
    evidence: Evidence,
    verdict: Verdict,
    band: float | None,
    family: int,
    plain: Verdict | None = None,
    pooled: Verdict | None = None,
) -> Judged:
    z = None
    if band and verdict.difference is not None:
        z = line(verdict.arm, verdict.difference / band, family or TESTS, evidence.options.alpha)
    return Judged(verdict, z, plain, pooled, evidence.classes.get(verdict.arm, "not given"))


def _seen(
    designs: Sequence[tuple[int, bool, float]],
    options: Options,
    n_baseline: int,
    sigma: float,
    df: float,
    arms: int,
    family: int,
) -> tuple[str, tuple[Seen, ...]]:
    """What each design (runs an arm, whether its own noise shows, df of the other arms) can see, and by which rule."""
    by_default = options.sigma == "auto" and not options.paired and not options.directional
    level, made = options.level / max(1, family), []
    for n, shows, others in designs:
        plain = detectable(sigma, n, n_baseline, df, level)
        if not by_default:
            made.append(Seen(n, n_baseline, df, plain, provable_margin(sigma, n, n_baseline, df), plain))
        elif n_baseline < FEWEST_BASELINE:
            made.append(Seen(n, n_baseline, df, None, None, plain))
        else:
            plan = Plan(n, n_baseline, max(arms, family), options.level, seen=shows, others_df=others,
                        correction=options.correction)  # fmt: skip
            made.append(
                Seen(n, n_baseline, df, detectable_by_default(plan, sigma), provable_by_default(plan, sigma), plain)
            )
    name = "the rule that decides (either side the larger of its own and the pooled noise)"
    return name if by_default else "Student t with that sd, Bonferroni", tuple(made)
