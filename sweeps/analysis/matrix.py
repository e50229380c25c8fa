"""What a transfer matrix holds: cells, columns and their noise floors."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Cell:
    """One arm on one task against the baseline.

    Either ``value``, ``low``, ``high`` and ``n`` are numbers, or ``reason`` says why not (both, where a
    number exists but was not tested).

    Attributes:
        row: arm.
        column: task.
        value: mean of the arm minus mean of the baseline, percentage points.
        low, high: Student t interval of this cell alone at 1 - alpha, sigma pooled per column, points.
        family_low, family_high: the interval it is decided by, at the cell's Holm level (and no narrower than the
            guard's); it excludes 0 exactly when the cell is decided. None where nothing was tested.
        n: runs behind the arm's mean (diverged ones included, at chance).
        n_baseline: runs behind the baseline's.
        searches: searches those runs are nested in; 0 for an arm that was not searched.
        standard_error: of ``value``, percentage points, with ``df`` degrees of freedom.
        p: two-sided; None where the cell was not tested.
        p_adjusted: after Holm over the family.
        p_guard: family-wise p once a noisier baseline or arm counts with its own noise; taken only where
            Holm decides, and the cell is decided only if both are below alpha.
        df_guard: degrees of freedom of that noise: two searches leave little more than one.
        sigma: noise the decision rests on: "pooled" over the column, or "own" where the guard is stricter.
        diverged: diverged runs among ``n``.
        survivors: ``value`` over the runs that did not diverge (footnote only, biased upwards).
        n_survivors: runs behind ``survivors``.
        verdict: "better", "worse", "undecided", "not run" or "baseline".
        reason: why there is no value, or why no decision, or None.
    """

    row: str
    column: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    family_low: float | None = None
    family_high: float | None = None
    n: int = 0
    n_baseline: int = 0
    searches: int = 0
    standard_error: float | None = None
    df: float | None = None
    p: float | None = None
    p_adjusted: float | None = None
    p_guard: float | None = None
    df_guard: float | None = None
    sigma: str = "pooled"
    diverged: int = 0
    survivors: float | None = None
    n_survivors: int = 0
    verdict: str = "undecided"
    reason: str | None = None

    @property
    def decided(self) -> bool:
        return self.verdict in ("better", "worse")

    @property
    def tested(self) -> bool:
        """Whether a test stands behind the verdict; one with gaps, or a baseline that cannot decide, has none."""
        return self.family_low is not None and self.family_high is not None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval to show: the one that decides, else the cell's own; None without either."""
        if self.family_low is not None and self.family_high is not None:
            return self.family_low, self.family_high
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def basis(self) -> str:
        """A few words where `interval` is not the planned one with the column's noise; "" where it is."""
        if self.sigma == "own" and self.df_guard is not None:
            return f"own noise: {self.df_guard:.2g} df"
        return "" if self.interval is None or self.tested or self.verdict == "baseline" else "not tested"

    @property
    def words(self) -> str:
        """The verdict as a sentence naming effect, intervals, test, n, df and sigma."""
        if self.value is None or self.verdict == "baseline":
            return f"{self.verdict} ({self.reason})" if self.reason else self.verdict
        text = f"{self.verdict}: {self.value:+.1f} pp"
        if self.interval is not None:
            text += f" [{self.interval[0]:+.1f}, {self.interval[1]:+.1f}]"
        if self.tested and self.low is not None and self.high is not None:
            text += f" (uncorrected [{self.low:+.1f}, {self.high:+.1f}])"
        text += f", n = {self.n} v {self.n_baseline}"
        if self.searches:
            text += f" in {self.searches} search{'es' if self.searches > 1 else ''}"
        if self.df is not None:
            text += f", t with {self.df:.1f} df, sigma pooled"
        if self.p_adjusted is not None:
            text += f", Holm p = {self.p_adjusted:.2g}"
        if self.p_guard is not None:
            text += f", with its own noise p = {self.p_guard:.2g}"
            text += "" if self.df_guard is None else f" at {self.df_guard:.1f} df"
        if self.reason:
            text += f"; {self.reason}"
        if self.diverged:
            text += f"; {self.diverged} of {self.n} diverged"
            if self.survivors is not None:
                text += f", counted at chance (survivors only {self.survivors:+.1f} pp, n = {self.n_survivors})"
        return text


@dataclass(frozen=True)
class Column:
    """A task's baseline and noise floor.

    Attributes:
        task: the column.
        baseline: the baseline's mean, in the metric's own unit.
        n_baseline: runs behind it.
        seed_sd: sd between seeds, pooled over arms, percentage points; None without a replicate.
        search_sd: sd between searches beyond seed noise, percentage points; None without two searches.
        chance, ceiling: levels the column was judged by.
        informative: whether the baseline leaves room to see an effect; None where that cannot be said.
        why: the reason for ``informative``.
    """

    task: str
    baseline: float | None = None
    n_baseline: int = 0
    seed_sd: float | None = None
    seed_df: float = 0
    search_sd: float | None = None
    search_df: int = 0
    chance: float | None = None
    ceiling: float = 1.0
    informative: bool | None = None
    why: str = ""


@dataclass(frozen=True)
class Matrix:
    """Rows x columns of cells, row by row, with one `Column` per column.

    ``family`` is the number of cells Holm corrects for (task rows x columns, run or not).
    """

    baseline: str
    alpha: float
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[Cell, ...]
    noise: tuple[Column, ...]
    family: int

    def cell(self, row: str, column: str) -> Cell:
        """The cell of a row and a column; KeyError if there is none."""
        return self._by_key()[row, column]

    def column(self, task: str) -> Column:
        """The column of a task; KeyError if there is none."""
        return {c.task: c for c in self.noise}[task]

    def _by_key(self) -> Mapping[tuple[str, str], Cell]:
        return {(c.row, c.column): c for c in self.cells}
