"""Does the variance between seeds vanish? sd within an arm over the baseline's, with the interval of their ratio."""

from collections.abc import Sequence
from dataclasses import dataclass

from sweeps.analysis import nested
from sweeps.analysis.noise_floor import sd_ratio, spread
from sweeps.analysis.results import Result, by_search


@dataclass(frozen=True)
class SeedSpread:
    """Spread of one arm in one column beside the baseline's, in the metric's unit.

    Attributes:
        column, arm: where and whose.
        baseline_sd, arm_sd: between seeds; the arm's within its searches.
        search_sd: between the arm's searches beyond seed noise; None for fewer than two searches.
        ratio, low, high: arm_sd / baseline_sd with its F interval, at 1 - alpha / columns (Bonferroni).
        verdict: "smaller", "larger" or "undecided".
        reason: why there is no ratio, or None.
    """

    column: str
    arm: str
    baseline_sd: float | None = None
    arm_sd: float | None = None
    search_sd: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    verdict: str = "undecided"
    reason: str | None = None


def seed_spreads(
    results: Sequence[Result], baseline: str, pairs: Sequence[tuple[str, str]], alpha: float = 0.05
) -> list[SeedSpread]:
    """Compare the arm of each (column, arm) pair with the baseline; the pairs are one Bonferroni family.

    Diverged runs are no spread between seeds: they are left out, and the reason says so.
    """
    return [_one(results, baseline, column, arm, alpha / max(1, len(pairs))) for column, arm in pairs]


def _one(results: Sequence[Result], baseline: str, column: str, arm: str, level: float) -> SeedSpread:
    here = [r for r in results if r.task == column and r.arm in (arm, baseline)]
    lost = sum(r.diverged for r in here)
    kept = [r for r in here if not r.diverged]
    mine = nested.components([by_search(r for r in kept if r.arm == arm)])
    base = nested.components([by_search(r for r in kept if r.arm == baseline)])
    note = f"{lost} diverged runs left out" if lost else None
    made = SeedSpread(column, arm, base.seed_sd, mine.seed_sd, mine.search_sd, reason=note)
    if mine.seed_mean_square is None or base.seed_mean_square is None:
        who = arm if mine.seed_mean_square is None else baseline
        return SeedSpread(column, arm, base.seed_sd, mine.seed_sd, mine.search_sd, reason=f"{who}: one seed or none")
    if base.seed_mean_square == 0:
        why = f"every seed of {baseline} has the same value"
        return SeedSpread(column, arm, base.seed_sd, mine.seed_sd, mine.search_sd, reason=why)
    if mine.seed_mean_square == 0:
        why = f"every seed of {arm} has the same value: the ratio is 0 without an interval"
        return SeedSpread(column, arm, base.seed_sd, mine.seed_sd, mine.search_sd, 0.0, reason=why)
    ours, theirs = spread(mine.seed_mean_square, mine.seed_df), spread(base.seed_mean_square, base.seed_df)
    ratio, low, high = sd_ratio(ours, theirs, 1 - level)
    verdict = "smaller" if high < 1 else "larger" if low > 1 else "undecided"
    return SeedSpread(
        column, arm, made.baseline_sd, made.arm_sd, made.search_sd, ratio, low, high, verdict, made.reason
    )
