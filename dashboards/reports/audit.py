"""The audit: effects against the noise, two rules side by side, what could have been seen, and what was not done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from dashboards.charts.forest import Line, forest_figure
from dashboards.evidence import Evidence
from dashboards.reports.audit_limits import limit_words, power_section, rules_section
from dashboards.reports.heat import heat_section
from dashboards.rules import checklist
from dashboards.sheet import Entry, Picture, Section, Sheet, Table
from dashboards.verdicts import Judged, Verdicts, verdicts_of
from dashboards.words import counted, listed, p_words, short
from sweeps.analysis.audit import BAND, uncorrected_error
from sweeps.analysis.sigma import NOISE_RATIO

FIELDS: dict[str, type] = {
    "arm": str, "class": str, "scale": str, "verdict": str, "n": int, "n_baseline": int, "difference": float,
    "low": float, "high": float, "family_low": float, "family_high": float, "standard_error": float, "t": float,
    "df": float, "p": float, "p_adjusted": float, "z": float, "p_z": float, "p_z_bonferroni": float,
    "t_plain": float, "df_plain": float, "p_plain": float, "p_plain_adjusted": float, "verdict_plain": str,
    "p_if_pooled": float, "diverged": int, "reason": str, "words": str,
}  # fmt: skip
KEY = (
    "dot: difference of means · thick: its own interval · thin: the interval for the whole family, which excludes zero "
    "exactly where the arm is decided · grey: ±2 sd of one baseline run, the noise band of the z rule"
)


def audit_sheet(evidence: Evidence, scale: str | None = None) -> Sheet:
    """The audit of one scale (the first, where none is named).

    Raises:
        AnalysisError: no baseline, no noise, or results that cannot be compared.
    """
    scale = scale if scale is not None else evidence.settings.get("scale", evidence.scales[0])
    here = evidence.at(scale)
    verdicts = verdicts_of(here)
    rules = checklist(evidence, verdicts)
    where = f" at {scale}" if scale else ""
    better, worse = verdicts.named("better"), verdicts.named("worse")
    undecided = verdicts.named("undecided", "not run", "diverged")
    banners = [("Exploratory.", f"{text}.") for text in evidence.exploratory]
    if verdicts.exploratory:
        banners.append(("Unfinished, so exploratory.", f"{verdicts.exploratory}; arms with such runs are not decided."))
    return Sheet(
        kind="audit",
        name=evidence.name,
        title=f"which of {counted(len(verdicts.judged), 'change')} differ from the baseline{where}",
        kicker=evidence.kicker,
        facts=(
            (str(len(better)), "better"),
            (str(len(worse)), "worse"),
            (str(len(verdicts.named("equivalent"))), "equivalent"),
            (str(len(undecided)), "undecided or without a number"),
        ),
        quotes=_quotes(here, verdicts, scale),
        banners=tuple(banners),
        notes=(*evidence.remarks, *evidence.beside(scale)),
        sections=(
            _forest(here, verdicts),
            _two_rules(here, verdicts),
            *heat_section(here),
            power_section(evidence.name, verdicts),
            rules_section(rules),
        ),
        fields=FIELDS,
        records=[_record(j) for j in verdicts.judged],
        content={
            "metric": evidence.metric,
            "baseline": evidence.options.baseline,
            "scale": scale,
            "alpha": evidence.options.alpha,
            "correction": evidence.options.correction,
            "family": verdicts.family,
            "sigma": verdicts.sigma,
            "sigma_df": verdicts.df,
            "baseline_sd": verdicts.band,
            "detectable": [asdict(s) for s in verdicts.seen],
            "checklist": [asdict(rule) for rule in rules],
        },
        blanks=sum(j.verdict.difference is None for j in verdicts.judged),
    )


def _quotes(evidence: Evidence, verdicts: Verdicts, scale: str | None) -> tuple[str, str, str]:
    options, where = evidence.options, f" at {scale}" if scale else ""
    better, worse = verdicts.named("better"), verdicts.named("worse")
    named = len(verdicts.judged)
    first = (
        f"Of {counted(named, 'change')} compared with {options.baseline} by {evidence.metric}{where}, {_group(better)} "
        f"came out as better and {_group(worse)} as worse; {_error_words(evidence, verdicts.family)}."
    )
    return first, _rule_words(evidence, verdicts), limit_words(verdicts)


def _group(arms: Sequence[str]) -> str:
    """``none`` or ``2 (a and b)``."""
    return f"{len(arms)} ({listed(arms)})" if arms else "none"


def _error_words(evidence: Evidence, family: int) -> str:
    options = evidence.options
    if options.correction == "none":
        return f"t tests at {options.alpha:g} each, not corrected for {counted(family, 'test')}"
    kind = "false discovery rate" if options.correction in ("bh", "by") else "family-wise error"
    name = options.correction.upper() if options.correction in ("bh", "by") else options.correction.capitalize()
    return f"{kind} {options.alpha:g} (t tests, {name} over a family of {family})"


def _rule_words(evidence: Evidence, verdicts: Verdicts) -> str:
    """How the z rule of the published audit would have judged the same numbers."""
    if verdicts.band is None:
        return "The z rule of the published audit cannot be applied: the baseline's own sd is not known."
    survivors = [j for j in verdicts.judged if j.z is not None and j.z.survives]
    lost = [j.verdict.arm for j in survivors if not j.verdict.decided]
    if not survivors:
        return "The published audit's rule, z against the baseline's sd with Bonferroni, decides none of them either."
    text = f"The published audit's rule, z against the baseline's sd with Bonferroni, decides {len(survivors)}"
    if not lost:
        return f"{text}, all of which stand when sd and standard error are estimated as they are."
    by_plain = [j.verdict.arm for j in survivors if j.plain is not None and j.plain.decided and not j.verdict.decided]
    known = [arm for arm in lost if arm not in by_plain]
    if known:
        text += f"; {listed(known)} {'does' if len(known) == 1 else 'do'} not survive a t test that knows the sd comes "
        text += f"from {counted(verdicts.n_baseline, 'baseline run')} and a difference has two means"
    if by_plain:
        text += f"; {listed(by_plain)} {'does' if len(by_plain) == 1 else 'do'} only if arms without a known sd are no "
        text += "noisier than the baseline"
    return f"{text}."


def _forest(evidence: Evidence, verdicts: Verdicts) -> Section:
    lines = [
        Line(v.arm, v.difference, v.low, v.high, v.family_low, v.family_high, v.verdict, _tag(v))
        for v in (j.verdict for j in verdicts.judged)
    ]
    better = "less is better" if evidence.options.lower_is_better else "more is better"
    label = f"difference from the baseline, {evidence.metric} ({better})"
    return Section(
        "Effects against the noise",
        f"{evidence.metric}, difference from {evidence.options.baseline}",
        parts=(
            Picture(
                "forest",
                lambda: forest_figure(lines, verdicts.band, label),
                "Forest plot: difference of each arm from the baseline with its intervals and the noise band",
                KEY,
            ),
        ),
    )


def _tag(v: Any) -> str:
    runs = f"n {v.n}" if v.n else "no run"
    if v.difference is None:
        return f"{v.verdict}, {runs}"
    return f"{v.verdict}, {runs}, p {p_words(v.p_adjusted)}" if v.p_adjusted is not None else f"{v.verdict}, {runs}"


def _two_rules(evidence: Evidence, verdicts: Verdicts) -> Section:
    pooled, bare = (any(getattr(j, name) is not None for j in verdicts.judged) for name in ("pooled", "plain"))
    classes = bool(evidence.classes)
    head = [
        "arm",
        *(["class"] if classes else []),
        "n",
        "difference",
        "z",
        "p (z, Bonferroni)",
        *(["t, plain", "p (t, plain)"] if bare else []),
        "t that decides" if bare else "t",
        "df",
        "p (t)",
        "p (corrected)",
    ]
    head += ["if sd pooled"] if pooled else []
    rows = []
    for j in verdicts.judged:
        v = j.verdict
        kind = "decided" if v.decided else "empty" if v.difference is None else "undecided"
        row = [
            Entry(v.arm, kind=kind),
            *((Entry(j.kind, kind="muted"),) if classes else ()),
            str(v.n),
            "none" if v.difference is None else short(v.difference),
            *_z_entries(j),
            *(_plain_entries(j) if bare else ()),
            *_t_entries(j),
        ]
        if pooled:
            row.append(_pooled_entry(j, evidence.options.alpha))
        rows.append((*row, Entry(v.headline, kind=kind)))
    word = (
        f"Dunnett over {verdicts.family}" if evidence.options.correction == "dunnett" else evidence.options.correction
    )
    notes = [
        f"z: difference over the sd of the baseline's runs, as if it were known; |z| ≤ {BAND:g} is the noise band.",
        f"t: difference over its standard error, with the sd's own degrees of freedom; corrected by {word}.",
    ]
    if bare:
        notes.append(
            "t, plain: the baseline's sd for every arm, p alone and corrected likewise. It does not decide: an arm "
            "whose own sd was not published (a single run has none) may be noisier, and then some of 19 that do not "
            "differ are called different in 9 to 17 % of audits. The t that decides takes such an arm to be up to "
            f"{NOISE_RATIO:g} times as noisy, as compare does (docs/statistics.md)."
        )
    if pooled:
        notes.append(
            "if sd pooled: the corrected p if every arm with replicates had the baseline's sd, which was not "
            "published; it decides nothing here."
        )
    return Section(
        "Two rules, side by side",
        f"without any correction, {counted(verdicts.family, 'test')} of nothing would flag something in "
        f"{uncorrected_error(verdicts.family, evidence.options.alpha):.0%} of all audits",
        parts=(
            Table(
                (*head, "verdict"),
                tuple(rows),
                "l" * (2 if classes else 1) + "r" * (len(head) - (2 if classes else 1)) + "l",
                f"{evidence.name}: {evidence.metric} against {evidence.options.baseline}, two rules",
                name="audit",
            ),
        ),
        notes=tuple(notes),
    )


def _z_entries(j: Judged) -> tuple[Entry | str, Entry | str]:
    if j.z is None:
        return Entry("none", kind="empty"), Entry("none", kind="empty")
    return short(j.z.z), Entry(p_words(j.z.p_bonferroni), kind="decided" if j.z.survives else "undecided")


def _plain_entries(j: Judged) -> tuple[Entry | str, Entry | str]:
    v = j.plain
    if v is None or v.statistic is None:
        return Entry("none", kind="empty"), Entry("none", kind="empty")
    corrected = "not tested" if v.p_adjusted is None else f"corrected {p_words(v.p_adjusted)}"
    return short(v.statistic), Entry(p_words(v.p), corrected, kind="decided" if v.decided else "undecided")


def _t_entries(j: Judged) -> tuple[Entry | str, ...]:
    v = j.verdict
    if v.statistic is None or v.df is None:
        return tuple(Entry("none", kind="empty") for _ in range(4))
    corrected = Entry("not tested", kind="empty") if v.p_adjusted is None else Entry(
        p_words(v.p_adjusted), kind="decided" if v.decided else "undecided"
    )  # fmt: skip
    return short(v.statistic), f"{v.df:.3g}", p_words(v.p), corrected


def _pooled_entry(j: Judged, alpha: float) -> Entry:
    v = j.pooled
    if v is None or v.p_adjusted is None or v.df is None:
        return Entry("none", kind="empty")
    return Entry(p_words(v.p_adjusted), f"df {v.df:.3g}", kind="decided" if v.p_adjusted < alpha else "undecided")


def _record(j: Judged) -> dict[str, Any]:
    v = j.verdict
    return {
        "arm": v.arm, "class": j.kind, "scale": v.scale, "verdict": v.verdict, "n": v.n, "n_baseline": v.n_baseline,
        "difference": v.difference, "low": v.low, "high": v.high, "family_low": v.family_low,
        "family_high": v.family_high, "standard_error": v.standard_error, "t": v.statistic,
        "df": None if v.df is None or v.df == float("inf") else v.df, "p": v.p, "p_adjusted": v.p_adjusted,
        "z": j.z.z if j.z else None, "p_z": j.z.p if j.z else None,
        "p_z_bonferroni": j.z.p_bonferroni if j.z else None,
        "t_plain": j.plain.statistic if j.plain else None, "df_plain": j.plain.df if j.plain else None,
        "p_plain": j.plain.p if j.plain else None, "p_plain_adjusted": j.plain.p_adjusted if j.plain else None,
        "verdict_plain": j.plain.verdict if j.plain else None,
        "p_if_pooled": j.pooled.p_adjusted if j.pooled else None, "diverged": v.diverged, "reason": v.reason,
        "words": v.words,
    }  # fmt: skip
