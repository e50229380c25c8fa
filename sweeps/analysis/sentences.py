"""Three sentences a reader can quote; they claim no more than the tests allow."""

from collections import Counter
from collections.abc import Sequence

from sweeps.analysis.comparison import Comparison
from sweeps.analysis.corrections import family_wise_error
from sweeps.analysis.sigma import parse
from sweeps.analysis.verdict import Verdict


def of_comparison(found: Comparison, metric: str) -> tuple[str, str, str]:
    """What is decided, what is not, and how it was tested."""
    groups = len({(v.task, v.scale) for v in found.verdicts})
    return (
        _decided([v for v in found.verdicts if v.verdict in ("better", "worse")], len(found.verdicts), found, groups),
        _open(found.verdicts),
        _how(found, metric),
    )


def _decided(decided: Sequence[Verdict], total: int, found: Comparison, groups: int) -> str:
    baseline = found.options.baseline
    if not decided and total == 1:
        return f"The contrast with {baseline} is decided neither way."
    if not decided:
        return f"None of {total} contrasts with {baseline} is decided better or worse."
    parts = []
    for word in ("better", "worse"):
        members = [v for v in decided if v.verdict == word]
        if members:
            parts.append(f"{', '.join(_named(v, groups) for v in members[:6])}{_more(members)} {word}")
    opening = "Exploratory, and no verdict yet: against" if found.exploratory else "Against"
    return f"{opening} {baseline}, {'; '.join(parts)}."


def _open(verdicts: Sequence[Verdict]) -> str:
    counts = Counter(v.verdict for v in verdicts)
    parts = []
    if counts["equivalent"]:
        margin = next(v.margin for v in verdicts if v.verdict == "equivalent")
        parts.append(f"{counts['equivalent']} equivalent within {margin:g}")
    if counts["undecided"]:
        parts.append(f"{counts['undecided']} undecided, which is no evidence of equality")
    parts += [f"{counts[word]} {word}" for word in ("diverged", "not run") if counts[word]]
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}." if text else "Every contrast is decided."


def _how(found: Comparison, metric: str) -> str:
    o = found.options
    seeds = sorted({v.n for v in found.verdicts if v.n})
    runs = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}" if seeds else "no"
    many = "run" if seeds == [1] else "runs"
    text = f"{metric}, {runs} {many} an arm, {'paired by seed, ' if o.paired else ''}t tests with sigma {o.sigma}"
    text += _too_small(found)
    family = found.verdicts[0].family if found.verdicts else o.correction
    text += f", {family}, level {found.level:.3g}"
    text += " of false discoveries among all" if o.correction in ("bh", "by") else ""
    text += " for improvers and as much again for degraders" if o.directional else ""
    text += "" if o.look is None else f" at look {o.look.now} of {len(o.look.fractions)} planned"
    if o.correction == "none" and len(found.verdicts) > 1:
        by_chance = family_wise_error(found.level, len(found.verdicts))
        text += f" each: were nothing different, one of them would be called so with a chance of up to {by_chance:.2g}"
    return f"{text}; exploratory: {found.exploratory}." if found.exploratory else f"{text}."


def _too_small(found: Comparison) -> str:
    """Words for a sigma that is given as known and that the runs themselves contradict."""
    rule, known = parse(found.options.sigma)
    shown = [f.pooled for f in found.floors if f.pooled is not None and known is not None and f.pooled.low > known]
    if rule != "known" or not shown:
        return ""
    worst = max(shown, key=lambda spread: spread.low)
    return f" (less than the runs show, {worst.sd:.3g} [{worst.low:.3g}, {worst.high:.3g}]: no error rate holds)"


def _named(v: Verdict, groups: int) -> str:
    place = "" if groups == 1 else f" on {v.task}" + (f" at {v.scale}" if v.scale is not None else "")
    return f"{v.arm}{place} ({v.difference:+.3g})"


def _more(members: Sequence[Verdict]) -> str:
    return f" and {len(members) - 6} more" if len(members) > 6 else ""
