"""The lines of ``plan.jsonl`` that gathering needs, unchecked: the plan was checked when it was written."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from jobs.durable import read_log
from jobs.errors import JobError


@dataclass
class Plan:
    """A plan by id, in the order of the file."""

    header: dict[str, Any]
    cells: dict[int, dict[str, Any]] = field(default_factory=dict)
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    packs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    skipped: list[dict[str, Any]] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def metadata(self) -> bytes:
        """What tables carry of the plan besides its runs (``sweeps.tables.PLAN_KEY``)."""
        cells = [
            {"index": index} | {k: v for k, v in cell.items() if k != "cell"} for index, cell in self.cells.items()
        ]
        content = {**self.header, "skipped": self.skipped, "notices": self.notices, "cells": cells}
        return orjson.dumps(content, option=orjson.OPT_SORT_KEYS)


def read_plan_lines(path: Path) -> Plan:
    """Raises JobError where there is no plan."""
    records, _ = read_log(path)
    if not records:
        raise JobError(f"{path} does not exist or is empty: there is no such sweep; `orchestrate sweep FILE` plans one")
    plan = Plan(records[0])
    for record in records[1:]:
        match next(iter(record)):
            case "run":
                plan.runs[record["run"]] = record
            case "cell":
                plan.cells[record["cell"]] = record
            case "pack":
                plan.packs[record["pack"]] = tuple(record["runs"])
            case "skipped":
                plan.skipped.append(record)
            case "notice":
                plan.notices.append(record["notice"])
    return plan
