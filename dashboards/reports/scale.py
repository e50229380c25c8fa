"""Scale stability: does an effect at one scale hold at another, and what of the arms that diverged there?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dashboards.charts.scales import Move, NormLine, Pair, norms_figure, ranks_figure, scatter_figure
from dashboards.evidence import Evidence
from dashboards.sheet import Entry, Picture, Section, Sheet, Table
from dashboards.two_scales import Both, TwoScales, two_scales
from dashboards.words import counted, listed, p_words, plain, short

FIELDS: dict[str, type] = {
    "arm": str, "class": str, "small": float, "small_error": float, "large": float, "large_error": float,
    "rank_small": int, "rank_large": int, "diverged": int, "started": int, "nan_step": int, "first_warning": int,
    "alarm_lead": int, "verdict_small": str, "verdict_large": str,
}  # fmt: skip


def scale_sheet(evidence: Evidence) -> Sheet:
    """The page of two scales.

    Raises:
        AnalysisError: fewer than two scales.
    """
    found = two_scales(evidence)
    lost = [a for a in found.arms if a.lost]
    sections = [_effects(evidence, found), _ranks(found)]
    sections += [_divergences(evidence, found, lost)] if lost or any(a.watched for a in found.arms) else []
    sections.append(_everything(found))
    both = sum(a.finished and not a.lost for a in found.arms)
    return Sheet(
        kind="scale",
        name=evidence.name,
        title=f"does what holds at {found.names[0]} hold at {found.names[1]}?",
        kicker=evidence.kicker,
        facts=(
            (str(len(found.arms)), "arms"),
            (str(both if not found.published else found.ranks.n if found.ranks else 0), "finished at both scales"),
            (str(len(lost)), "diverged in every seed"),
        ),
        quotes=(_sign_words(found), _rank_words(found), _loss_words(evidence, found, lost)),
        banners=tuple(("Exploratory.", f"{text}.") for text in evidence.exploratory),
        notes=evidence.remarks,
        sections=tuple(s for s in sections if s is not None),
        fields=FIELDS,
        records=[_record(a) for a in found.arms],
        content=_content(evidence, found),
        blanks=sum(not a.finished for a in found.arms),
    )


def _sign_words(found: TwoScales) -> str:
    if found.signs is None:
        return f"No arm has a value at both scales, so nothing is known of signs between {' and '.join(found.names)}."
    s, p = found.signs, 0.5**found.signs.total
    partly = [a.arm for a in found.arms if a.finished and not a.lost and not a.whole]
    lacking = f" (of {listed(partly)} without the runs that have no value)" if partly else ""
    chance = found.stability.sign_p if found.stability is not None else p if s.count == s.total else None
    arms = f"{'As published, ' if found.published else ''}{s.count} of the {counted(s.total, 'arm')}"
    text = (
        f"{arms} that finished at {found.names[0]} and {found.names[1]}{lacking} "
        f"{'keeps' if s.count == 1 else 'keep'} the sign of their effect "
        f"({s.low:.0%} to {s.high:.0%}"
    )
    if chance is None:
        return text + ")."
    return text + (
        f"; independent coin flips do as well with p {p_words(chance)}, and arms that share one baseline more often)."
    )


def _rank_words(found: TwoScales) -> str:
    r = found.ranks
    if r is None:
        return "Fewer than three arms finished at both scales: there is no order to compare."
    sure = r.p_permutation < 0.05
    text = (
        f"{'As published, ' if found.published else ''}Spearman's rho between the two orders is {r.rho:+.2f} with n = "
        f"{r.n}: permutation p {p_words(r.p_permutation)}, 95 % interval [{r.low:+.2f}, {r.high:+.2f}], so the orders "
    ).replace("-", "−")
    if sure:
        return text + ("agree" if r.rho > 0 else "are reversed") + " more than chance allows."
    return text + "cannot be told from unrelated ones, nor from moderate transfer."


def _loss_words(evidence: Evidence, found: TwoScales, lost: Sequence[Both]) -> str:
    share = found.lost
    if not lost:
        return f"No arm diverged in every seed at {found.names[1]}; nothing here speaks of another scale or recipe."
    lacking = [a.arm for a in lost if a.arm not in evidence.conduct.rescued]
    text = (
        f"{share.count} of {counted(share.total, 'arm')} diverged in every seed at {found.names[1]} "
        f"({share.low:.0%} to {share.high:.0%}): {listed([a.arm for a in lost])}"
    )
    if lacking:
        other = "“does not transfer” cannot be told from “needs another rate”"
        return f"{text}; without a rescue arm at a smaller rate, {other}."
    return f"{text}; each has a rescue arm at another rate."


def _effects(evidence: Evidence, found: TwoScales) -> Section | None:
    pairs = []
    for a in found.arms:
        if a.finished and not a.lost and a.small is not None and a.large is not None:
            small, large = a.small, a.large
            pairs.append(Pair(a.arm, small.difference or 0.0, _half(small), large.difference or 0.0, _half(large)))
    if not pairs or found.stability is None:
        return Section(
            "Effects at both scales",
            words=(f"Values at {found.names[1]} were not published; only ranks, signs and divergences are known.",),
        )
    s = found.stability
    notes = [
        f"Of the spread of effects, {s.reliability_small:.0%} at {found.names[0]} and {s.reliability_large:.0%} at "
        f"{found.names[1]} is more than their own noise; so noise alone would shrink a perfect agreement to a "
        f"correlation of {plain(s.attenuation or 0.0, 2)}."
    ]
    if s.disattenuated is not None:
        notes.append(f"Corrected for that, rho would be {short(s.disattenuated, 2)}: an estimate, with no interval.")
    if s.slope is not None:
        b = s.slope
        notes.append(
            f"An effect at {found.names[1]} is {short(b.value)} [{short(b.low)}, {short(b.high)}] times that at "
            f"{found.names[0]}, by a line through zero with errors on both sides (Deming, jackknife over arms), which "
            "noise does not flatten as it does a correlation."
        )
    return Section(
        "Effects at both scales",
        f"{evidence.metric}, difference from {evidence.options.baseline}",
        parts=(
            Picture("scales", lambda: scatter_figure(pairs, found.names, evidence.metric), "Effects at both scales",
                    "bars: 95 % intervals · line: equal effects · shaded: the sign changes", narrow=True),
        ),
        notes=tuple(notes),
    )  # fmt: skip


def _half(verdict: Any) -> float:
    return 0.0 if verdict.low is None or verdict.high is None else (verdict.high - verdict.low) / 2


def _ranks(found: TwoScales) -> Section | None:
    moves = [Move(a.arm, a.rank_small, a.rank_large) for a in found.arms if a.rank_small or a.rank_large]
    moves = [m for m in moves if m.small is not None and m.large is not None]
    moves += [Move(a.arm, None, None) for a in found.arms if a.lost]
    if found.ranks is None or not moves:
        return None
    r = found.ranks
    words = [
        f"t test p {p_words(r.p)}, permutation p {p_words(r.p_permutation)} ({'all orders' if r.exact else 'drawn'})"
    ]
    if found.critical is not None:
        words.append(f"with {counted(r.n, 'arm')}, |rho| must reach {found.critical:.2f} for p < 0.05")
    known = len([m for m in moves if m.large is not None])
    if known < r.n:
        words.append(f"{known} of the {r.n} ranks are public")
    return Section(
        "Ranks",
        f"rho {short(r.rho, 2)}, n = {r.n}",
        words=("; ".join(words) + ".",),
        parts=(
            Picture("ranks", lambda: ranks_figure(moves, found.names, r.n), "Ranks at both scales",
                    "blue: rises · orange: falls · ×: every seed diverged", narrow=True),
        ),
    )  # fmt: skip


def _divergences(evidence: Evidence, found: TwoScales, lost: Sequence[Both]) -> Section:
    rows = []
    for a in found.arms:
        alarms = [w.alarm for w in a.watched if w.alarm is not None]
        if not a.diverged and not alarms:
            continue
        heard = [alarm.words for alarm in alarms] or [w.reason or "" for w in a.watched] or ["no gradient norms"]
        before = "not judged" if a.small is None else a.small.verdict
        rescue = "yes" if a.arm in evidence.conduct.rescued else "none"
        kind = "bad" if a.lost else ""
        step = "not known" if a.nan_step is None else str(a.nan_step)
        rows.append(
            (Entry(a.arm, kind=kind), Entry(a.kind, kind="muted"), f"{a.diverged} of {a.started}", step,
             "; ".join(dict.fromkeys(heard)), before, rescue)
        )  # fmt: skip
    head = ("arm", "class", "diverged", "first at step", "alarm", f"at {found.names[0]}", "rescue arm")
    table = Table(head, tuple(rows), "llrrlll", f"Divergences at {found.names[1]}", name="divergences")
    lines = [
        _norm_line(w) for a in found.arms for w in a.watched if w.alarm is not None and (a.diverged or w.alarm.warn)
    ]
    parts: list[Table | Picture] = [table]
    notes = [
        "Alarm: median of 100 norms at 4 times its settled value for 200 steps, or a trend that doubles it in 2000."
    ]
    if lines:
        shown = lines[:8]
        key = "dashed: first warning · line: first non-finite value"
        parts.append(Picture("norms", lambda: norms_figure(shown), "Gradient norms of runs that diverged", key,
                             narrow=len(shown) == 1))  # fmt: skip
    if any(not w.trace.published for a in found.arms for w in a.watched):
        notes.append(
            "Norms logged at evaluations are means over the steps between them, drawn as exponential from one to the "
            "next: a rise within one interval is seen at its end."
        )
    if any(w.trace.published for a in found.arms for w in a.watched):
        notes.append(
            "Published traces are a few points (dots): drawn as constant before the first and exponential between and "
            "after them, so their lead is what such a course would have given."
        )
    return Section("Divergences", f"{counted(len(lost), 'arm')} in every seed", parts=tuple(parts), notes=tuple(notes))


def _norm_line(w: Any) -> NormLine:
    marks = []
    if w.alarm.warn is not None:
        marks.append((w.alarm.warn, f"warned at {w.alarm.warn}"))
    if w.alarm.nonfinite is not None:
        marks.append((w.alarm.nonfinite, f"not finite at {w.alarm.nonfinite}"))
    seed = "" if w.trace.seed is None else f", seed {w.trace.seed}"
    stride = max(1, len(w.steps) // 600)
    points = tuple((s, n) for s, n in zip(w.trace.steps, w.trace.norms, strict=True) if np.isfinite(n))
    shown = points if w.trace.published else ()
    return NormLine(f"{w.trace.arm}{seed}", w.steps[::stride], w.norms[::stride], tuple(marks), shown)


def _everything(found: TwoScales) -> Section:
    rows = [
        (a.arm, Entry(a.kind, kind="muted"), _effect_entry(a.small), _effect_entry(a.large, a, found.published),
         *(("none" if r is None else str(r)) for r in (a.rank_small, a.rank_large)))
        for a in found.arms
    ]  # fmt: skip
    one, two = found.names
    head = ("arm", "class", f"effect at {one}", f"effect at {two}", f"rank at {one}", f"rank at {two}")
    return Section(
        "Every arm",
        parts=(Table(head, tuple(rows), "llrrrr", f"Effects at {one} and {two}", name="scale"),),
    )


def _effect_entry(v: Any, arm: Both | None = None, published: bool = False) -> Entry:
    if arm is not None and arm.lost:
        return Entry("diverged", f"{arm.diverged} of {arm.started} seeds", kind="bad")
    if v is None:
        tried = arm is None or arm.started > 0
        return Entry("no value" if tried else "not named there" if published else "not tried", kind="empty")
    if v.difference is None:
        return Entry("none", v.reason or v.verdict, kind="empty")
    interval = "" if v.low is None or v.high is None else f"{short(v.low)} to {short(v.high)}"
    below = "\n".join(part for part in (interval, v.reason) if part)
    return Entry(short(v.difference), below, kind="decided" if v.decided else "undecided")


def _record(a: Both) -> dict[str, Any]:
    alarms = [w.alarm for w in a.watched if w.alarm is not None]
    warn = min((x.warn for x in alarms if x.warn is not None), default=None)
    lead = min((x.lead for x in alarms if x.lead is not None), default=None)
    small, large = a.small, a.large
    return {
        "arm": a.arm, "class": a.kind,
        "small": small.difference if small else None, "small_error": small.standard_error if small else None,
        "large": large.difference if large and not a.lost else None,
        "large_error": large.standard_error if large and not a.lost else None,
        "rank_small": a.rank_small, "rank_large": a.rank_large, "diverged": a.diverged, "started": a.started,
        "nan_step": a.nan_step, "first_warning": warn, "alarm_lead": lead,
        "verdict_small": small.verdict if small else "not judged",
        "verdict_large": "diverged" if a.lost else large.verdict if large else "not judged",
    }  # fmt: skip


def _content(evidence: Evidence, found: TwoScales) -> dict[str, Any]:
    r, s = found.ranks, found.stability
    return {
        "metric": evidence.metric,
        "baseline": evidence.options.baseline,
        "scales": list(found.names),
        "published": found.published,
        "spearman": None if r is None else {
            "rho": r.rho, "n": r.n, "low": r.low, "high": r.high, "p": r.p, "p_permutation": r.p_permutation,
            "critical": found.critical,
        },
        "same_sign": None if found.signs is None else [found.signs.count, found.signs.total],
        "attenuation": None if s is None else s.attenuation,
        "slope": None if s is None or s.slope is None else [s.slope.value, s.slope.low, s.slope.high],
        "diverged": [found.lost.count, found.lost.total, found.lost.low, found.lost.high],
        "rescued": list(evidence.conduct.rescued),
    }  # fmt: skip
