"""`orchestrate rates SWEEP`: apply the written rule to a finished pilot."""

from __future__ import annotations

from pathlib import Path

import click

from orchestrator.cli.again import to_type
from orchestrator.cli.common import print_json, resolve_sweep, workspace


@click.command()
@click.argument("sweeps", nargs=-1, required=True, metavar="SWEEP...")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the table to this file.")
@click.option("--size", default="mini", show_default=True, help="What the table is for, named in its first line.")
@click.option("--clip", nargs=2, type=int, default=(150, 3000), show_default=True, help="Smallest and largest T.")
@click.option("--column", default="task", show_default=True, help="Factor whose levels each get a rate.")
@click.option("--factor", default="lr", show_default=True, help="Factor whose levels are the rates.")
@click.option("--json", "as_json", is_flag=True, help="Print the choices as JSON.")
@click.pass_context
def command(
    ctx: click.Context,
    sweeps: tuple[str, ...],
    output: Path | None,
    size: str,
    clip: tuple[int, int],
    column: str,
    factor: str,
    as_json: bool,
) -> None:
    """Choose the learning rate and the fixed step T of every task from pilot SWEEPs (the pilot, and those that extended
    its grid), by the rule in sweeps/rates.py: validation data and pilot seeds only. The table names this command.

    Where a choice lies at an edge of its grid, the command that extends it is printed."""
    import dataclasses

    from orchestrator.pilot import pilot_rows
    from orchestrator.pilot_rounds import extending_commands, rates_command
    from sweeps.rate_table import rates_yaml
    from sweeps.rates import choose, extensions
    from sweeps.schema import Pilot

    space = workspace(ctx)
    names = [resolve_sweep(space, sweep) for sweep in sweeps]
    rows, chance = pilot_rows(space, names, column=column, factor=factor)
    wanted = extensions(rows)
    pilot = Pilot(sweep=names[0], column=column, factor=factor, clip=clip, size=size)
    if wanted and not as_json:
        click.echo("Choices at an edge of the grid; extend it, and name the new sweeps here too:", err=True)
        for words in extending_commands(space, names, pilot, wanted):
            click.echo(f"  {to_type(space, *words)}", err=True)
    choices = choose(rows, chance, clip=clip)
    if output is not None:
        typed = f"{rates_command(names, pilot)} -o {output.name}"
        output.write_text(rates_yaml(choices, typed, size))
    if as_json:
        print_json({"sweep": names[0], "sweeps": names, "choices": [dataclasses.asdict(choice) for choice in choices]})
        return
    for choice in choices:
        edge = f"  (the {choice.edge} of the grid: extend it)" if choice.edge else ""
        click.echo(
            f"{choice.task:<14} lr {choice.lr:<8g} T {choice.T:<5} final accuracy {choice.final_accuracy:.3f} "
            f"(chance {choice.chance:.3f}){edge}"
        )
    click.echo(f"Written: {output}" if output is not None else "Nothing was written; name a file with -o.")
