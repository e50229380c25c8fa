"""A sweep that names no baseline: arms x columns with means and intervals, and no verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dashboards import colours
from dashboards.accounts import Accounts, accounts
from dashboards.charts.means import means_figure
from dashboards.levels import column_levels
from dashboards.queries import column_config, column_order, landmarks, slice_name
from dashboards.sheet import Entry, Picture, Section, Sheet, Table
from dashboards.words import percent
from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.means import Mean, mean_of
from sweeps.analysis.results import Result, at_chance, checked
from sweeps.layout import Layout, column_labels, find_layout
from sweeps.scores import measured, results_of
from sweeps.tables import Columns

FIELDS: dict[str, type] = {
    "metric": str, "arm": str, "column": str, "mean": float, "low": float, "high": float, "sd": float, "n": int,
    "searches": int, "diverged": int, "reason": str,
}  # fmt: skip
KEY = "dot: mean over seeds · bar: its interval (cut, as in the table, where a share ends) · dotted: chance"
ALL_RUNS = "all runs"


def means_sheet(root: Path, sweep: str, runs: Columns, block: Mapping[str, Any]) -> Sheet:
    """The page of a sweep without a baseline.

    Raises:
        AnalysisError: the sweep has no run.
    """
    layout = layout_without_baseline(runs, block)
    metric, values = measured(root, sweep, runs, layout, block)
    alpha = float(block.get("alpha", 0.05))
    cells = [cell for cell in runs.plan.get("cells", []) if layout.stage in (None, cell.get("stage"))]
    found = {name: _results(runs, name, layout, values if name == metric else None) for name in landmarks(runs, metric)}
    results = found[metric]
    if not results:
        raise AnalysisError(f"the sweep {sweep!r} has no run to show")
    columns = column_order(cells, layout, results)
    heads = column_labels(layout, cells)
    chance = {c: column_levels(column_config(cells, layout, c), block, c).chance for c in columns}
    arms = list(dict.fromkeys(r.arm for r in results))
    tables = {name: _means(found[name], arms, columns, chance, alpha) for name in found}
    share = all(0 <= m.value <= 1 for part in tables.values() for m in part if m.value is not None)
    counted = accounts(runs)
    main, *others = tables
    where = ", ".join(f"{name} {level}" for name, level in layout.where.items())
    sections = [
        Section(
            f"{layout.arm} by {' and '.join(layout.columns) or 'column'}" if layout.arm else "The runs",
            slice_name(metric, layout.where),
            words=(
                f"Each entry is a mean over seeds with its {1 - alpha:.0%} Student t interval, "
                + ("in per cent; " if share else "in the metric's own unit; ")
                + "darker is larger within a column. Intervals of different arms that do not overlap are no test: "
                "nothing here is corrected for the number of arms.",
                *((f"Fixed for this table: {where}.",) if where else ()),
            ),
            parts=(
                _table(tables[main], arms, columns, share, f"{metric} of {sweep}", layout.arm, heads),
                Picture("means", lambda: means_figure(tables[main], arms, columns, chance, share, heads),
                        "Mean and interval by arm", KEY),
            ),
        ),
        *(
            Section(slice_name(name, layout.where), folded=True,
                    parts=(replace(_table(tables[name], arms, columns, share, "", layout.arm, heads), name=""),))
            for name in others
        ),
        *_troubles(counted),
    ]  # fmt: skip
    records = [_record(name, m) for name, part in tables.items() for m in part]
    return Sheet(
        kind="means",
        name=sweep,
        title="arms by column, no baseline named",
        kicker=str((runs.plan.get("source") or {}).get("file") or ""),
        facts=((str(counted.states["completed"]), f"of {counted.runs} runs completed"), (str(len(arms)), "arms"),
               (str(len(columns)), "columns")),
        quotes=_quotes(tables[main], arms, columns, metric, sweep, alpha, share, heads),
        banners=(("No verdicts.", "The sweep names no baseline, so nothing is tested. Write "
                  f"`baseline: {{{layout.arm or 'factor'}: level}}` into its `analysis:` block, and the report gives a "
                  "verdict for every arm against that level, corrected for how many there are."),),
        notes=tuple(counted.notices),
        sections=tuple(sections),
        fields=FIELDS,
        records=records,
        content={"metric": metric, "arm": layout.arm, "alpha": alpha, "runs": {"all": counted.runs, **counted.states}},
        blanks=sum(m.value is None for m in tables[main]),
    )  # fmt: skip


def layout_without_baseline(runs: Columns, block: Mapping[str, Any]) -> Layout:
    """The layout as it would be with some level as the baseline; the arm is the block's, or the first factor with
    several levels that is neither task nor seed."""
    levels = {name: list(dict.fromkeys(v for v in runs.label(name) if v is not None)) for name in runs.factors}
    free = [n for n, found in levels.items() if n not in ("task", "seed", "search_seed") and len(found) > 1]
    arm = str(block.get("arm") or next(iter([*free, *(n for n in ("task",) if n in levels)]), ""))
    if arm not in levels:
        return Layout("", "", (), None, {}, None)
    return replace(find_layout(runs, block={**block, "arm": arm, "baseline": {arm: levels[arm][0]}}), baseline="")


def _results(runs: Columns, metric: str, layout: Layout, values: Mapping[str, float] | None) -> list[Result]:
    if layout.arm:
        return results_of(runs, metric, layout, values)
    names = ("run", "seed", "reason", f"summary.{metric}", "failure")
    return [
        Result(ALL_RUNS, "all", seed if seed is not None else -1, value=value,
               reason=None if value is not None else reason or f"no {metric} recorded", diverged=failure == "diverged")
        for _, seed, reason, value, failure in zip(*map(runs.values, names), strict=True)
    ]  # fmt: skip


def _means(
    results: Sequence[Result], arms: Sequence[str], columns: Sequence[str], chance: Mapping[str, Any], alpha: float
) -> list[Mean]:
    cells: dict[tuple[str, str], list[Result]] = {(arm, column): [] for arm in arms for column in columns}
    for result in checked(at_chance(r, chance.get(r.task)) for r in results):
        cells.setdefault((result.arm, result.task), []).append(result)
    return [mean_of(arm, column, cells[arm, column], alpha) for arm in arms for column in columns]


def _table(
    means: Sequence[Mean],
    arms: Sequence[str],
    columns: Sequence[str],
    share: bool,
    caption: str,
    factor: str,
    heads: Mapping[str, str],
) -> Table:
    by_key = {(m.arm, m.task): m for m in means}
    spans = {c: [m.value for m in means if m.task == c and m.value is not None] for c in columns}
    rows = tuple((Entry(arm), *(_entry(by_key[arm, c], spans[c], share) for c in columns)) for arm in arms)
    named = (factor, *(heads.get(c, c) for c in columns))
    return Table(named, rows, "l" + "c" * len(columns), caption, "matrix", "means")


def _entry(mean: Mean, span: Sequence[float], share: bool) -> Entry:
    if mean.value is None:
        return Entry(mean.reason or "no value", kind="empty")
    low, high = min(span), max(span)
    place = (mean.value - low) / (high - low) if high > low else 0.5
    count = f"n {mean.n}" + (f" · {mean.searches} searches" if mean.searches else "")
    if mean.low is None or mean.high is None:
        below = f"{mean.reason}\n{count}"
    else:
        ends = (max(0.0, mean.low), min(1.0, mean.high)) if share else (mean.low, mean.high)
        below = f"{number(ends[0], share)} to {number(ends[1], share)}\n{count}"
        below += f"\n{mean.reason}" if mean.reason else ""
    mark = "†" if mean.diverged else ""
    return Entry(number(mean.value, share) + mark, below, f"background-color:{colours.pale(place)}")


def number(value: float, share: bool) -> str:
    return (f"{100 * value:.1f}" if share else f"{value:.4g}").replace("-", "−")


def _quotes(
    means: Sequence[Mean],
    arms: Sequence[str],
    columns: Sequence[str],
    metric: str,
    sweep: str,
    alpha: float,
    share: bool,
    heads: Mapping[str, str],
) -> tuple[str, str, str]:
    having = [m for m in means if m.value is not None]
    seeds = sorted({m.n for m in having})
    runs = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}" if seeds else "no"
    arm_words = (
        f"{len(arms)} arm{'s' if len(arms) != 1 else ''} in {len(columns)} column{'s' if len(columns) != 1 else ''}"
    )
    first = f"{sweep} measured {metric} for {arm_words}, with {runs} runs behind each of {len(having)} means."
    blank = len(means) - len(having)
    second = f"{blank} of {len(means)} cells have no number; each says why." if blank else "Every cell has a number."
    widest = max((m for m in having if m.low is not None and m.high is not None),
                 key=lambda m: (m.high or 0) - (m.low or 0), default=None)  # fmt: skip
    if widest is not None and widest.low is not None and widest.high is not None:
        wide = widest.high - widest.low
        size = percent(wide).replace(" %", " percentage points") if share else f"{wide:.3g}"
        where = f"{widest.arm} on {heads.get(widest.task, widest.task)}"
        second += f" The widest {1 - alpha:.0%} interval spans {size} ({where})."
    return first, second, "No arm is called better or worse than another: without a baseline nothing was tested."


def _troubles(counted: Accounts) -> list[Section]:
    rows = [(t.what, t.reason, str(len(t.runs)), t.message or "none recorded")
            for t in (*counted.diverged, *counted.troubles)]  # fmt: skip
    if not rows:
        return []
    return [Section("What went wrong", parts=(Table(("runs", "reason", "n", "message"), tuple(rows), "llrl"),))]


def _record(metric: str, mean: Mean) -> dict[str, Any]:
    return {
        "metric": metric, "arm": mean.arm, "column": mean.task, "mean": mean.value, "low": mean.low, "high": mean.high,
        "sd": mean.sd, "n": mean.n, "searches": mean.searches, "diverged": mean.diverged, "reason": mean.reason,
    }  # fmt: skip
