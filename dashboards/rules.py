"""The checklist R1 to R12, filled from what was really run: never from what somebody intends.

R1 to R4 are the closing advice of Narang et al. (2021), R5 to R7 the audit's (arXiv 2605.20798), R8 to R12 ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dashboards.evidence import Conduct, Evidence
from dashboards.verdicts import Verdicts
from dashboards.words import counted, listed
from sweeps.analysis.decoupling import ATTENTION_OUTPUT

MET, PARTLY, MISSED, UNKNOWN = "met", "in part", "not met", "not known"
FEWEST_SEEDS = 3


@dataclass(frozen=True)
class Rule:
    """One line of the checklist: what is asked, whether it is met, and the evidence for that."""

    code: str
    asks: str
    answer: str
    why: str


def checklist(evidence: Evidence, verdicts: Verdicts) -> list[Rule]:
    """All twelve, in order."""
    conduct = evidence.conduct
    return [
        _codebases(conduct.codebases),
        _tasks(evidence),
        _rates(evidence),
        _trials(evidence, verdicts),
        _floor(verdicts),
        _downstream(evidence),
        _scales(evidence),
        _parity(conduct),
        _declared(evidence),
        _equivalence(evidence, verdicts),
        _omissions(conduct),
        _rescue(evidence),
    ]  # fmt: skip


def _parity(conduct: Conduct) -> Rule:
    asks = "evaluation through the same code path as training"
    if conduct.parity is None and conduct.one_path:
        return Rule("R8", asks, MET, "the trainer evaluates by its own forward pass: there is one path")
    yes, no = (f"the evaluation's loss was {word}checked against the trainer's" for word in ("", "not "))
    return _said("R8", asks, conduct.parity, yes, no)


def _omissions(conduct: Conduct) -> Rule:
    asks = "omitted details of published methods are named"
    if conduct.omitted is None and conduct.left_out:
        why = f"the plan names what it leaves out ({'; '.join(conduct.left_out[:3])}"
        why += f"; {len(conduct.left_out) - 3} more)" if len(conduct.left_out) > 3 else ")"
        return Rule("R11", asks, PARTLY, f"{why}, but not in what an arm differs from its paper")
    return _said("R11", asks, conduct.omitted, "omissions are stated", "omissions are not stated")


def _codebases(count: int | None) -> Rule:
    asks = "the change works in several unrelated codebases"
    if count is None:
        return Rule("R1", asks, UNKNOWN, "nothing says in how many codebases it was tried")
    return Rule("R1", asks, MET if count > 1 else MISSED, f"{counted(count, 'codebase')}")


def _tasks(evidence: Evidence) -> Rule:
    asks = "a wide range of downstream uses"
    stated = evidence.settings.get("tasks")
    count = int(float(stated)) if stated else len(evidence.tasks)
    if not count:
        return Rule("R2", asks, UNKNOWN, "the table does not say over which tasks its metric is")
    answer = MISSED if count == 1 else PARTLY if count < 5 else MET
    return Rule("R2", asks, answer, counted(count, "task"))


def _rates(evidence: Evidence) -> Rule:
    asks = "hyper-parameters are fixed, or robustness to them is measured"
    conduct = evidence.conduct
    if conduct.other_rates:
        how = "fixed for all arms" if conduct.fixed_rates else "not the same for all arms"
        return Rule("R3", asks, MET, f"{how}, and measured at another rate as well")
    if conduct.fixed_rates is None:
        return Rule("R3", asks, UNKNOWN, "nothing says how they were chosen")
    if conduct.fixed_rates:
        return Rule("R3", asks, MET, "the same for all arms; robustness to them was not measured")
    return Rule("R3", asks, MISSED, "tuned for each arm, without a measure of robustness")


def _trials(evidence: Evidence, verdicts: Verdicts) -> Rule:
    asks = "mean and sd over several trials, never the best run"
    counts = [j.verdict.n for j in verdicts.judged if j.verdict.n]
    single = sum(n == 1 for n in counts)
    if not counts:
        return Rule("R4", asks, MISSED, "no arm has a run with a value")
    if not single:
        return Rule("R4", asks, MET, f"{min(counts)} or more runs behind every mean")
    answer = MISSED if single == len(counts) else PARTLY
    return Rule("R4", asks, answer, f"{single} of {counted(len(counts), 'arm')} are single runs")


def _floor(verdicts: Verdicts) -> Rule:
    n = verdicts.n_baseline
    why = f"{counted(n, 'run')} of the baseline" if n else "no run of the baseline"
    return Rule("R5", "a noise floor from several seeds", MET if n >= FEWEST_SEEDS else MISSED, why)


def _downstream(evidence: Evidence) -> Rule:
    asks = "attention-output changes are evaluated downstream, not by loss"
    arms = [arm for arm in evidence.arms if evidence.classes.get(arm) == ATTENTION_OUTPUT]
    if not evidence.classes:
        return Rule("R6", asks, UNKNOWN, "no classes are given (column `class`)")
    if not arms:
        return Rule("R6", asks, MET, "no arm changes the attention output")
    if "loss" in evidence.metric:
        return Rule("R6", asks, MISSED, f"{evidence.metric} is a loss: {listed(arms)}")
    lacking = [arm for arm in arms if not _has_value(evidence, arm)]
    if lacking:
        return Rule("R6", asks, PARTLY, f"no downstream value: {listed(lacking)}")
    return Rule("R6", asks, MET, f"{counted(len(arms), 'arm')} with a downstream value")


def _scales(evidence: Evidence) -> Rule:
    asks = "effects are checked at more than one scale"
    scales = [scale for scale in evidence.scales if scale is not None]
    if len(scales) < 2:
        return Rule("R7", asks, MISSED, f"one scale{f' ({scales[0]})' if scales else ''}: transfer was not tested")
    return Rule("R7", asks, MET, f"{len(scales)} scales: {listed(scales)}")


def _declared(evidence: Evidence) -> Rule:
    asks = "family, alpha and detectable effect are declared before training"
    if evidence.conduct.declared is None:
        return Rule("R9", asks, UNKNOWN, "a table cannot show when its analysis was chosen")
    if not evidence.conduct.declared:
        return Rule("R9", asks, MISSED, "the analysis was not frozen before the first launch")
    if evidence.conduct.departures:
        return Rule("R9", asks, MISSED, f"frozen, and departed from: {'; '.join(evidence.conduct.departures)}")
    return Rule("R9", asks, MET, "frozen at the first launch and followed")


def _equivalence(evidence: Evidence, verdicts: Verdicts) -> Rule:
    asks = "no difference is claimed without an equivalence test"
    margin = evidence.options.margin
    if margin is None:
        return Rule("R10", asks, MET, "no margin was given, so no arm is called equal to the baseline")
    proven = verdicts.named("equivalent")
    return Rule("R10", asks, MET, f"TOST within {margin:g}: {listed(proven)}")


def _rescue(evidence: Evidence) -> Rule:
    asks = "a smaller rate is tried before “fails to transfer”"
    lost = _lost(evidence)
    if not lost:
        return Rule("R12", asks, MET, "no arm diverged in every seed")
    lacking = [arm for arm in lost if arm not in evidence.conduct.rescued]
    if lacking:
        return Rule("R12", asks, MISSED, f"diverged without a rescue arm: {listed(lacking)}")
    return Rule("R12", asks, MET, f"rescue arms of {listed(lost)}")


def _lost(evidence: Evidence) -> Sequence[str]:
    """Arms of which every run at some scale diverged."""
    found = []
    for arm in evidence.arms:
        for scale in evidence.scales:
            runs = [r for r in evidence.results if (r.arm, r.scale) == (arm, scale)]
            means = [m for m in evidence.means if (m.arm, m.scale) == (arm, scale)]
            if (runs and all(r.diverged for r in runs)) or any(m.n and m.diverged >= m.n for m in means):
                found.append(arm)
                break
    return found


def _has_value(evidence: Evidence, arm: str) -> bool:
    values = [r.value for r in evidence.results if r.arm == arm] + [m.mean for m in evidence.means if m.arm == arm]
    return any(value is not None for value in values)


def _said(code: str, asks: str, said: bool | None, yes: str, no: str) -> Rule:
    if said is None:
        return Rule(code, asks, UNKNOWN, "nothing was recorded about it")
    return Rule(code, asks, MET if said else MISSED, yes if said else no)
