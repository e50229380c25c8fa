"""`orchestrate doctor`: is the workspace sound, and is the installation what it should be?"""

from __future__ import annotations

import dataclasses
import sys

import click

from orchestrator.cli.common import print_json, workspace

MARKS = {"ok": ("ok", "green"), "warning": ("warning", "yellow"), "error": ("ERROR", "red")}


@click.command()
@click.option("--rebuild", is_flag=True, help="Throw this host's index away and read every fact again.")
@click.option("--verify", is_flag=True, help="Also read every checkpoint and compare it with its manifest.")
@click.option("--backend", type=click.Choice(["local", "slurm"]), help="Also look this backend's site over.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.pass_context
def command(ctx: click.Context, rebuild: bool, verify: bool, backend: str | None, as_json: bool) -> None:
    """Check the installation and the workspace, and say what to do about what is wrong. Exits 1 if anything is."""
    from orchestrator.doctor import examine
    from orchestrator.doctor import rebuild as rebuild_index
    from orchestrator.exit_codes import Exit

    space = workspace(ctx)
    packs = rebuild_index(space) if rebuild else None
    findings = list(examine(space, verify=verify, backend=backend))
    if as_json:
        print_json({"findings": [dataclasses.asdict(finding) for finding in findings], "rebuilt_packs": packs})
    else:
        if packs is not None:
            click.echo(f"index rebuilt from the facts of {packs} packs")
        for finding in findings:
            word, colour = MARKS[finding.level]
            advice = f"\n         {finding.advice}" if finding.advice else ""
            click.echo(f"{click.style(f'{word:<8}', fg=colour)} {finding.what}{advice}")
    if any(finding.level == "error" for finding in findings):
        sys.exit(Exit.RUNS_FAILED)
