"""``plan.jsonl``: a design as lines, and lines as a plan. docs/architecture.md describes the format."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from io import BytesIO
from typing import Any

import orjson

from jobs.spec import InputRef, RunSpec
from sweeps.design import Design, PackPlan, Skipped
from sweeps.errors import SweepError

VERSION = 1


def records(design: Design) -> Iterator[dict[str, Any]]:
    """Every line but the first."""
    for cell in design.cells:
        yield {
            "cell": cell.index,
            "stage": cell.stage,
            "runner": cell.runner,
            "config": cell.config,
            "labels": cell.labels,
            "shape": asdict(cell.shape),
        }
    for run in design.runs:
        record: dict[str, Any] = {"run": run.id, "cell": run.cell, "seed": run.spec.seed, "labels": run.labels}
        if run.spec.inputs:
            record["inputs"] = {name: ref.payload() for name, ref in run.spec.inputs.items()}
        yield record
    for pack in design.packs:
        record = {
            "pack": pack.id,
            "runs": pack.runs,
            "stage": pack.stage,
            "order": pack.order,
            "resources": pack.resources,
            "execution": pack.execution,
        }
        yield {**record, "carried": True} if pack.carried else record
    for skipped in design.skipped:
        yield {"skipped": skipped.labels, "reason": skipped.reason}
    for notice in design.notices:
        yield {"notice": notice}


def header(design: Design) -> dict[str, Any]:
    """The first line, without its digest."""
    return {
        "plan": VERSION,
        "sweep": design.name,
        "source": design.source,
        "settings": design.settings,
        "analysis": design.analysis,
        "stages": [asdict(stage) for stage in design.stages],
    }


def plan_bytes(design: Design) -> bytes:
    """The whole file. Equal designs give equal bytes.

    The digest in the first line is taken over that line without it and over all the others, so an unchanged plan is
    recognised by reading one line of the old file.
    """
    body = BytesIO()  # lines are not kept apart: a hundred thousand short bytes objects of orjson hold 4 KB each
    for record in records(design):
        body.write(_line(record))
    head = header(design)
    digest = hashlib.sha256(_line(head))
    digest.update(body.getbuffer())
    first = {"plan": head.pop("plan"), "sweep": head.pop("sweep"), "digest": digest.hexdigest(), **head}
    return _line(first) + body.getvalue()


def digest_of(first_line: bytes) -> str | None:
    """The digest in a plan's first line; None where that is not one."""
    try:
        return orjson.loads(first_line)["digest"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None


@dataclass(frozen=True)
class Plan:
    """A plan read back. Records are as they stand in the file; keys are ids."""

    header: Mapping[str, Any]
    cells: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    runs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    packs: Mapping[str, PackPlan] = field(default_factory=dict)
    skipped: tuple[Skipped, ...] = ()
    notices: tuple[str, ...] = ()

    @cached_property
    def pack_of(self) -> dict[str, str]:
        """Run id -> pack id."""
        return {run: pack.id for pack in self.packs.values() for run in pack.runs}

    def labels(self, run: str) -> dict[str, Any]:
        record = self.runs[run]
        return {**self.cells[record["cell"]]["labels"], **record["labels"]}

    def spec(self, run: str) -> RunSpec:
        record = self.runs[run]
        cell = self.cells[record["cell"]]
        inputs = {name: InputRef(**ref) for name, ref in record.get("inputs", {}).items()}
        return RunSpec(cell["runner"], cell["config"], record["seed"], inputs)

    def needs(self, pack: str) -> set[str]:
        """Runs that must have completed before the pack can start (of members this plan knows)."""
        members = (self.runs[run] for run in self.packs[pack].runs if run in self.runs)
        return {ref["run"] for member in members for ref in member.get("inputs", {}).values()}


def read_plan(lines: Iterable[bytes]) -> Plan:
    """Raises SweepError where a line is no record of a plan."""
    rows = iter(lines)
    head = _parsed(next(rows, b""), 1)
    if head.get("plan") != VERSION:
        raise SweepError(f"not a plan of version {VERSION}: {str(head)[:80]}")
    cells: dict[int, Any] = {}
    runs: dict[str, Any] = {}
    packs: dict[str, PackPlan] = {}
    skipped: list[Skipped] = []
    notices: list[str] = []
    for number, line in enumerate(rows, 2):
        record = _parsed(line, number)
        match next(iter(record), None):
            case "cell":
                cells[record["cell"]] = record
            case "run":
                runs[record["run"]] = record
            case "pack":
                packs[record["pack"]] = _pack(record)
            case "skipped":
                skipped.append(Skipped(record["skipped"], record["reason"]))
            case "notice":
                notices.append(record["notice"])
            case other:
                raise SweepError(f"line {number} of the plan starts with {other!r}, which is no kind of record")
    return Plan(head, cells, runs, packs, tuple(skipped), tuple(notices))


def _pack(record: Mapping[str, Any]) -> PackPlan:
    return PackPlan(
        record["pack"],
        tuple(record["runs"]),
        record["stage"],
        record["order"],
        record["resources"],
        record["execution"],
        record.get("carried", False),
    )


def _parsed(line: bytes, number: int) -> dict[str, Any]:
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise SweepError(f"line {number} of the plan is not JSON: {error}") from None
    if not isinstance(record, dict):
        raise SweepError(f"line {number} of the plan is not a record")
    return record


def _line(record: Mapping[str, Any]) -> bytes:
    return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS)
