"""`orchestrate cost [SWEEP]`: what was paid, for whom and for what, and what was lost to which failures."""

from __future__ import annotations

from typing import Any

import click

from orchestrator.cli.common import print_json, resolve_sweep, workspace
from orchestrator.costs import CLASS, USER, Account, accounts, items, labels_of
from orchestrator.survey import survey

USUAL = (CLASS, USER, "task", "architecture")
"""What costs are shown by where nothing is asked for; labels that no run has are left out."""


@click.command()
@click.argument("sweep", required=False)
@click.option("--by", help="Only by this: user, class, or any label of the sweep (task, architecture, ...).")
@click.option("--limit", default=12, show_default=True, help="Rows of each table; 0 for all.")
@click.option("--json", "as_json", is_flag=True, help="Print the hours as JSON.")
@click.pass_context
def command(ctx: click.Context, sweep: str | None, by: str | None, limit: int, as_json: bool) -> None:
    """Show the GPU-hours that SWEEP (default: every sweep) has taken: useful, or lost to preemption, crashes, hangs ...

    Runs that share a pack share its cost, second by second. Packs without a GPU are counted in slot-hours.
    """
    space = workspace(ctx)
    name = resolve_sweep(space, sweep) if sweep is not None else None
    seen = survey(space, None if name is None else [name])
    found = list(items(space, seen))
    ways = [by] if by is not None else [way for way in USUAL if way in (USER, CLASS) or way in labels_of(seen)]
    units = sorted({item.unit for item in found}) or ["slot"]
    tables = {
        unit: {way: accounts(seen, [item for item in found if item.unit == unit], way) for way in ways}
        for unit in units
    }
    if as_json:
        hours = {
            unit: {way: {key: _json(account) for key, account in rows.items()} for way, rows in of.items()}
            for unit, of in tables.items()
        }
        print_json({"sweep": name, "hours": hours})
        return
    from orchestrator.cli.cost_view import show_costs

    for unit, of in tables.items():
        show_costs(name or "all sweeps", unit, of, limit)


def _json(account: Account) -> dict[str, Any]:
    return {
        "total": account.total / 3600,
        "useful": account.useful / 3600,
        "lost": {name: seconds / 3600 for name, seconds in account.lost.items()},
        "other": {name: account.by_fate[name] / 3600 for name in ("startup", "unsaved") if name in account.by_fate},
    }
