"""What a person asked for: ``requests/<ns>-<uuid>.json``, written once, never edited, by ``cancel``, ``retry`` and
``nodes --forgive``.

    {"request": "retry", "order": 3, "runs": {"r..": 2}, "fresh": false, "by": "ann"}
    {"request": "forgive", "order": 4, "node": "n7", "attempts": ["orc-p..-a1", ...], "by": "ann"}

``runs`` maps a run to the number of its newest attempt when the request was made (0: none yet). A retry forgives the
failures of attempts up to that number, so it never applies to what came later, whatever the clocks say. Of several
requests for a run the one with the highest ``order`` counts; each is one more than all that its writer could see.
"""

from __future__ import annotations

import getpass
import os
import time
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from jobs.durable import replace_file
from jobs.workspace import Workspace
from orchestrator.errors import OrchestratorError


class Request(BaseModel):
    """One request file."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    request: Literal["cancel", "retry", "forgive"]
    order: int
    runs: dict[str, int] = {}
    fresh: bool = False
    node: str = ""
    attempts: tuple[str, ...] = ()
    """Names of the attempts that shall not count against the node any more."""
    by: str = ""


@dataclass(frozen=True, slots=True)
class Wish:
    """The last word about one run.

    ``attempt``: see ``runs`` above. ``fresh`` (a retry): start at step 0, whatever checkpoints there are.
    """

    kind: Literal["cancel", "retry"]
    attempt: int
    fresh: bool = False
    rank: tuple[int, str] = (0, "")


class Wishes:
    """All requests of a workspace, folded as they appear."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._seen: set[str] = set()
        self.order = 0
        self.of: dict[str, Wish] = {}
        self.forgiven: set[str] = set()
        """Names of attempts that do not count against their nodes."""

    @property
    def seen(self) -> frozenset[str]:
        """Names of the request files that were read."""
        return frozenset(self._seen)

    def refresh(self, passed_over: Collection[str] = ()) -> set[str]:
        """Read new requests; returns the runs whose wish changed, except by the files named in ``passed_over``."""
        changed: set[str] = set()
        for path in _files(self._workspace):
            if path.name in self._seen:
                continue
            try:
                request = Request.model_validate_json(path.read_bytes())
            except ValidationError as error:
                raise OrchestratorError(f"{path} is not a request: {error}") from error
            self._seen.add(path.name)
            self.order = max(self.order, request.order)
            rank = (request.order, path.name)
            if request.request == "forgive":
                self.forgiven.update(request.attempts)
                continue
            for run, attempt in request.runs.items():
                old = self.of.get(run)
                if old is None or old.rank < rank:
                    self.of[run] = Wish(request.request, attempt, request.fresh, rank)
                    if path.name not in passed_over:
                        changed.add(run)
        return changed


def _files(workspace: Workspace) -> list[Path]:
    try:
        names = sorted(e.name for e in os.scandir(workspace.requests) if e.name.endswith(".json") and e.name[0] != ".")
    except FileNotFoundError:
        return []
    return [workspace.requests / name for name in names]


def write_request(
    workspace: Workspace, kind: Literal["cancel", "retry"], runs: Mapping[str, int], *, fresh: bool = False
) -> Path:
    """Ask for something; the next pass of any loop takes it up.

    Args:
        runs: run id -> number of the newest attempt of its pack now (``len(workspace.attempts(pack))``).
        fresh: only with "retry".
    """
    return _write(workspace, request=kind, runs=dict(runs), fresh=fresh)


def forgive_node(workspace: Workspace, node: str, attempts: Collection[str]) -> Path:
    """Let a node off: ``attempts`` (names) do not count against it any more. What comes later does."""
    return _write(workspace, request="forgive", node=node, attempts=tuple(sorted(attempts)))


def _write(workspace: Workspace, **content: Any) -> Path:
    wishes = Wishes(workspace)
    wishes.refresh()
    request = Request(order=wishes.order + 1, by=getpass.getuser(), **content)
    workspace.requests.mkdir(parents=True, exist_ok=True)
    path = workspace.requests / f"{time.time_ns()}-{uuid.uuid4().hex}.json"
    replace_file(path, orjson.dumps(request.model_dump(exclude_defaults=True)))
    return path
