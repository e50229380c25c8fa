"""`orchestrate power`: what a design can see, before a GPU-hour is spent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from sweeps.analysis.floor import Floor


@click.command()
@click.option("--sigma", type=float, help="Noise floor: sd of one run, in the metric's unit.")
@click.option(
    "--from", "source", metavar="RESULTS", help="Take the noise floor from results: a table, sweep or mlflow:."
)
@click.option("--baseline", help="Baseline of those results.")
@click.option("--metric", help="Metric of those results.")
@click.option("--arm-column", help="Column of the arms in those results.")
@click.option("--seed-column", help="Column of the seeds in those results.")
@click.option("--effect", type=float, help="Effect to detect: prints the seeds it needs.")
@click.option("--seeds", type=click.IntRange(1), help="Seeds an arm: prints what they detect.")
@click.option("--baseline-seeds", type=click.IntRange(1), help="Seeds of the baseline; default: as many.")
@click.option("--arms", type=click.IntRange(1), default=1, show_default=True, help="Arms besides the baseline.")
@click.option("--alpha", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.05, show_default=True)
@click.option(
    "--power", "wanted", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.8, show_default=True
)
@click.option("--own", is_flag=True, help="For compare --sigma own: from the arm and the baseline alone.")
@click.option("--pooled", is_flag=True, help="For compare --sigma pooled: one noise for all arms, if that is so.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@click.pass_context
def command(
    ctx: click.Context,
    sigma: float | None,
    source: str | None,
    effect: float | None,
    seeds: int | None,
    baseline_seeds: int | None,
    arms: int,
    alpha: float,
    wanted: float,
    own: bool,
    pooled: bool,
    as_json: bool,
    **columns: Any,
) -> None:
    """Plan seeds: how many an effect needs, or what n of them can detect.

    By the rule that `compare` decides with (Dunnett over the arms at ALPHA, either side the larger of its own and the
    pooled noise), or by another with --own or --pooled (Bonferroni). Without --sigma and --from everything is in units
    of the seed sd.
    """
    from orchestrator.cli.common import print_json, say
    from sweeps.analysis.errors import AnalysisError

    if (effect is None) == (seeds is None):
        raise AnalysisError("give --effect to learn the seeds, or --seeds to learn the effect (one of them)")
    if sigma is not None and source is not None:
        raise AnalysisError("give --sigma or --from, not both: they are two noise floors")
    if own and pooled:
        raise AnalysisError("give --own or --pooled, not both: a difference is tested against one sigma")
    found = _floor(ctx, source, columns) if source is not None else None
    unit = "" if sigma is not None or found is not None else " seed sd"
    floor = found.pooled.sd if found is not None and found.pooled is not None else sigma if sigma is not None else 1.0
    design = _Design(arms, alpha, wanted, "own" if own else "pooled" if pooled else "auto")
    answer: dict[str, Any] = {"sigma": floor, "unit": unit.strip() or "metric", "arms": arms, "alpha": alpha}
    answer |= {"power": wanted, "rule": design.rule}
    lines = []
    if found is not None and found.pooled is not None:
        lines.append(
            f"noise floor {floor:.3g} [{found.pooled.low:.3g}, {found.pooled.high:.3g}] from {source}, "
            f"{found.pooled.df:g} degrees of freedom"
        )
    if effect is not None:
        try:
            need = design.seeds(effect, floor)
        except AnalysisError as error:
            hint = "; the effect was taken in units of the seed sd: give it in the metric's with --sigma or --from"
            raise AnalysisError(f"{error}{hint if unit else ''}") from None
        answer |= {"effect": effect, "seeds": need, "runs": need * (arms + 1)}
        lines.append(f"{need} seeds an arm ({need * (arms + 1)} runs) see an effect of {effect:g}{unit} {design.words}")
    elif seeds is not None:
        base = baseline_seeds or seeds
        smallest, margin = design.detectable(floor, seeds, base)
        answer |= {"seeds": seeds, "baseline_seeds": base, "detectable": smallest, "provable_margin": margin}
        lines.append(
            f"{seeds} seeds an arm against {base} of the baseline see effects from {smallest:.3g}{unit} {design.words}"
        )
        lines.append(f"equality can be shown within {margin:.3g}{unit}, one arm at a time")
    if design.rule != "auto":
        lines.append(f"note: that is for compare --sigma {design.rule}; its default rule decides by the larger noise")
    if as_json:
        print_json(answer)
        return
    for line in lines:
        say(line)


@dataclass(frozen=True)
class _Design:
    """Arms and level of a plan, and the sigma rule that will decide it."""

    arms: int
    alpha: float
    wanted: float
    rule: str

    @property
    def words(self) -> str:
        over = f"over {self.arms} arms" if self.arms > 1 else "on one arm"
        by = "the default rule, Dunnett" if self.rule == "auto" else f"sigma {self.rule}, Bonferroni"
        return f"with {self.wanted:.0%} power, alpha {self.alpha:g} {over} ({by})"

    @property
    def groups(self) -> int:
        """Arms that sigma is from."""
        return 2 if self.rule == "own" else self.arms + 1

    def seeds(self, effect: float, sigma: float) -> int:
        from sweeps.analysis.default_power import seeds_by_default
        from sweeps.analysis.power import seeds_for

        if self.rule == "auto":
            return seeds_by_default(effect, sigma, self.arms, self.alpha, self.wanted)
        return seeds_for(effect, sigma, self.alpha / self.arms, self.wanted, self.groups)

    def detectable(self, sigma: float, seeds: int, base: int) -> tuple[float, float]:
        """Smallest effect, and smallest margin within which equality can be shown."""
        from sweeps.analysis.default_power import Plan, detectable_by_default, provable_by_default
        from sweeps.analysis.equivalence import provable_margin
        from sweeps.analysis.power import check, detectable

        check(sigma, self.alpha, self.wanted)
        if self.rule == "auto":
            plan = Plan(seeds, base, self.arms, self.alpha)
            return detectable_by_default(plan, sigma, self.wanted), provable_by_default(plan, sigma, self.wanted)
        df = (seeds - 1) * (self.groups - 1) + base - 1
        smallest = detectable(sigma, seeds, base, df, self.alpha / self.arms, self.wanted)
        return smallest, provable_margin(sigma, seeds, base, df, self.alpha, self.wanted)


def _floor(ctx: click.Context, source: str, columns: dict[str, Any]) -> Floor:
    """The noise floor of finished results: the only one, or the widest over tasks and scales."""
    from orchestrator.cli.comparing import Asked, load, options_of
    from sweeps.analysis.comparison import compare
    from sweeps.analysis.errors import AnalysisError
    from sweeps.analysis.items import per_run

    asked = Asked(**columns)
    root = ctx.obj.root if ctx.obj is not None else Path("runs")
    table = load(source, asked, root)
    floors = [f for f in compare(per_run(table.results), options_of(table, asked)).floors if f.pooled is not None]
    if not floors:
        raise AnalysisError(f"{source}: no arm has two seeds, so there is no noise floor to plan with; give --sigma")
    return max(floors, key=lambda f: f.pooled.sd if f.pooled is not None else 0.0)
