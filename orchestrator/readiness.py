"""May a pack begin? Its members' inputs decide, by our own verdicts on the runs that make them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jobs.state import RunState
from orchestrator.desired import Desired
from orchestrator.verdicts import RunVerdict


@dataclass(frozen=True, slots=True)
class Readiness:
    """What the inputs of a pack's open members allow.

    Attributes:
        runnable: members whose inputs have all completed.
        blocked: member -> why its inputs will not come (unless a person retries them).
        waiting: inputs that are still to come.
    """

    runnable: tuple[str, ...]
    blocked: Mapping[str, str]
    waiting: tuple[str, ...]

    @property
    def ready(self) -> bool:
        """Every input is decided, and something can be trained."""
        return bool(self.runnable) and not self.waiting


NOTHING = Readiness((), {}, ())


def readiness_of(todo: Sequence[str], desired: Desired, ended: Mapping[str, RunVerdict]) -> Readiness:
    """``todo``: members of one pack that another attempt should train; ``ended``: verdicts of all runs that ended."""
    runnable: list[str] = []
    blocked: dict[str, str] = {}
    waiting: list[str] = []
    for run in todo:
        inputs = [ref.run for ref in desired.runs[run].inputs.values()]
        dead = [need for need in inputs if is_dead(need, desired, ended)]
        missing = [need for need in inputs if need not in ended and need not in dead]
        if dead:
            blocked[run] = _why_dead(dead[0], desired, ended)
        elif missing:
            waiting += missing
        else:
            runnable.append(run)
    return Readiness(tuple(runnable), blocked, tuple(dict.fromkeys(waiting)))


def is_dead(run: str, desired: Desired, ended: Mapping[str, RunVerdict]) -> bool:
    """Its products will not come unless a person retries something."""
    verdict = ended.get(run)
    if verdict is not None:
        return verdict.state is not RunState.COMPLETED
    if run not in desired.pack_of:
        return True
    return any(is_dead(ref.run, desired, ended) for ref in desired.runs[run].inputs.values())


def _why_dead(run: str, desired: Desired, ended: Mapping[str, RunVerdict]) -> str:
    verdict = ended.get(run)
    if verdict is not None:
        why = f" ({verdict.failure}: {verdict.message})" if verdict.failure else ""
        return f"needs {run} which {'has failed' if verdict.state is RunState.FAILED else 'was cancelled'}{why}"
    if run not in desired.pack_of:
        return f"needs {run} which is planned nowhere"
    return f"needs {run} which is blocked in turn"
