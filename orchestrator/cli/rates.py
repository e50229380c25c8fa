"""`orchestrate rates SWEEP`: apply the written rule to a finished pilot."""

from __future__ import annotations

from pathlib import Path

import click

from orchestrator.cli.common import print_json, resolve_sweep, workspace


@click.command()
@click.argument("sweep")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the table to this file.")
@click.option("--size", default="mini", show_default=True, help="What the table is for, named in its first line.")
@click.option("--clip", nargs=2, type=int, default=(150, 3000), show_default=True, help="Smallest and largest T.")
@click.option("--json", "as_json", is_flag=True, help="Print the choices as JSON.")
@click.pass_context
def command(
    ctx: click.Context, sweep: str, output: Path | None, size: str, clip: tuple[int, int], as_json: bool
) -> None:
    """Choose the learning rate and the fixed step T of every task from the pilot SWEEP, by the rule in
    sweeps/rates.py: validation data and pilot seeds only. The table names this command."""
    import dataclasses

    from orchestrator.pilot import pilot_rows
    from sweeps.rates import choose, rates_yaml

    space = workspace(ctx)
    name = resolve_sweep(space, sweep)
    rows, chance = pilot_rows(space, name)
    choices = choose(rows, chance, clip=clip)
    typed = f"orchestrate rates {name} --size {size} --clip {clip[0]} {clip[1]}"
    if output is not None:
        typed += f" -o {output.name}"
        output.write_text(rates_yaml(choices, typed, size))
    if as_json:
        print_json({"sweep": name, "choices": [dataclasses.asdict(choice) for choice in choices]})
        return
    for choice in choices:
        edge = f"  (the {choice.edge} of the grid: extend it)" if choice.edge else ""
        click.echo(
            f"{choice.task:<14} lr {choice.lr:<8g} T {choice.T:<5} final accuracy {choice.final_accuracy:.3f} "
            f"(chance {choice.chance:.3f}){edge}"
        )
    click.echo(f"Written: {output}" if output is not None else "Nothing was written; name a file with -o.")
