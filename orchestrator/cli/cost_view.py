"""How costs are shown."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text

from orchestrator.cli.status_view import COST_WORDS
from orchestrator.cli.units import hours
from orchestrator.cost import NO_LOSS
from orchestrator.costs import CLASS, Account


def show_costs(title: str, unit: str, tables: Mapping[str, Mapping[str, Account]], limit: int) -> None:
    """Print one unit's tables: way of counting -> row -> account."""
    console = Console(highlight=False)
    rows = next(iter(tables.values()), {})
    whole = sum(account.total for account in rows.values())
    useful = sum(account.useful for account in rows.values())
    line = Text(title, style="bold")
    line.append(f"  {hours(whole / 3600)} of one {unit}", style="default")
    if whole:
        line.append(f", {_share(useful, whole)} of it useful", style="default")
    console.print(line)
    if not whole:
        return
    for way, accounts in tables.items():
        console.print()
        console.print(_classes(accounts, whole) if way == CLASS else _table(way, accounts, limit))
        if way != CLASS and limit and len(accounts) > limit:
            console.print(f"[dim]and {len(accounts) - limit} more (--limit 0 shows all)[/dim]")


def _classes(accounts: Mapping[str, Account], whole: float) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("what became of it")
    table.add_column("time", justify="right")
    table.add_column("share", justify="right")
    order = {name: place for place, name in enumerate(NO_LOSS)}
    for name, account in sorted(accounts.items(), key=lambda item: (order.get(item[0], 9), -item[1].total)):
        words = COST_WORDS.get(name, f"lost to {name}")
        table.add_row(words, hours(account.total / 3600), _share(account.total, whole))
    return table


def _table(way: str, accounts: Mapping[str, Account], limit: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column(way, overflow="fold")
    for name in ("time", "useful", "lost"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("most to", no_wrap=True)
    for key, account in list(accounts.items())[: limit or None]:
        lost = account.lost
        worst = next(iter(lost.items()), None)
        table.add_row(
            Text(key),
            hours(account.total / 3600),
            _share(account.useful, account.total),
            _share(sum(lost.values()), account.total),
            f"{worst[0]} ({hours(worst[1] / 3600)})" if worst else "",
        )
    return table


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "0 %"
