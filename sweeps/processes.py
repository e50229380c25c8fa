"""Cells that would be started as several processes, although their config says that they are one."""

from __future__ import annotations

from cluster.backend import Resources
from jobs import runners
from sweeps.cells import CellChecker
from sweeps.design import Cell
from sweeps.errors import Problem
from sweeps.labels import agrees
from sweeps.load import Sweep
from sweeps.tree import Path, dotted, origin_of

_TELLING = ("processes", "nodes", "gpus")
"""Resources that make several processes of one pack, the most outright first."""


def check_processes(sweep: Sweep, cell: Cell, found: CellChecker) -> None:
    """Add what is wrong with the number of processes of a cell to ``found``."""
    asked = {name: cell.resources[name] for name in _TELLING if name in cell.resources}
    ranks = Resources(**asked).ranks
    if ranks == 1 or not (why := runners.alone(cell.runner, cell.config)):
        return
    path = _written(sweep, cell)
    _, origin = origin_of(sweep.origins, path)
    message = f"{why}, but {ranks} would be started; set config.strategy: ddp, or resources.processes: 1"
    found.add(Problem(dotted(path), message, origin.file, origin.line), cell.name)


def _written(sweep: Sweep, cell: Cell) -> Path:
    """Where the number of processes stands: the block that wins, as in ``cells.settings_of``."""
    labels = {**cell.labels, "stage": cell.stage}
    rules = [("cells", index) for index, rule in enumerate(sweep.file.cells) if agrees(rule.when, labels)]
    blocks: list[Path] = [*reversed(rules), ("stages", cell.stage), ()]
    places = [(*block, "resources", name) for name in _TELLING for block in blocks]
    return next((place for place in places if place in sweep.origins), ("resources",))
