"""The sections below a transfer matrix: short tables and one picture, each with what it may be quoted for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dashboards.charts.own import MARKS, Place, own_figure
from dashboards.queries import Comparison
from dashboards.sheet import Entry, Picture, Section, Table
from dashboards.transfer import GAIN, RANDOM, Additions, BestFixed, in_points
from dashboards.words import between, bracketed, counted, p_words, plain, signed
from sweeps.analysis.linear import Linear
from sweeps.analysis.seed_spread import SeedSpread
from sweeps.analysis.steps_to_accuracy import Speed

NOTHING = Entry("none", kind="empty")


def sections(comparison: Comparison, found: Additions) -> list[list[Section]]:
    """In the order of the page; what stands in one list stands side by side."""
    controls = [_shape(found)] if found.shape else []
    controls += [_fixed(comparison, found.fixed)] if found.fixed else []
    noise = [_spreads(comparison, found.spreads), _speeds(comparison, found.speeds)]
    return [group for group in ([_specific(comparison, found)], controls, [_over_time(comparison)], noise) if group]


def contrast_entry(found: Linear | None) -> Entry:
    """A contrast in percentage points with its interval."""
    if found is None:
        return Entry("not asked", kind="empty")
    c = in_points(found)
    if c.value is None:
        return Entry(c.verdict, c.reason or "", kind="empty")
    interval = "" if c.low is None or c.high is None else f"{signed(c.low)} to {signed(c.high)}"
    kind = "decided" if c.decided else "undecided"
    return Entry(signed(c.value), "\n".join(w for w in (interval, c.reason) if w), kind=kind)


def _specific(comparison: Comparison, found: Additions) -> Section:
    rows = []
    for s in found.specific:
        c = s.against_others
        best = NOTHING
        if s.best_other is not None:
            gap = found.means.get((c.column, c.column), 0.0) - s.best_other[1]
            best = Entry(s.best_other[0], f"own less it {signed(100 * gap)}")
        word = {"more": "specific", "less": "the others are better"}.get(c.verdict, c.verdict)
        kind = "decided" if c.decided else "undecided"
        rows.append(
            (
                c.column,
                contrast_entry(c),
                p_words(c.p_adjusted),
                f"{s.beaten} of {s.rivals}",
                best,
                Entry(word, kind=kind),
            )
        )
    specific = [s.against_others.column for s in found.specific if s.against_others.verdict == "more"]
    count = len(found.specific)
    words = (
        f"Own is better than the mean of the other rows in {len(specific)} of {counted(count, 'column')}"
        f"{bracketed(specific)}, by t tests with Holm over the columns.",
        *_index_words(found),
    )
    table = Table(
        ("column", "own less other rows", "p (Holm)", "beaten one by one", "best other row", ""),
        tuple(rows),
        "lrrrll",
        "Own row against the other rows of the column, percentage points; intervals uncorrected",
        name="specificity",
    )
    key = "blue: the row made for the column, filled where decided, with its uncorrected interval"
    key += " · grey: the other rows, bar: mean"
    present = [arm for arm in (GAIN, RANDOM) if arm in comparison.controls]
    key += "".join(f" · {shape}: {arm}" for arm, shape in ((GAIN, "diamond"), (RANDOM, "square")) if arm in present)
    picture = Picture("own", lambda: own_figure(_places(comparison, found)), "Own row among the others, by column", key)
    return Section("Is it specific to its task?", "own row against the other rows", words, (picture, table))


def _index_words(found: Additions) -> tuple[str, ...]:
    index = found.index
    if index.value is None or index.low is None or index.high is None:
        return (f"No specificity index: {index.reason}.",)
    text = (
        f"Specificity index: {index.value:+.2f} [{index.low:+.2f}, {index.high:+.2f}], the mean of that difference "
        f"over {counted(index.columns, 'column')} in units of the room between chance and ceiling."
    )
    return (text.replace("-", "−") + (f" {index.reason.capitalize()}." if index.reason else ""),)


def _places(comparison: Comparison, found: Additions) -> list[Place]:
    baseline = comparison.layout.baseline
    places = []
    for s in found.specific:
        column = s.against_others.column
        base = found.means.get((baseline, column))
        cell = comparison.primary.matrix.cell(column, column)

        def gap(arm: str, column: str = column, base: float | None = base) -> float | None:
            mean = found.means.get((arm, column))
            return None if mean is None or base is None else 100 * (mean - base)

        others = [v for row in comparison.rows if row != column and (v := gap(row)) is not None]
        controls = [(a, v) for a in MARKS if a in comparison.controls and (v := gap(a)) is not None]
        decided = s.against_others.verdict == "more"
        places.append(Place(column, cell.value, cell.low, cell.high, tuple(others), tuple(controls), decided))
    return places


def _shape(found: Additions) -> Section:
    columns = [c.column for c in next(iter(found.shape.values()))]
    head = {GAIN: "less a·GeLU(b·x)", RANDOM: "less a random spline"}
    arms = list(found.shape)
    by_key = {(arm, c.column): c for arm in arms for c in found.shape[arm]}
    rows = tuple((column, *(contrast_entry(by_key[arm, column]) for arm in arms)) for column in columns)
    words = []
    for arm in arms:
        more = [c.column for c in found.shape[arm] if c.verdict == "more"]
        less = [c.column for c in found.shape[arm] if c.verdict == "less"]
        rival = {GAIN: "a GeLU with only its two gains searched", RANDOM: "a random spline of equal size"}[arm]
        text = f"The learned spline is better than {rival} in {len(more)} of {len(columns)} columns{bracketed(more)}"
        words.append(text + (f" and worse in {len(less)}{bracketed(less)}." if less else "."))
    words.append("Where neither is decided, the gain may be one of scale and not of shape; that is not shown either.")
    table = Table(
        ("column", *(head[arm] for arm in arms)),
        rows,
        "l" + "r" * len(arms),
        "Own spline less control, percentage points; decided by Holm over both, intervals uncorrected",
        name="shape",
    )
    return Section("Is it the shape, or only the gain?", "own spline against its controls", tuple(words), (table,))


def _fixed(comparison: Comparison, fixed: Sequence[BestFixed]) -> Section:
    baseline = comparison.layout.baseline
    rows = []
    for f in fixed:
        chosen = Entry("none", f.reason or "", kind="empty") if f.chosen is None else f.chosen
        over = Entry("is the baseline", kind="muted") if f.chosen == baseline else contrast_entry(f.over_baseline)
        rows.append((f.column, chosen, over, contrast_entry(f.against)))
    more = [f.column for f in fixed if f.against is not None and f.against.verdict == "more"]
    words = (
        f"The best fixed activation of each column was chosen on validation data and compared on test data: the "
        f"learned one is better in {len(more)} of {len(fixed)} columns{bracketed(more)}.",
        f"A run that was lucky is so on both, so every candidate counts in the family, and one is called other than "
        f"{baseline} only where the matrix says so.",
    )
    head = ("column", "best fixed one", f"it less {baseline}", "learned less it")
    table = Table(
        head,
        tuple(rows),
        "llrr",
        "Best fixed activation, percentage points on test data; intervals uncorrected",
        name="fixed",
    )
    return Section("Would a better fixed activation do?", "chosen on held-out data", words, (table,))


def _over_time(comparison: Comparison) -> Section:
    """The diagonal in every slice at the main levels."""
    parts = [p for p in comparison.in_order if p.where == comparison.primary.where]
    columns = [c.name for c in comparison.columns if c.name in comparison.rows]
    rows = []
    for column in columns:
        entries = []
        for part in parts:
            cell = part.matrix.cell(column, column)
            if cell.value is None:
                entries.append(Entry(cell.verdict, cell.reason or "", kind="empty"))
                continue
            below = between(*cell.interval) if cell.interval else cell.reason or ""
            kind = "decided" if cell.decided else "undecided"
            entries.append(Entry(signed(cell.value), "\n".join(w for w in (below, cell.basis) if w), kind=kind))
        rows.append((column, *entries))
    names = [part.name.partition(",")[0] for part in parts]
    table = Table(
        ("column", *names),
        tuple(rows),
        "l" + "r" * len(parts),
        f"Own row less {comparison.layout.baseline}, percentage points; each step is a family of its own",
        name="steps",
    )
    words = ("An advantage that is gone at the last step is one of speed, not of where training ends.",)
    return Section("When does it help?", "own row at each step, and over the whole curve", words, (table,))


def _spreads(comparison: Comparison, spreads: Sequence[SeedSpread]) -> Section:
    rows = []
    for s in spreads:
        ratio = Entry("none", s.reason or "", kind="empty")
        if s.ratio is not None:
            interval = "" if s.low is None or s.high is None else f"{plain(s.low)} to {plain(s.high)}"
            kind = "decided" if s.verdict != "undecided" else "undecided"
            ratio = Entry(f"{s.ratio:.2f}", "\n".join(w for w in (interval, s.reason) if w), kind=kind)
        rows.append((s.column, _points(s.baseline_sd), _points(s.arm_sd), ratio, _points(s.search_sd, "one search")))
    smaller = [s.column for s in spreads if s.verdict == "smaller"]
    larger = [s.column for s in spreads if s.verdict == "larger"]
    words = (
        f"The spread between seeds is decided as smaller than the baseline's in {len(smaller)} of {len(spreads)} "
        f"columns{bracketed(smaller)} and as larger in {len(larger)}{bracketed(larger)}, by F intervals, "
        "Bonferroni over the columns; near the ceiling any spread is small.",
    )
    head = ("column", f"sd of seeds, {comparison.layout.baseline}", "sd of seeds, own", "ratio", "sd of searches, own")
    table = Table(head, tuple(rows), "lrrrr", "Seeds and searches apart, percentage points", name="spread")
    return Section("Does the seed variance vanish?", "spread within an arm", words, (table,))


def _points(sd: float | None, otherwise: str = "one seed") -> Entry | str:
    return Entry(otherwise, kind="empty") if sd is None else f"{100 * sd:.1f}"


def _speeds(comparison: Comparison, speeds: Sequence[Speed]) -> Section:
    rows = []
    for s in speeds:
        target = NOTHING if s.target is None else f"{100 * s.target:.1f} %"
        ratio = Entry("none", s.reason or "", kind="empty")
        if s.ratio is not None:
            interval = "" if s.low is None or s.high is None else f"{s.low:.2f} to {s.high:.2f}"
            ratio = Entry(f"{s.bound} {s.ratio:.2f}".strip(), interval, kind="undecided")
        rows.append((s.column, target, ratio, f"{s.baseline_censored} of {s.n_baseline}", f"{s.censored} of {s.n}"))
    baseline = comparison.layout.baseline
    head = ("column", "target", "speed-up", f"never, {baseline}", "never, own")
    table = Table(head, tuple(rows), "lrrrr", f"Steps of {baseline} over steps of the own row", name="speed")
    words = (
        f"Steps until the accuracy that {baseline} has on average at the compared step; a run that never reaches it "
        "counts at its last step, so the ratio is a bound (“at least”, “at most”).",
    )
    notes = () if all(s.decides for s in speeds if s.ratio is not None) else (
        "Bootstrap intervals over this few seeds cover less than they say: shown, and deciding nothing.",
    )  # fmt: skip
    return Section("How much sooner?", "steps to an accuracy", words, (table,), notes)


def records(found: Additions) -> list[dict[str, Any]]:
    """Every contrast as a flat record, percentage points."""
    groups: list[tuple[str, Linear | None]] = [("own less other rows", s.against_others) for s in found.specific]
    groups += [(f"own less {arm}", c) for arm, contrasts in found.shape.items() for c in contrasts]
    groups += [(f"own less best fixed, {f.chosen}", f.against) for f in found.fixed]
    groups += [(f"best fixed less baseline, {f.chosen}", f.over_baseline) for f in found.fixed]
    made = []
    for question, contrast in groups:
        if contrast is None:
            continue
        c = in_points(contrast)
        made.append({"question": question, "column": c.column, "value": c.value, "low": c.low, "high": c.high,
                     "p": c.p, "p_adjusted": c.p_adjusted, "df": c.df, "n": c.n, "verdict": c.verdict,
                     "reason": c.reason})  # fmt: skip
    return made


FIELDS: dict[str, type] = {
    "question": str, "column": str, "value": float, "low": float, "high": float, "p": float, "p_adjusted": float,
    "df": float, "n": int, "verdict": str, "reason": str,
}  # fmt: skip
