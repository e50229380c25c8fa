"""What a loop leaves in the index after each pass, and takes out of it when it starts."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from jobs.facts import FailureClass
from jobs.workspace import Workspace
from orchestrator.board import Board
from orchestrator.cost import LEAST_S, cost_of, devices_of, unit_of
from orchestrator.history import AttemptView
from orchestrator.index import Index, verdicts_from, verdicts_to, views_from
from orchestrator.policy import Policy
from orchestrator.requests import Wishes
from orchestrator.verdicts import RunVerdict
from orchestrator.waiting import Outlook
from orchestrator.workspace_id import ensure_workspace_id, packs_on_disk


def broken(verdicts: Mapping[str, RunVerdict]) -> list[dict[str, Any]]:
    """Failed runs by class and message: ``{"failure", "message", "runs", "example"}``, the most frequent first."""
    groups: dict[tuple[str, str], list[str]] = {}
    for run, verdict in verdicts.items():
        groups.setdefault((str(verdict.failure or FailureClass.UNKNOWN), verdict.message), []).append(run)
    return [
        {"failure": failure, "message": message, "runs": len(runs), "example": runs[0]}
        for (failure, message), runs in sorted(groups.items(), key=lambda item: -len(item[1]))
    ]


class Ledger:
    """Keeps the index in step with a board. ``index`` None: keeps nothing."""

    def __init__(self, index: Index | None) -> None:
        self._index = index
        self._costs: dict[str, dict[str, float]] = {}
        self._totals: dict[str, dict[str, float]] = {}
        self._units: dict[str, str] = {}
        self._batches: set[str] = set()

    def restore(self, board: Board, wishes: Wishes, policy: Policy) -> list[str]:
        """Fill an empty board with what the index knows. Returns the submissions that need no second look."""
        if self._index is None:
            wishes.refresh()
            board.load({}, {})
            return []
        asked = wishes.refresh(set(self._index.meta("requests") or ()))
        there = packs_on_disk(board.workspace)
        gone: list[str] = []
        same_policy = self._index.meta("policy") == _policy_key(policy)
        settled: dict[str, dict[str, RunVerdict]] = {}
        histories: dict[str, list[AttemptView]] = {}
        desired = board.desired
        for pack, body in self._index.settled():
            if pack not in desired.packs:
                continue
            if body["attempts"] and pack not in there:
                gone.append(pack)  # somebody deleted its results: it was never run
                continue
            self._costs[pack] = body.get("cost", {})
            verdicts = verdicts_from(body["verdicts"])
            again = not same_policy and any(verdict.failure for verdict in verdicts.values())
            if again or any(run in asked for run in verdicts):
                histories[pack] = views_from(body["attempts"])
            else:
                settled[pack] = verdicts
                for data in body["attempts"]:
                    board.nodes.recall(pack, desired.packs[pack].shape, data)
        for pack, body in self._index.open_packs():
            if body["attempts"] and pack not in there:
                gone.append(pack)
                continue
            self._costs[pack] = body.get("cost", {})
            histories[pack] = views_from(body["attempts"])
        if gone:
            self._index.store(forget=gone)
        board.load(settled, histories)
        for sweep, packs in desired.packs_of.items():
            self._units[sweep] = unit_of(desired.packs[pack].resources for pack in packs)
            total = self._totals[sweep] = defaultdict(float)
            for pack in packs:
                for name, seconds in self._costs.get(pack, {}).items():
                    total[name] += seconds
        batches = self._index.batches()
        self._batches = set(batches)
        return batches

    def write(
        self, board: Board, wishes: Wishes, known: frozenset[str], now: float, policy: Policy, outlook: Outlook
    ) -> str:
        """Store what changed in this pass. Returns "" or why it could not be stored: it is kept for the next pass, or
        the whole index in memory."""
        if self._index is None:
            board.dirty.clear()
            return ""
        packs = []
        for pack in board.dirty:
            verdict = board.verdicts.get(pack)
            if verdict is None:
                continue
            views = board.histories.get(pack, [])
            devices = devices_of(board.desired.packs[pack].resources)
            cost = cost_of(views, verdict.runs, devices)
            self._recost(board, pack, cost)
            body = {
                "sweeps": _sweeps_of(board, pack),
                "verdicts": verdicts_to(verdict.runs),
                "attempts": [view.to_json() for view in views],
                "cost": cost,
                "devices": devices,
            }
            packs.append((pack, verdict.settled, body))
        sweeps = {
            sweep: {
                "digest": board.desired.digests[sweep],
                "counts": {str(state): n for state, n in board.counts[sweep].items() if n},
                "cost": {name: s for name, s in self._totals.get(sweep, {}).items() if s > LEAST_S},
                "unit": self._units[sweep],
                "waiting": outlook.waiting.get(sweep, {}),
                "queued": outlook.queued.get(sweep, {}),
                "trouble": outlook.trouble,
                "broken": broken({r: v for r, v in board.failed.items() if r in board.desired.runs_of[sweep]}),
                "time": now,
            }
            for sweep in board.counts
        }
        new = known - self._batches
        meta = {"requests": sorted(wishes.seen), "policy": _policy_key(policy)}
        try:
            self._index.store(packs, sweeps, new, meta)
        except sqlite3.Error as error:
            return f"the index was not written: {error}"
        self._batches |= new
        board.dirty.clear()
        return self._index.trouble

    def _recost(self, board: Board, pack: str, cost: dict[str, float]) -> None:
        before = self._costs.get(pack, {})
        for sweep in _sweeps_of(board, pack):
            total = self._totals.setdefault(sweep, defaultdict(float))
            for name in {*before, *cost}:
                total[name] += cost.get(name, 0.0) - before.get(name, 0.0)
        self._costs[pack] = cost


def _sweeps_of(board: Board, pack: str) -> list[str]:
    sweeps = dict.fromkeys(s for run in board.desired.packs[pack].runs for s in board.desired.sweeps_of.get(run, ()))
    return list(sweeps)


def _policy_key(policy: Policy) -> str:
    return repr(sorted(policy.retries.items()))


def open_index(workspace: Workspace) -> Index:
    """This host's index of a workspace, to write to."""
    return Index(workspace.index, write=True, identity=ensure_workspace_id(workspace))
