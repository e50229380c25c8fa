"""Factorial: main effects and interactions over chosen cells, the count of harmful choices, and the noise of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dashboards.charts.factors import count_figure
from dashboards.charts.forest import Line, forest_figure
from dashboards.factorial_fits import Found, fits
from dashboards.factors import Design, design
from dashboards.sheet import Entry, Picture, Section, Sheet, Table
from dashboards.table_rows import TableRows
from dashboards.words import counted, listed, p_words, plain, short
from sweeps.analysis import student
from sweeps.analysis.factorial import Pair, Term, cell_means

FIELDS: dict[str, type] = {
    "term": str, "effect": float, "standard_error": float, "low": float, "high": float, "t": float, "df": int,
    "p": float, "p_adjusted": float, "decided": bool,
}  # fmt: skip


def factorial_sheet(table: TableRows, outcome: str | None = None) -> Sheet:
    """The page of a table whose columns are factors.

    Raises:
        AnalysisError: no outcome or factor, or terms that cannot be told apart in these cells.
    """
    found = fits(design(table, outcome))
    plan = found.plan
    sections = [_effects(found), _harm(found), _interaction(found), _noise(found)]
    return Sheet(
        kind="factorial",
        name=table.name,
        title=f"which choices move {plan.outcome}?",
        kicker=table.file,
        facts=(
            (str(len(plan.rows)), "runs"),
            (str(len(plan.factors)), "factors"),
            (f"{found.main.r_squared:.2f}", "R² of main effects"),
            *(((f"{found.count.r_squared:.2f}", "R² of harmful choices"),) if found.count else ()),
        ),
        quotes=(_effect_words(found), _count_words(found), _noise_words(found)),
        banners=_banners(plan),
        notes=(" ".join(table.remarks),) if table.remarks else (),
        sections=tuple(s for s in sections if s is not None),
        fields=FIELDS,
        records=[_record(t, p, found.sure(p)) for t, p in zip(found.main.terms, found.adjusted, strict=True)],
        content=_content(found),
        blanks=plan.dropped,
    )  # fmt: skip


def _banners(plan: Design) -> tuple[tuple[str, str], ...]:
    made = []
    if plan.dropped:
        made.append(("Not all runs.", f"{counted(plan.dropped, 'row')} without {plan.outcome} left out."))
    if plan.nested:
        made.append(
            (
                "Too sure.",
                f"Runs share the product of a search ({plan.nested}), which least squares does not know "
                "of: standard errors of searched arms are too small here; the matrix knows of it.",
            )
        )
    return tuple(made)


def _effect_words(found: Found) -> str:
    terms = [f"{t.name} ({short(t.effect)} [{short(t.low)}, {short(t.high)}])" for t in found.decided]
    n = len(found.main.terms)
    fitted = f"{counted(n, 'term')} fitted to {found.plan.outcome} over {counted(found.main.n, 'run')}"
    if found.plan.nested is not None:
        return f"None of the {fitted} is decided here: runs share searches, which least squares does not know of."
    return (
        f"Of {fitted}, {_none(terms)} {'is' if len(terms) < 2 else 'are'} decided after Holm at 0.05; cells were "
        "chosen, not drawn, so effects hold for these cells."
    )


def _none(terms: Sequence[str]) -> str:
    return f"{len(terms)} ({listed(terms)})" if terms else "none"


def _count_words(found: Found) -> str:
    if found.count is None:
        return "No list of harmful choices was stated beforehand; counting those that came out negative fits the noise."
    term = found.count.terms[0]
    return (
        f"The number of harmful choices ({listed([h.name for h in found.plan.harmful])}) explains R² = "
        f"{found.count.r_squared:.2f} of {found.plan.outcome} in sample and {found.count.r_squared_left_out:.2f} left "
        f"out, at {short(term.effect)} ± {plain(term.standard_error, 2)} a choice{found.plan.published}."
    )


def _noise_words(found: Found) -> str:
    if found.noise is None:
        return "No run was repeated, so the noise of a single run, and of every single comparison, is not known."
    sd, df = found.noise
    limit = student.critical(0.025, df) * math.sqrt(2) * sd
    text = (
        f"Runs that differ in {found.plan.replicate} only have an sd of {plain(sd)} ({df} degrees of freedom), so that "
        f"single comparisons of two runs below about {plain(limit)} (95 %, Student t) are within the noise"
    )
    if not found.pairs or found.plan.replicate == "seed":
        return text + "."
    small = sum(abs(p.change) < limit for p in found.pairs)
    return f"{text}: {small} of the {counted(len(found.pairs), 'pair')} that differ in one factor are."


def _effects(found: Found) -> Section:
    ordered = sorted(zip(found.main.terms, found.adjusted, strict=True), key=lambda pair: -pair[0].effect)
    lines = [
        Line(t.name, t.effect, t.low, t.high, verdict=_verdict(t, found.sure(p)), words=f"p {p_words(p)} (Holm)")
        for t, p in ordered
    ]  # fmt: skip
    rows = tuple(
        (
            Entry(t.name, kind="decided" if found.sure(p) else "undecided"), short(t.effect), plain(t.standard_error),
            f"{short(t.low)} to {short(t.high)}", short(t.t), p_words(t.p),
            Entry(p_words(p), kind="decided" if found.sure(p) else "undecided"),
        )
        for t, p in ordered
    )  # fmt: skip
    head = ("term", "effect", "standard error", "95 % interval", "t", "p", "p (Holm)")
    table = Table(head, rows, "lrrrrrr", f"Main effects and interactions on {found.plan.outcome}", name="factorial")
    main, label = found.main, f"effect on {found.plan.outcome}"
    return Section(
        "Main effects and interactions",
        f"least squares, {main.n} runs, {main.df} degrees of freedom, R² {main.r_squared:.2f} "
        f"({main.r_squared_left_out:.2f} left out)",
        parts=(
            Picture("effects", lambda: forest_figure(lines, None, label), "Effects with their intervals",
                    "dot: effect with everything else in the model held · bar: its own 95 % interval · bold: decided"),
            table,
        ),
        notes=(f"Residual sd {plain(main.residual_sd)}.",),
    )  # fmt: skip


def _verdict(term: Term, sure: bool) -> str:
    if not sure:
        return "undecided"
    return "better" if term.effect > 0 else "worse"


def _harm(found: Found) -> Section | None:
    if found.count is None:
        return None
    term, y = found.count.terms[0], [float(row[found.plan.outcome] or 0.0) for row in found.plan.rows]
    start = math.fsum(y) / len(y) - term.effect * sum(found.counts) / len(found.counts)
    outcome = found.plan.outcome
    stated = "; ".join(f"{h.name}: {h.column} {h.sign} {h.level}" for h in found.plan.harmful)
    return Section(
        "Counting harmful choices",
        f"R² {found.count.r_squared:.2f} in sample, {found.count.r_squared_left_out:.2f} left out",
        words=(
            f"{short(term.effect)} a choice (standard error {plain(term.standard_error)}, t {short(term.t)}, "
            f"p {p_words(term.p)}). Left out: every run predicted by a fit that has not seen it.",
        ),
        parts=(
            Picture("count", lambda: count_figure(found.counts, y, (start, term.effect), outcome),
                    f"{outcome} over the number of harmful choices", "one dot a run · dashed: the fit", narrow=True),
        ),
        notes=(f"Harmful: {stated}.",),
    )  # fmt: skip


def _interaction(found: Found) -> Section | None:
    """Cell means of the interactions' two factors."""
    tables = []
    by_name = {t.name: t for t in found.plan.terms}
    y = [float(row[found.plan.outcome] or 0.0) for row in found.plan.rows]
    for one, other in found.plan.interactions:
        a, b = ([int(by_name[n].holds(row)) for row in found.plan.rows] for n in (one, other))
        means = cell_means(a, b, y)

        def cell(i: int, j: int, means: dict[tuple[int, int], tuple[float, int]] = means) -> Entry:
            return (
                Entry(plain(means[i, j][0]), f"n {means[i, j][1]}")
                if (i, j) in means
                else Entry("no run", kind="empty")
            )

        rows = tuple((f"{'with' if i else 'without'} {one}", cell(i, 0), cell(i, 1)) for i in (0, 1))
        caption = f"Mean {found.plan.outcome} by {one} and {other}"
        tables.append(Table(("", f"without {other}", f"with {other}"), rows, "lrr", caption, name="cells"))
    if not tables:
        return None
    return Section("Do they add up?", "cell means, other factors not held", parts=tuple(tables))


def _noise(found: Found) -> Section:
    shown = sorted(found.pairs, key=lambda p: (p.factor, -abs(p.change)))
    noise = found.noise[0] if found.noise else None
    rows = tuple(
        (
            p.factor, f"{p.before} → {p.after}", short(p.change),
            Entry("not known", kind="empty") if noise is None
            else Entry(f"{abs(p.change) / (math.sqrt(2) * noise):.1f}", kind="muted"),
            Entry(_shared(p, found.plan.replicate), kind="muted"),
        )
        for p in shown
    )  # fmt: skip
    said = "no replicate" if found.noise is None else f"sd of a run {plain(found.noise[0])}, {found.noise[1]} df"
    words = () if rows else ("No two runs differ in one factor only.",)
    notes = ()
    if found.replicates and found.plan.replicate != "seed":
        pairs = "; ".join(" and ".join(plain(v) for v in group) for group in found.replicates[:12])
        notes = (
            f"{counted(len(found.replicates), 'group')} of runs that differ in {found.plan.replicate} only: {pairs}.",
        )
    head = ("factor", "change", found.plan.outcome, "in sd of a difference", "both with")
    table = Table(head, rows, "llrrl", "Pairs of runs that differ in one factor", name="pairs")
    return Section(
        "One factor at a time, and the noise of a run", said, words, (table,) if rows else (), notes, len(rows) > 24
    )


def _shared(pair: Pair, replicate: str | None) -> str:
    return ", ".join(f"{name} {level}" for name, level in pair.shared if name != replicate)


def _record(term: Term, adjusted: float, sure: bool) -> dict[str, Any]:
    return {
        "term": term.name, "effect": term.effect, "standard_error": term.standard_error, "low": term.low,
        "high": term.high, "t": term.t, "df": term.df, "p": term.p, "p_adjusted": adjusted, "decided": sure,
    }  # fmt: skip


def _content(found: Found) -> dict[str, Any]:
    return {
        "outcome": found.plan.outcome,
        "factors": list(found.plan.factors),
        "runs": found.main.n,
        "r_squared": found.main.r_squared,
        "r_squared_left_out": found.main.r_squared_left_out,
        "residual_sd": found.main.residual_sd,
        "harmful_choices": None if found.count is None else {
            "choices": [h.name for h in found.plan.harmful],
            "r_squared": found.count.r_squared,
            "r_squared_left_out": found.count.r_squared_left_out,
            "effect": found.count.terms[0].effect,
            "standard_error": found.count.terms[0].standard_error,
        },
        "replicate_sd": None if found.noise is None else found.noise[0],
        "replicate_df": None if found.noise is None else found.noise[1],
    }  # fmt: skip
