"""Three sentences a reader can quote from a matrix: what is decided, whether it is specific, what is not known."""

from __future__ import annotations

from dashboards.queries import Comparison
from dashboards.transfer import Additions
from dashboards.words import bracketed, counted, listed
from sweeps.analysis.matrix import Cell


def quotes(comparison: Comparison, found: Additions | None) -> tuple[str, str, str]:
    """For a transfer matrix; for arms in columns (``found`` None) without a word on what is specific."""
    family = [c for c in comparison.primary.matrix.cells if c.row in comparison.rows]
    open_ = sum(c.verdict == "undecided" for c in family)
    unsaid = f"{open_} of {len(family)} {'is' if open_ == 1 else 'are'} undecided, no evidence that nothing differs"
    if found is None:
        scope = "All of it holds for these models and these settings only."
        return f"{_decided(comparison, family)}.", f"{unsaid}.", scope
    count = counted(len(found.specific), "task")
    own = [c.row for c in family if c.row == c.column and c.verdict == "better"]
    specific = [s.against_others.column for s in found.specific if s.against_others.verdict == "more"]
    gain = f"; on {len(own)} of {count} the better ones include the activation learned for it"
    gain = gain if any(c.verdict == "better" for c in family) else ""
    second = (
        f"On {len(specific)} of {count}{bracketed(specific)} the activation learned for it beats the mean of those "
        "learned for the others; elsewhere it is not shown to be specific to its task."
    )
    silent = [c.label for c in comparison.columns if c.informative is False]
    blind = f"; {listed(silent, 8)} can show little, near chance or ceiling" if silent else ""
    scope = "all of it holds for these models, this step and this learning rate only"
    return f"{_decided(comparison, family)}{gain}.", second, f"{unsaid}{blind}; {scope}."


def _decided(comparison: Comparison, family: list[Cell]) -> str:
    part, baseline = comparison.primary, comparison.layout.baseline
    base, _, step = part.metric.partition("@")
    at = {"": "", "step": " at a fixed step", "final": " at the last step"}.get(step, f" at step {step}")
    better, worse = (sum(c.verdict == word for c in family) for word in ("better", "worse"))
    entries = counted(len(family), "entry", "entries")
    opening = "Exploratory: of" if comparison.exploratory and better + worse else "Of"
    return (
        f"{opening} {entries} of {base}{at}, {better or 'none'} {'is' if better < 2 else 'are'} decided as better and "
        f"{worse or 'none'} as worse than {baseline} (Student t, by pooled and by own noise, "
        f"family-wise error {part.matrix.alpha:g})"
    )
