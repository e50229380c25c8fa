"""Where a pack would go on if its runs were retried, and how exactly: judged before anything is queued.

What ``retry`` shows is computed with the functions that decide: the same verdicts, and the same walk over checkpoints
as the worker's own. How exact a resume is, is the worker's to say; here it is foretold from what was recorded.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from jobs.checkpoint import Checkpoint, newest_checkpoint
from jobs.facts import Started, read_facts
from jobs.layout import judge_count
from jobs.workspace import Workspace
from orchestrator.desired import DesiredPack
from orchestrator.fitting import processes_of
from orchestrator.launching import threads_of
from orchestrator.policy import Policy
from orchestrator.requests import Wish, Wishes
from orchestrator.survey import brought_up_to_date
from orchestrator.verdicts import PackVerdict, judge_pack

Verdict = Literal["fresh", "exact", "not exact", "refused", "later"]


@dataclass(frozen=True)
class Resume:
    """How a pack would go on.

    Attributes:
        step: where it would begin.
        verdict: fresh (no checkpoint that it may use, or none wanted), exact, not exact, refused, or later: an attempt
            of it is alive, so that nobody can say yet.
        why: in words; "" where the verdict says it all.
        checkpoint: what it would resume.
        passed: newer checkpoints that it has to pass over, and why.
    """

    step: int
    verdict: Verdict
    why: str = ""
    checkpoint: Checkpoint | None = None
    passed: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        return f"{self.verdict}: {self.why}" if self.why else self.verdict


def foretell(
    space: Workspace, pack: DesiredPack, runs: Collection[str], wishes: Wishes, *, fresh: bool, policy: Policy
) -> Resume:
    """What would happen to ``pack`` if a retry of ``runs`` (some of its members) were asked for now."""
    views = brought_up_to_date(space, pack.id, [], 0.0)
    number = views[-1].number if views else 0
    asked = dict.fromkeys(runs, Wish("retry", number, fresh, (wishes.order + 1, "")))
    verdict = judge_pack(pack.runs, views, {**wishes.of, **asked}, policy)
    if verdict.live is not None:
        return Resume(verdict.live.step, "later", f"attempt {verdict.live.number} of its pack is alive")
    checkpoint, passed = _checkpoint(space, pack, verdict)
    over = tuple(f"{one.path.name}: {one.verdict}" for one in passed)
    if checkpoint is None:
        why = "asked for" if fresh else "no checkpoint" if not over else "no checkpoint that it may use"
        return Resume(0, "fresh", why, passed=over)
    refusal, differences = judge(pack, checkpoint, _started(space, pack, checkpoint))
    if refusal:
        return Resume(checkpoint.step, "refused", refusal, checkpoint, over)
    return Resume(checkpoint.step, "not exact" if differences else "exact", "; ".join(differences), checkpoint, over)


def _checkpoint(
    space: Workspace, pack: DesiredPack, verdict: PackVerdict
) -> tuple[Checkpoint | None, list[Checkpoint]]:
    masked = set(pack.runs) - set(verdict.open_runs)
    folder = space.attempt(pack.id, 1).checkpoints
    return newest_checkpoint(folder, done=masked, after_attempt=verdict.fresh_after)


def _started(space: Workspace, pack: DesiredPack, checkpoint: Checkpoint) -> Started | None:
    """The started fact of the attempt that wrote a checkpoint."""
    facts, _ = read_facts(space.attempt(pack.id, checkpoint.attempt).facts)
    return next((fact for fact in facts if isinstance(fact, Started)), None)


def judge(pack: DesiredPack, checkpoint: Checkpoint, started: Started | None) -> tuple[str, list[str]]:
    """(Why it cannot be resumed or "", what keeps a resume from being exact).

    Whether another number of processes can read a checkpoint, its layout says (``jobs.layout``). Threads, the version
    of torch and the number of devices decide how sums are rounded.
    """
    verdict, why = judge_count(checkpoint.meta, processes_of(pack.resources))
    if verdict == "refused":
        return why, []
    differences = [why] if why else []
    recorded: Mapping[str, Any] = started.environment if started is not None else {}
    if started is not None and started.threads != threads_of(pack):
        differences.append(f"threads {started.threads} -> {threads_of(pack)}")
    if (torch := recorded.get("torch")) is not None and torch != _torch():
        differences.append(f"torch {torch} -> {_torch()}")
    devices = pack.resources.get("gpus", 0) * pack.resources.get("nodes", 1)
    if "devices" in recorded and recorded["devices"] != devices:
        differences.append(f"devices {recorded['devices']} -> {devices}")
    return "", differences


def _torch() -> str:
    """Version of the torch that would be used, without importing it."""
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return "none"
