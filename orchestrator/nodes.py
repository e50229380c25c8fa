"""Which machines to keep away from: derived from attempts, stored nowhere. Pure.

A node is excluded after ``policy.node_failures`` mishaps since it last did anything good:

- hard ones are the machine's by their class (node failure, dirty node, boot or prolog failure): each counts;
- soft ones (it could not start a worker, or the worker was gone at once without a step) may be the run's own fault.
  They count once a pack, and only where the pack's shape has made steps somewhere and the pack did not go the same
  way elsewhere.

An exclusion runs out by itself and doubles with every further mishap, so that one job is the probe. A person may
forgive (``nodes --forgive``): the request names the attempts that are forgiven, so no clocks are compared for that. For
expiry they are: closing times are their writer's wall clock, and hours do not mind seconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobs.facts import FailureClass
from orchestrator.history import AttemptView
from orchestrator.policy import Policy

HARD = frozenset(
    {FailureClass.NODE_FAILURE, FailureClass.DIRTY_NODE, FailureClass.BOOT_FAILURE, FailureClass.PROLOG_FAILED}
)
SOFT = frozenset({FailureClass.LAUNCH_FAILED, FailureClass.UNKNOWN, FailureClass.LOST, FailureClass.WRONG_ALLOCATION})


@dataclass(frozen=True, slots=True)
class Mishap:
    """An attempt that speaks against its node. ``time``: when it was closed; ``took_s`` None where nobody knows."""

    node: str
    pack: str
    shape: str
    attempt: str
    failure: FailureClass
    time: float
    took_s: float | None
    message: str

    @property
    def hard(self) -> bool:
        return self.failure in HARD


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """One machine.

    Attributes:
        attempts, failed: closed attempts that ran there, and those that failed in whatever way.
        against: mishaps that count, oldest first.
        until: excluded until then (seconds since the epoch), None where it is not.
        spared: it would be excluded, but no other machine is known.
    """

    node: str
    attempts: int
    failed: int
    against: Sequence[Mishap] = ()
    until: float | None = None
    spared: bool = False


def mishap_of(pack: str, shape: str, view: AttemptView, policy: Policy) -> Mishap | None:
    """What a closed attempt says against its node; None where it says nothing."""
    closed = view.closed
    if closed is None or closed.failure is None or not view.node:
        return None
    took = view.lasted
    soft = (
        closed.failure in SOFT
        and not view.moved
        and (not view.begun or view.started is None or took is None or took <= policy.instant_s)
    )
    if closed.failure not in HARD and not soft:
        return None
    return Mishap(view.node, pack, shape, view.name, closed.failure, closed.time, took, closed.message)


@dataclass
class Nodes:
    """Grows as attempts are closed; the same attempt twice changes nothing."""

    policy: Policy
    machines: frozenset[str] | None = None
    """All that the backend offers under the names that it goes by; None where it names none: then those are known on
    which something ran. Where nobody but a worker has said where it ran, that is its host's own name, which a scheduler
    may not know (and refuse a job for)."""
    _seen: set[str] = field(default_factory=set)
    _mishaps: dict[str, Mishap] = field(default_factory=dict)
    _good: dict[str, float] = field(default_factory=dict)
    """Node -> when something good was last closed there."""
    _moved: set[str] = field(default_factory=set)
    """Shapes that have made a step somewhere."""
    _attempts: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    _failed: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))

    def see(self, pack: str, shape: str, view: AttemptView) -> None:
        """Take one attempt up; one that is not over waits."""
        if view.closed is None or view.name in self._seen:
            return
        self._seen.add(view.name)
        if view.node:
            self._attempts[view.node] += 1
            self._failed[view.node] += view.closed.outcome in ("failed", "lost")
        mishap = mishap_of(pack, shape, view, self.policy)
        if mishap is not None:
            self._mishaps[view.name] = mishap
        elif view.moved:
            self._worked(view.node, shape, view.closed.time)

    def recall(self, pack: str, shape: str, data: Mapping[str, Any]) -> None:
        """As ``see``, from an attempt as the index keeps it; those that went well are many, and cost little."""
        closed, node = data["closed"], data["placed"] or data["host"]
        if closed is None or closed["outcome"] != "completed" or data["started"] is None or not node:
            self.see(pack, shape, AttemptView.from_json(data))
        elif data["name"] not in self._seen:
            self._seen.add(data["name"])
            self._attempts[node] += 1
            self._worked(node, shape, closed["time"])

    def _worked(self, node: str, shape: str, time: float) -> None:
        self._moved.add(shape)
        if node:
            self._good[node] = max(self._good.get(node, 0.0), time)

    @property
    def troubled(self) -> bool:
        """Some machine has had a mishap."""
        return bool(self._mishaps)

    def _nothing_but(self, nodes: Collection[str]) -> bool:
        """No other machine is known to exist: a job that avoids these could never start."""
        return not (self._attempts.keys() if self.machines is None else self.machines) - set(nodes)

    def _named(self, nodes: Iterable[str]) -> tuple[str, ...]:
        """Those that the backend knows by these names."""
        return tuple(node for node in nodes if self.machines is None or node in self.machines)

    def verdicts(self, now: float, forgiven: Collection[str] = ()) -> dict[str, NodeVerdict]:
        """Every node that was seen. ``now``: seconds since the epoch."""
        against = self._against(forgiven)
        until = {node: self._until(mishaps) for node, mishaps in against.items()}
        bad = {node for node, time in until.items() if time is not None and time > now}
        spared = self._nothing_but(bad)
        return {
            node: NodeVerdict(
                node,
                count,
                self._failed[node],
                against.get(node, ()),
                until[node] if node in bad and not spared else None,
                node in bad and spared,
            )
            for node, count in sorted(self._attempts.items())
        }

    def excluded(self, now: float, forgiven: Collection[str] = ()) -> tuple[str, ...]:
        """Nodes that new jobs should avoid."""
        if len(self._mishaps) < self.policy.node_failures:
            return ()
        verdicts = self.verdicts(now, forgiven)
        return self._named(node for node, verdict in verdicts.items() if verdict.until is not None)

    def avoid(self, views: Sequence[AttemptView]) -> tuple[str, ...]:
        """Where a pack came to grief just now, so that its next attempt goes elsewhere; empty where no other machine
        is known. ``views``: its attempts."""
        recent = [view for view in views if view.closed is not None][-self.policy.avoid_last :]
        nodes = self._named(dict.fromkeys(view.node for view in recent if view.name in self._mishaps))
        return () if self._nothing_but(nodes) else tuple(sorted(nodes))

    def _against(self, forgiven: Collection[str]) -> dict[str, list[Mishap]]:
        soft_places: dict[str, set[str]] = defaultdict(set)
        for mishap in self._mishaps.values():
            if not mishap.hard:
                soft_places[mishap.pack].add(mishap.node)
        counted: dict[str, list[Mishap]] = defaultdict(list)
        packs: set[tuple[str, str]] = set()
        for mishap in sorted(self._mishaps.values(), key=lambda mishap: mishap.time):
            if mishap.attempt in forgiven or mishap.time <= self._good.get(mishap.node, 0.0):
                continue
            if not mishap.hard:
                key = (mishap.node, mishap.pack)
                if mishap.shape not in self._moved or len(soft_places[mishap.pack]) > 1 or key in packs:
                    continue
                packs.add(key)
            counted[mishap.node].append(mishap)
        return counted

    def _until(self, against: Sequence[Mishap]) -> float | None:
        extra = len(against) - self.policy.node_failures
        if extra < 0:
            return None
        policy = self.policy
        return against[-1].time + min(policy.node_exclusion_cap_s, policy.node_exclusion_s * 2.0 ** min(extra, 30))
