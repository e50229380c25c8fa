"""A verdict on one arm, in words a reader can check: test, n, df, sigma, family."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """One arm against the baseline on one task at one scale; lengths in the metric's unit.

    Attributes:
        arm, task, scale: what was compared.
        verdict: better, worse, equivalent, undecided, not run or diverged.
        n, n_baseline: runs behind either mean (pairs, where paired).
        searches: searches the arm's runs are nested in; 0 for an arm that was not searched.
        mean: of the arm.
        difference: mean of the arm minus mean of the baseline.
        standard_error, statistic, df: of the difference.
        p: two-sided, this contrast alone.
        p_adjusted: after the correction, over the family.
        low, high: interval of this contrast alone, at the level tested at.
        family_low, family_high: simultaneous interval, where the correction has one (Dunnett, Bonferroni,
            Sidak, Holm); else None.
        p_equivalence: of lying within the margin (TOST), Holm over the family; None without a margin.
        margin: the equivalence margin.
        sd: of the arm's own runs; None for a single one.
        sigma: sd of one run the test rests on, and ``sigma_source`` where it is from.
        hedges_g: standardised difference of two unsearched arms; None for single runs.
        permutation_p, permutation_floor: exact permutation test and the least p it could give.
        pair_correlation: r of the pairs, where seeds are shared.
        test: name of the test; ``family``: what was corrected for.
        more: about how many more runs a side would decide at the difference seen; None if above 200.
        more_unit: "seeds" or "searches".
        diverged: diverged runs among those started.
        reason: why there is no number, or no decision; None otherwise.
        notes: what else a referee would want to know.
    """

    arm: str
    task: str
    scale: str | None
    verdict: str
    n: int = 0
    n_baseline: int = 0
    searches: int = 0
    mean: float | None = None
    difference: float | None = None
    standard_error: float | None = None
    statistic: float | None = None
    df: float | None = None
    p: float | None = None
    p_adjusted: float | None = None
    low: float | None = None
    high: float | None = None
    family_low: float | None = None
    family_high: float | None = None
    p_equivalence: float | None = None
    margin: float | None = None
    sd: float | None = None
    sigma: float | None = None
    sigma_source: str = ""
    hedges_g: float | None = None
    permutation_p: float | None = None
    permutation_floor: float | None = None
    pair_correlation: float | None = None
    test: str = ""
    family: str = ""
    more: int | None = None
    more_unit: str = "seeds"
    diverged: int = 0
    reason: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def decided(self) -> bool:
        return self.verdict in ("better", "worse", "equivalent")

    @property
    def headline(self) -> str:
        """The verdict with what qualifies it: ``undecided (3 seeds; about 4 more would decide)``."""
        if self.verdict == "equivalent":
            return f"equivalent within {self.margin:g}"
        if self.verdict in ("not run", "diverged"):
            return f"{self.verdict} ({self.reason})"
        if self.verdict != "undecided":
            return self.verdict
        runs = f"{self.n} {'seed' if self.n == 1 else 'seeds'}"
        if self.searches:
            runs += f" in {self.searches} {'search' if self.searches == 1 else 'searches'}"
        if self.reason:
            return f"undecided ({runs}; {self.reason})"
        if self.more is None:
            return f"undecided ({runs}; more than 200 more would be needed)"
        return f"undecided ({runs}; about {self.more} more {self.more_unit} would decide)"

    @property
    def words(self) -> str:
        """The full sentence."""
        text = self.headline
        if self.difference is not None:
            text += f": difference {self.difference:+.4g}"
            if self.low is not None and self.high is not None:
                text += f" [{self.low:+.4g}, {self.high:+.4g}] alone"
            text += f", n = {self.n} v {self.n_baseline}"
        if self.statistic is not None and self.df is not None:
            df = "known sigma" if self.df == float("inf") else f"df = {self.df:.1f}"
            text += f", {self.test}: t = {self.statistic:.2f}, {df}, p {_p(self.p)}"
            if self.p_adjusted is not None and self.family:
                text += f", corrected p {_p(self.p_adjusted)} ({self.family})"
            text += f", sigma {self.sigma:.3g} ({self.sigma_source})"
        if self.permutation_p is not None and self.permutation_floor is not None:
            text += f", by permutation p {_p(self.permutation_p)} (it cannot go below {self.permutation_floor:.2g})"
        if self.p_equivalence is not None and self.margin is not None:
            text += f", p of equivalence within {self.margin:g} {_p(self.p_equivalence)}"
        return "; ".join([text, *self.notes])


def _p(p: float | None) -> str:
    if p is None:
        return "unknown"
    return "< 1e-300" if p == 0 else f"= {p:.3g}"
