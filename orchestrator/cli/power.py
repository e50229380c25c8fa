"""`orchestrate power`: what a design can see, before a GPU-hour is spent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from sweeps.analysis.floor import Floor

SAME_POWER = 6
"""Seeds from which the default rule of `compare` sees what a pooled sigma sees (docs/statistics.md, 6v6)."""


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
@click.option("--own", is_flag=True, help="Sigma from the arm and the baseline alone, not pooled over all arms.")
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
    as_json: bool,
    **columns: Any,
) -> None:
    """Plan seeds: how many an effect needs, or what n of them can detect.

    The family is the arms, by Bonferroni at ALPHA over them; without --sigma and --from everything is in
    units of the seed sd.
    """
    from orchestrator.cli.common import print_json
    from sweeps.analysis.equivalence import provable_margin
    from sweeps.analysis.errors import AnalysisError
    from sweeps.analysis.power import detectable, seeds_for
    from sweeps.analysis.sigma import FEWEST_BASELINE

    if (effect is None) == (seeds is None):
        raise AnalysisError("give --effect to learn the seeds, or --seeds to learn the effect (one of them)")
    if sigma is not None and source is not None:
        raise AnalysisError("give --sigma or --from, not both: they are two noise floors")
    found = _floor(ctx, source, columns) if source is not None else None
    unit = "" if sigma is not None or found is not None else " seed sd"
    floor = found.pooled.sd if found is not None and found.pooled is not None else sigma if sigma is not None else 1.0
    groups, level = 2 if own else arms + 1, alpha / arms
    answer: dict[str, Any] = {"sigma": floor, "unit": unit.strip() or "metric", "arms": arms, "alpha": alpha}
    answer |= {"level": level, "power": wanted, "sigma_pooled": not own}
    lines = []
    if found is not None and found.pooled is not None:
        lines.append(
            f"noise floor {floor:.3g} [{found.pooled.low:.3g}, {found.pooled.high:.3g}] from {source}, "
            f"{found.pooled.df:g} degrees of freedom"
        )
    if effect is not None:
        need = seeds_for(effect, floor, level, wanted, groups)
        answer |= {"effect": effect, "seeds": need, "runs": need * (arms + 1)}
        lines.append(
            f"{need} seeds an arm ({need * (arms + 1)} runs) see an effect of {effect:g}{unit} "
            f"{_how(arms, alpha, wanted, own)}"
        )
    elif seeds is not None:
        base = baseline_seeds or seeds
        df = (seeds - 1) * (groups - 1) + base - 1
        smallest = detectable(floor, seeds, base, df, level, wanted)
        margin = provable_margin(floor, seeds, base, df, alpha, wanted)
        answer |= {"seeds": seeds, "baseline_seeds": base, "df": df, "detectable": smallest, "provable_margin": margin}
        lines.append(
            f"{seeds} seeds an arm against {base} of the baseline see effects from {smallest:.3g}{unit} "
            f"{_how(arms, alpha, wanted, own)}"
        )
        lines.append(f"equality can be shown within {margin:.3g}{unit}, one arm at a time")
    runs = answer.get("baseline_seeds") or answer["seeds"]
    if not own and FEWEST_BASELINE <= runs < SAME_POWER:
        lines.append(
            "note: that is compare --sigma pooled, for equal spreads; its default, which pays for a noisy side, has "
            "about half of the power at 3 seeds and the same from 6 on (docs/statistics.md)"
        )
    if runs < FEWEST_BASELINE:
        lines.append(f"note: compare's default rule decides nothing below {FEWEST_BASELINE} baseline seeds")
    print_json(answer) if as_json else click.echo("\n".join(lines))


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


def _how(arms: int, alpha: float, wanted: float, own: bool) -> str:
    over = f"over {arms} arms" if arms > 1 else "on one arm"
    return f"with {wanted:.0%} power, alpha {alpha:g} {over} (Bonferroni), sigma {'own' if own else 'pooled'}"
