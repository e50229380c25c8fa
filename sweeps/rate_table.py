"""Chosen rates as YAML that a sweep file includes: the values, who made them, on what grounds, what is doubtful."""

from __future__ import annotations

from collections.abc import Sequence

from sweeps.rates import TaskRate


def rates_yaml(choices: Sequence[TaskRate], command: str, size: str, name: str = "rates") -> str:
    """The table: ``values.<name>``, and ``pilots.<name>: null``, because a pilot has chosen already.

    Args:
        command: what was typed to make it.
        size: what the table is for, in its first line ("mini", "full").
        name: key under ``values``.
    """
    lines = [
        f"# Learning rate and fixed step T of each task ({size} size).",
        f"# Made by: {command}",
        "# Rule: sweeps/rates.py. Pilot seeds only, validation data only.",
        "values:",
        f"  {name}:",
    ]
    for c in choices:
        lines.append(f"    {c.task}: {{lr: {c.lr!r}, T: {c.T}, steps: {c.steps}}}")
        ground = f"loss {c.loss:.4g}, best {c.best_loss:.4g}; accuracy {c.final_accuracy:.3f}, chance {c.chance:.3f}"
        doubt = [f"the {c.edge} rate of the grid: extend it"] if c.edge else []
        doubt += [] if c.learned else ["hardly above chance: T means little"]
        lines.append(f"    # {'; '.join([ground, *doubt])}")
    lines += [f"  {name}_source:", f"    made_by: {_quoted(command)}", "", "pilots:", f"  {name}: null", ""]
    edges = [f"{c.task} ({c.edge})" for c in choices if c.edge]
    lines.append("notices:")
    if edges:
        text = f"rates chosen at an edge of the pilot's grid, which should be extended: {', '.join(edges)}"
        lines.append(f"  {name}: {_quoted(text)}")
    else:
        lines.append(f"  {name}: null")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
