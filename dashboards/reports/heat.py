"""Arms x tasks as a heat map, every cell a verdict of its own within one family."""

from __future__ import annotations

from dashboards import colours
from dashboards.evidence import Evidence
from dashboards.sheet import Entry, Section, Table
from dashboards.words import p_words, short
from sweeps.analysis.comparison import compare
from sweeps.analysis.verdict import Verdict


def heat_section(evidence: Evidence) -> list[Section]:
    """The heat map, or why there is none."""
    title = "Task by task"
    if not evidence.results:
        return [
            Section(title, words=("Only means over all tasks were published, so no task can be judged by itself.",))
        ]
    if len(evidence.tasks) < 2:
        return []
    options = evidence.options
    found = compare(evidence.results, options)
    by_key = {(v.arm, v.task): v for v in found.verdicts}
    largest = max((abs(v.difference) for v in found.verdicts if v.difference is not None), default=1.0) or 1.0
    turn = -1 if options.lower_is_better else 1
    rows = tuple(
        (Entry(arm), *(_entry(by_key.get((arm, task)), turn / largest) for task in evidence.tasks))
        for arm in evidence.arms
    )
    decided = sum(v.decided for v in found.verdicts)
    return [
        Section(
            title,
            f"{decided} of {len(found.verdicts)} cells decided; one family of {len(found.verdicts)}",
            words=(f"Difference from {options.baseline} with its p corrected over all cells; bold cells are decided.",),
            parts=(
                Table(("", *(evidence.heads.get(t, t) for t in evidence.tasks)), rows, "l" + "c" * len(evidence.tasks),
                      f"{evidence.name}: {evidence.metric} by task", "matrix", "tasks"),
            ),
        )
    ]  # fmt: skip


def _entry(v: Verdict | None, share: float) -> Entry:
    if v is None:
        return Entry("not planned", kind="empty")
    if v.difference is None:
        return Entry(v.verdict, v.reason or "no reason given", kind="empty")
    fill = colours.diverging(v.difference * share, decided=v.decided)
    ink = colours.ink_on(fill) if v.decided else "#57606a"
    below = f"p {p_words(v.p_adjusted)}" if v.p_adjusted is not None else v.reason or "not tested"
    kind = "decided" if v.decided else "undecided"
    return Entry(short(v.difference), f"{below}\nn {v.n}", f"background-color:{fill};color:{ink}", kind, v.words)
