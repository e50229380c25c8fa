"""What a claim lacks, judged by its table alone: rules R1 to R12.

R1 to R4 are the closing advice of Narang et al. (2021); R5 to R7 the audit's; R8 to R12 ours. A table cannot
show everything: what it cannot show is "unknown", never "met".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sweeps.analysis.default_power import Plan, detectable_by_default
from sweeps.analysis.direction import reads_as_loss
from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.options import Options
from sweeps.analysis.power import detectable
from sweeps.analysis.results import Result
from sweeps.analysis.sigma import FEWEST_BASELINE

State = Literal["met", "lacking", "unknown"]


@dataclass(frozen=True)
class Item:
    """One rule: its code, what it asks, whether the table meets it, and why in words."""

    code: str
    asks: str
    state: State
    why: str


def checklist(results: Sequence[Result], metric: str, options: Options, *, declared: bool = True) -> list[Item]:
    """Grade a table of results.

    Args:
        results: the table.
        metric: name of its metric; names such as loss or perplexity are no downstream evaluation.
        options: baseline, correction and margin the claim comes with (correction "none": it names none).
        declared: whether the claim names its correction; a default of ours is none of its merits.

    Raises:
        AnalysisError: a baseline that is no arm of the table.
    """
    names = sorted({r.arm for r in results})
    if options.baseline not in names:
        raise AnalysisError(
            f"baseline {options.baseline!r} is no arm of these results; their arms are {', '.join(names)}"
        )
    arms = sorted({r.arm for r in results} - {options.baseline})
    seeds = {a: _fewest_seeds(results, a) for a in [*arms, options.baseline]}
    singles = [a for a in (*arms, options.baseline) if seeds[a] < 2]
    base = seeds[options.baseline]
    tasks, scales = sorted({r.task for r in results}), sorted({r.scale for r in results if r.scale is not None})
    lost = sorted({r.arm for r in results if r.diverged})
    on_loss = reads_as_loss(metric)
    return [
        Item("R1", "several unrelated codebases", "unknown", "a table of results does not show where they were made"),
        _item("R2", "a wide range of downstream uses", len(tasks) > 2, f"{_count(len(tasks), 'task')} compared"),
        Item("R3", "hyper-parameters fixed, or robustness measured", "unknown", "the table does not hold them"),
        _item(
            "R4",
            "mean and spread over several trials",
            not singles,
            f"every arm has {min(seeds.values(), default=0)} or more seeds"
            if not singles
            else f"one seed or none of {_names(singles)}",
        ),
        _item("R5", "a noise floor from several seeds", base >= 3, f"{_count(base, 'seed')} of the baseline"),
        _item(
            "R6",
            "downstream evaluation where attention output changes",
            not on_loss,
            f"{metric} is a loss, not a downstream metric" if on_loss else f"{metric} is compared",
        ),
        _item(
            "R7",
            "a check at a second scale",
            len(scales) > 1,
            f"scales {', '.join(scales)}" if len(scales) > 1 else "one scale only",
        ),
        Item("R8", "equal loss through the evaluation's own path", "unknown", "the table does not show it"),
        _family(options, len(arms), seeds, base, declared),
        _item(
            "R10",
            "equivalence only by a test with a margin",
            options.margin is not None,
            "no margin: a difference that is not significant is not equivalence"
            if options.margin is None
            else f"margin {options.margin:g}, tested by TOST",
        ),
        Item("R11", "omitted details of the published methods", "unknown", "the table does not name them"),
        Item(
            "R12",
            "a rescue arm before 'fails to transfer'",
            "lacking" if lost else "unknown",
            f"{_names(lost)} diverged; is there an arm with a smaller rate?" if lost else "nothing diverged here",
        ),
    ]


def _family(options: Options, arms: int, seeds: dict[str, int], base: int, declared: bool) -> Item:
    asks = "family, alpha and detectable effect declared"
    if not declared:
        why = "the table names no correction; give the claim's own by --correction (none, if it has none)"
        return Item("R9", asks, "unknown", why)
    return _item("R9", asks, options.correction != "none", _declared(options, arms, seeds, base))


def _declared(options: Options, arms: int, seeds: dict[str, int], base: int) -> str:
    if options.correction == "none":
        return f"no correction over {_count(arms, 'arm')}: a false positive somewhere is likely"
    words = f"{options.correction} over {_count(arms, 'arm')} at {options.alpha:g}"
    fewest = min((n for a, n in seeds.items() if a != options.baseline), default=0)
    df = sum(n - 1 for n in seeds.values() if n > 1)
    effect = None
    if fewest and arms and options.sigma == "auto" and base >= FEWEST_BASELINE:
        effect = detectable_by_default(Plan(fewest, base, arms, options.alpha, correction=options.correction))
    elif fewest and base and df and arms and options.sigma != "auto":
        effect = detectable(1.0, fewest, base, df, options.alpha / arms)
    if effect is not None:
        words += f"; effects below {effect:.1f} seed sd are missed by one in five or more"
    return words


def _fewest_seeds(results: Sequence[Result], arm: str) -> int:
    """Runs with a value in the arm's thinnest task and scale."""
    runs: dict[tuple, set] = {}
    for r in results:
        if r.arm == arm and r.value is not None:
            runs.setdefault((r.task, r.scale), set()).add((r.search, r.seed))
    return min(map(len, runs.values()), default=0)


def _item(code: str, asks: str, met: bool, why: str) -> Item:
    return Item(code, asks, "met" if met else "lacking", why)


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


def _names(arms: Sequence[str]) -> str:
    shown = ", ".join(arms[:5])
    return shown if len(arms) <= 5 else f"{shown} and {len(arms) - 5} more"
