"""What goes wrong in the soak, in the order that a seed gives: nodes, launchers and the controller are killed, jobs are
requeued and cancelled by hand, and what a site mends is mended again after a while.

A hit counts only if something of ours was alive where it struck; what that was is written down before it strikes.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import psutil
from soak_cluster import Cluster, Element
from soak_launcher import Launcher

from jobs.facts import read_claimed, read_heartbeat
from jobs.workspace import AttemptDir, Workspace

KINDS = {
    "node killed, steps too": 3,
    "slurmd killed, steps live": 3,
    "node set down": 3,
    "launcher killed": 4,
    "controller killed": 2,
    "requeued by hand": 3,
    "cancelled by hand": 2,
    "cancelled in the queue": 1,
    "trainer killed": 2,
}
"""Kind -> weight in the draw."""
STARTING = "starting"
AT_WORK = 0.8
"""Share of the hits on packs that prefer one which trains; the rest takes those that are just starting as well."""
MOST_HURT = 3
"""Nodes that are away at a time."""


@dataclass(order=True)
class _Due:
    at: float
    what: str = field(compare=False)
    act: Callable[[], object] = field(compare=False)


class Chaos:
    """Call ``turn`` again and again; it never blocks for long.

    Args:
        every_s: mean time between two hits while all nodes are busy; with fewer jobs it is longer in proportion.
        log: one JSON object a hit.
    """

    def __init__(
        self, cluster: Cluster, launcher: Launcher, workspace: Workspace, *, seed: int, every_s: float, log: Path
    ) -> None:
        self._cluster, self._launcher, self._workspace = cluster, launcher, workspace
        self._dice = random.Random(seed)
        self._every = every_s
        self._log = log
        self._due: list[_Due] = []
        self._hurt: set[str] = set()
        self._untried = self._dice.sample(list(KINDS), len(KINDS))
        self._next = time.monotonic() + every_s
        self._round = 0.0
        self.hits: Counter[str] = Counter()
        self.missed: Counter[str] = Counter()
        """Draws for which nothing suitable was alive."""
        self.mended: Counter[str] = Counter()

    @property
    def calm(self) -> bool:
        """Everything that was hurt has been mended."""
        return not self._due

    def turn(self, *, strike: bool = True) -> None:
        """Mend what is due and, if it is time, hit something."""
        now = time.monotonic()
        for due in sorted(due for due in self._due if due.at <= now):
            self._due.remove(due)
            self.mended[due.what] += 1
            due.act()
        if now >= self._round:
            self._round = now + 10.0
            self._make_rounds()
        if strike and now >= self._next:
            self._next = now + 1.0
            self._maybe_strike()

    def hurry(self) -> None:
        """Mend everything now."""
        for due in self._due:
            due.at = 0.0
        self.turn(strike=False)

    def _mend(self, after_s: float, what: str, act: Callable[[], object]) -> None:
        self._due.append(_Due(time.monotonic() + after_s, what, act))

    def _make_rounds(self) -> None:
        """What an operator of a site does: nodes that Slurm has drained or taken for dead go back to work."""
        for node, state in self._cluster.node_states().items():
            if node not in self._hurt and state.rstrip("*").startswith(("down", "drain")):
                self._cluster.order("scontrol", "update", f"nodename={node}", "state=resume")
                self.mended["node resumed by the operator"] += 1

    # Striking

    def _maybe_strike(self) -> None:
        """Once a second: the chance of a hit is in proportion to the jobs that run."""
        queue = self._cluster.queue() if self._cluster.pid("slurmctld") else None
        running = [e for e in queue or () if e.state == "RUNNING" and e.node not in self._hurt]
        pending = [e for e in queue or () if e.state == "PENDING"]
        share = max(1, len(running)) / len(self._cluster.nodes)
        if self._dice.random() >= share / self._every:
            return
        kind = self._untried[0] if self._untried else self._dice.choices(list(KINDS), list(KINDS.values()))[0]
        told = self._hit(kind, running, pending)
        if told is None:
            self.missed[kind] += 1
            self._dice.shuffle(self._untried)
            return
        if kind in self._untried:
            self._untried.remove(kind)
        self.hits[kind] += 1
        record = {"time": time.time(), "kind": kind, "running": len(running), "pending": len(pending), **told}
        with open(self._log, "ab") as file:
            file.write(orjson.dumps(record) + b"\n")

    def _hit(self, kind: str, running: list[Element], pending: list[Element]) -> dict[str, Any] | None:
        """What was alive where it struck, None where nothing was."""
        match kind:
            case "launcher killed":
                pid = self._launcher.kill()
                if pid is not None:
                    self._mend(self._dice.choice((0.0, self._dice.uniform(0, 15))), kind, self._launcher.start)
                return None if pid is None else {"pid": pid}
            case "controller killed":
                if not running or (pid := self._cluster.kill("slurmctld")) is None:
                    return None
                self._mend(self._dice.uniform(1, 15), kind, lambda: self._cluster.start("slurmctld"))
                return {"pid": pid, "jobs": [e.id for e in running]}
            case "cancelled in the queue":
                return self._order(pending, "scancel")
        target = self._target(running)
        if target is None:
            return None
        element, told = target
        match kind:
            case "requeued by hand":
                return told if self._cluster.order("scontrol", "requeue", element.id) is not None else None
            case "cancelled by hand":
                return told if self._cluster.order("scancel", element.id) is not None else None
            case "trainer killed":
                try:
                    os.kill(told["trainer"], signal.SIGKILL)
                except ProcessLookupError:
                    return None
                return told
        if len(self._hurt) >= MOST_HURT:
            return None
        return self._hurt_node(kind, element, told)

    def _order(self, elements: list[Element], command: str) -> dict[str, Any] | None:
        if not elements:
            return None
        element = self._dice.choice(elements)
        done = self._cluster.order(command, element.id)
        return None if done is None else {"job": element.id, "reason": element.reason}

    def _hurt_node(self, kind: str, element: Element, told: dict[str, Any]) -> dict[str, Any] | None:
        node, daemon = element.node, f"slurmd.{element.node}"
        if kind == "node set down":
            done = self._cluster.order("scontrol", "update", f"nodename={node}", "state=down", "reason=soak")
            if done is None:
                return None
            self._hurt.add(node)
            self._mend(self._dice.uniform(1, 20), kind, lambda: self._back(node))
            return told
        if not self._cluster.steps(element.raw) or self._cluster.kill(daemon) is None:
            return None
        if kind == "node killed, steps too":
            told["killed"] = self._cluster.kill_steps(element.raw)
        # Back before Slurm has noticed, or after it has given the job to another node (SlurmdTimeout is 20 s).
        away = self._dice.choice((self._dice.uniform(1, 10), self._dice.uniform(40, 70)))
        self._hurt.add(node)
        self._mend(away, kind, lambda: self._restart(node, daemon))
        return {**told, "away_s": round(away, 1)}

    def _restart(self, node: str, daemon: str) -> None:
        self._cluster.start(daemon)
        self._hurt.discard(node)

    def _back(self, node: str) -> None:
        self._hurt.discard(node)
        self._cluster.order("scontrol", "update", f"nodename={node}", "state=resume")

    # What is alive

    def _target(self, running: list[Element]) -> tuple[Element, dict[str, Any]] | None:
        """A running element whose trainer lives, and how far it is. (Slurm may call running what is dead by now.)"""
        attempts = {read_job(attempt): attempt for attempt in open_attempts(self._workspace)}
        candidates: list[tuple[Element, dict[str, Any]]] = []
        for element in running:
            attempt = attempts.get(element.id)
            if attempt is not None and (pid := trainer_of(attempt)) is not None:
                beat = read_heartbeat(attempt.heartbeat)
                step = f"{beat.step} of {beat.steps}" if beat is not None and beat.steps else STARTING
                told: dict[str, Any] = {"job": element.id, "node": element.node, "attempt": str(attempt.path)}
                told |= {"step": step, "trainer": pid}
                candidates.append((element, told))
        at_work = [candidate for candidate in candidates if candidate[1]["step"] != STARTING]
        if at_work and self._dice.random() < AT_WORK:
            candidates = at_work
        return self._dice.choice(candidates) if candidates else None


def open_attempts(workspace: Workspace) -> Iterator[AttemptDir]:
    """Attempts that are claimed and not closed."""
    for claimed in workspace.packs.glob("*/*/a*/claimed.json"):
        attempt = AttemptDir(claimed.parent)
        if not attempt.closed.exists():
            yield attempt


def trainer_of(attempt: AttemptDir) -> int | None:
    """Pid of the living process that carries an attempt out."""
    claimed = read_claimed(attempt.claimed)
    if claimed is None:
        return None
    try:
        process = psutil.Process(claimed.pid)
        if process.status() != psutil.STATUS_ZOMBIE and str(attempt.path) in process.cmdline():
            return claimed.pid
    except psutil.Error:
        return None
    return None


def read_job(attempt: AttemptDir) -> str:
    """``<array>_<task>`` of the job that executes an attempt."""
    claimed = read_claimed(attempt.claimed)
    return claimed.job.split("/")[1] if claimed is not None else ""


def read_hits(log: Path) -> list[dict[str, Any]]:
    """What ``Chaos`` wrote down."""
    return [json.loads(line) for line in log.read_bytes().splitlines()] if log.exists() else []
