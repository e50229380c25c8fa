"""What a planned sweep will be able to see: seeds and arms of its comparison, for the line that every plan shows."""

from __future__ import annotations

from collections import defaultdict

from dashboards.block import planned_options
from sweeps.analysis.options import Options
from sweeps.analysis.power_line import power_line
from sweeps.design import Design


def power_of(design: Design) -> str | None:
    """The power line of a design; None where it names no baseline, so that nothing is compared.

    Seeds are those of the arm and column that has the fewest (within one search); arms are all that are compared with
    the baseline in one column. Labels of searches do not count as arms. The rule is the one that will decide: the
    matrix's with a column, else what the block names or the default.
    """
    analysis = design.analysis
    baseline = analysis.get("baseline") or {}
    if not baseline:
        return None
    arm = analysis.get("arm") or next(iter(baseline))
    primary = {name: _texts(values) for name, values in (analysis.get("primary") or {}).items()}
    column = str(analysis.get("column"))  # "None" is no label: without a column all runs are in one place
    seeds_of = {stage.name: stage.seed for stage in design.stages}
    seeds: dict[tuple[str, str], set[str]] = defaultdict(set)
    searched = False
    for run in design.runs:
        labels = design.labels(run)
        if arm not in labels or any(str(labels.get(name)) not in wanted for name, wanted in primary.items()):
            continue
        own = seeds_of[design.cells[run.cell].stage]
        searched = searched or any(name in labels for name in seeds_of.values() if name != own)
        seed = labels[own]
        seeds[str(labels.get(column)), str(labels[arm])].add(str(seed))
    arms: dict[str, set[str]] = defaultdict(set)
    for place, name in seeds:
        arms[place].add(name)
    most = max((len(names) for names in arms.values()), default=0)
    if most < 2:
        return None
    return power_line(
        min(len(found) for found in seeds.values()),
        most - 1,
        options=Options(str(next(iter(baseline.values()))), **planned_options(analysis)),
        columns=len(arms),
        matrix=analysis.get("column") is not None,
        searched=searched,
    )


def _texts(values: object) -> set[str]:
    return {str(value) for value in (values if isinstance(values, list | tuple) else [values])}
