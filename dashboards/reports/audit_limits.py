"""What an audit could have seen, and what was not done: its power, and the twelve rules."""

from __future__ import annotations

from collections.abc import Sequence

from dashboards.rules import MET, MISSED, PARTLY, Rule
from dashboards.sheet import Entry, Section, Table
from dashboards.verdicts import Seen, Verdicts
from dashboards.words import counted, plain


def limit_words(verdicts: Verdicts) -> str:
    """A sentence to quote: how large an effect had to be."""
    if not verdicts.seen:
        return "The noise of one run is not known, so nothing can be said about effects that were not found."
    fewest = verdicts.seen[0]
    return (
        f"Undecided is not equal: with {counted(fewest.n, 'run')} an arm against {fewest.n_baseline} of the baseline, "
        f"{_needed(fewest)}, and nothing here speaks of other scales or recipes."
    )


def _needed(seen: Seen) -> str:
    if seen.effect is None:
        return f"nothing is decided: {counted(seen.n_baseline, 'run')} cannot show the baseline's noise"
    text = f"an effect had to be about {plain(seen.effect)} to be found with 80 % power"
    if seen.effect > 1.05 * seen.plain_effect:
        text += f" ({plain(seen.plain_effect)} by a t test that takes all arms for equally noisy)"
    return text


def power_section(name: str, verdicts: Verdicts) -> Section:
    """Smallest effects and provable margins by the rule that decides, and by a plain t."""
    if verdicts.sigma is None or not verdicts.seen:
        return Section("What could have been seen", words=("The noise of one run is not known: no seed was repeated.",))
    none, sigma = Entry("decides nothing", kind="empty"), verdicts.sigma
    rows = tuple(
        (
            f"{s.n} v {s.n_baseline}",
            none if s.effect is None else plain(s.effect),
            none if s.effect is None else f"{s.effect / sigma:.1f}",
            none if s.margin is None else plain(s.margin),
            Entry(plain(s.plain_effect), f"df {s.df:.3g}", kind="muted"),
        )
        for s in verdicts.seen
    )
    head = ("runs", "smallest effect", "in sd of one run", "provable margin", "by a plain t")
    return Section(
        "What could have been seen",
        f"sd of one run {plain(verdicts.sigma)}, {verdicts.df:.3g} degrees of freedom",
        words=(
            f"Smallest true difference found with 80 % power, corrected over the family, by {verdicts.rule}; and the "
            "smallest margin within which an equal arm would be proven equivalent with 80 % power. "
            "By a plain t: with that sd for all arms and Bonferroni, which decides nothing here.",
        ),
        parts=(Table(head, rows, "lrrrr", f"{name}: what the design can see", name="detectable"),),
    )


def rules_section(rules: Sequence[Rule]) -> Section:
    """R1 to R12."""
    kinds = {MET: "good", MISSED: "bad", PARTLY: "bad"}
    rows = tuple((r.code, r.asks, Entry(r.answer, kind=kinds.get(r.answer, "muted")), r.why) for r in rules)
    met = sum(r.answer == MET for r in rules)
    return Section(
        "Twelve rules, and what was really done",
        f"{met} of {len(rules)} met",
        parts=(Table(("", "rule", "", "evidence"), rows, "llll", "Rules R1 to R12", name="checklist"),),
        notes=("R1 to R4: Narang et al. 2021; R5 to R7: arXiv 2605.20798; R8 to R12: ours.",),
    )
