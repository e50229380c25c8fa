"""`orchestrate nodes`: which machines fail runs, which are kept away from, and letting one off."""

from __future__ import annotations

import time
from typing import Any

import click

from jobs.workspace import Workspace
from orchestrator.cli.common import print_json, workspace
from orchestrator.nodes import Nodes, NodeVerdict
from orchestrator.policy import Policy
from orchestrator.requests import forgive_node
from orchestrator.survey import survey


@click.command()
@click.option("--forgive", metavar="NODE", help="Let a machine off: what has happened there counts no more.")
@click.option("--json", "as_json", is_flag=True, help="Print the machines as JSON.")
@click.pass_context
def command(ctx: click.Context, forgive: str | None, as_json: bool) -> None:
    """Show the machines that runs were carried out on. One that fails runs again and again is excluded for a while: on
    what evidence, and until when.

    New jobs avoid an excluded machine on backends with more than one. The exclusion ends by itself; the next job there
    is the probe.
    """
    space = workspace(ctx)
    verdicts = look(space)
    if forgive is not None:
        if forgive not in verdicts:
            known = ", ".join(verdicts) or "none"
            raise click.UsageError(f"nothing was ever run on {forgive!r}; machines: {known}")
        against = verdicts[forgive].against
        if against:
            forgive_node(space, forgive, [mishap.attempt for mishap in against])
        verdicts = look(space)
        click.echo(f"{forgive} is let off: {len(against)} mishaps count no more", err=True)
    if as_json:
        print_json({"nodes": [node_json(verdict) for verdict in verdicts.values()]})
        return
    from orchestrator.cli.nodes_view import show_nodes

    show_nodes(space, list(verdicts.values()))


def look(space: Workspace, policy: Policy | None = None) -> dict[str, NodeVerdict]:
    """Every machine of the workspace, the same way as the loop judges it."""
    seen = survey(space)
    nodes = Nodes(policy or Policy())
    for surveyed in seen.packs:
        for view in surveyed.views:
            nodes.see(surveyed.pack.id, surveyed.pack.shape, view)
    return nodes.verdicts(time.time(), seen.wishes.forgiven)


def node_json(verdict: NodeVerdict) -> dict[str, Any]:
    """One machine for scripts."""
    return {
        "node": verdict.node,
        "attempts": verdict.attempts,
        "failed": verdict.failed,
        "excluded_until": verdict.until,
        "spared": verdict.spared,
        "against": [
            {
                "attempt": mishap.attempt,
                "pack": mishap.pack,
                "class": str(mishap.failure),
                "message": mishap.message,
                "time": mishap.time,
                "took_s": mishap.took_s,
            }
            for mishap in verdict.against
        ],
    }
