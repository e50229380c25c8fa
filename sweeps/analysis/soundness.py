"""Tables that must not be averaged: one arm under two names, two configs under one."""

from collections import Counter
from collections.abc import Iterable, Sequence

from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.results import Result


def check_names(results: Sequence[Result]) -> None:
    """Refuse arms that are one.

    Two names that differ in case or spaces only, or two arms whose values agree to the last digit in every
    run, two of them values that no third arm has (where a metric takes few values, arms agree by chance):
    counting both would test one arm twice.

    Raises:
        AnalysisError: naming both.
    """
    names = sorted({r.arm for r in results})
    seen: dict[str, str] = {}
    for name in names:
        plain = "".join(name.casefold().split())
        if plain in seen:
            raise AnalysisError(f"arms {seen[plain]!r} and {name!r} differ in case or spaces only; give one name")
        seen[plain] = name
    alike: dict[tuple, list[str]] = {}
    for name in names:
        runs = tuple(
            sorted(
                (r.task, r.scale or "", r.item or "", r.search or 0, r.seed, r.value)
                for r in results
                if r.arm == name and r.value is not None
            )
        )
        if len(runs) > 1:
            alike.setdefault(runs, []).append(name)
    for runs, same in alike.items():
        if len(same) > 1 and _own_values(results, same, runs) > 1:
            raise AnalysisError(
                f"arms {same[0]!r} and {same[1]!r} have equal values in all of their {len(runs)} runs: "
                "one arm under two names? drop one of them"
            )


def _own_values(results: Sequence[Result], same: Sequence[str], runs: Sequence[tuple]) -> int:
    """How many distinct values of equal arms are found in no other arm."""
    elsewhere = {(r.task, r.scale or "", r.value) for r in results if r.arm not in same}
    return len({(task, scale, value) for task, scale, *_, value in runs} - elsewhere)


def repeated_values(arm: str, group: Sequence[Result]) -> str | None:
    """Words for runs that look like copies of other runs under other seeds, or None.

    Three distinct values or more, equal to the last digit: each of them several times in this arm, or all of them
    those of another arm. It is a remark and no refusal, for a coarse metric may do so by chance.
    """
    values: dict[str, list[float]] = {}
    for r in group:
        if r.value is not None and r.search is None:
            values.setdefault(r.arm, []).append(r.value)
    mine = Counter(values.pop(arm, []))
    if len(mine) < 3:
        return None
    if min(mine.values()) > 1:
        return f"its {mine.total()} runs have {len(mine)} values, each several times: runs counted twice?"
    twin = next((name for name, theirs in sorted(values.items()) if Counter(theirs) == mine), None)
    return None if twin is None else f"its values are those of {twin!r} under other seeds: the same runs?"


def check_configs(configs: Iterable[tuple[str, str]]) -> None:
    """Refuse (arm, config) pairs that are not one to one; ``config`` is a hash or text that decides the result.

    Raises:
        AnalysisError: an arm with two configs, or a config under two arms.
    """
    of_arm: dict[str, str] = {}
    of_config: dict[str, str] = {}
    for arm, config in configs:
        if of_arm.setdefault(arm, config) != config:
            raise AnalysisError(
                f"arm {arm!r} mixes the configs {of_arm[arm]!r} and {config!r}; runs of one arm must share one config"
            )
        if of_config.setdefault(config, arm) != arm:
            raise AnalysisError(
                f"config {config!r} stands under the arms {of_config[config]!r} and {arm!r}; give one arm one name"
            )
