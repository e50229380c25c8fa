"""Tables that must not be averaged: one arm under two names, two configs under one."""

from collections.abc import Iterable, Sequence

from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.results import Result


def check_names(results: Sequence[Result]) -> None:
    """Refuse arms that are one.

    Two names that differ in case or spaces only, or two arms whose values agree to the last digit in every
    run (two or more runs that are not all alike): counting both would test one arm twice.

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
    fingerprints: dict[tuple, str] = {}
    for name in names:
        runs = tuple(
            sorted(
                (r.task, r.scale or "", r.item or "", r.search or 0, r.seed, r.value)
                for r in results
                if r.arm == name and r.value is not None
            )
        )
        if len(runs) < 2 or len({run[-1] for run in runs}) < 2:
            continue
        if runs in fingerprints:
            raise AnalysisError(
                f"arms {fingerprints[runs]!r} and {name!r} have equal values in all of their {len(runs)} runs: "
                "one arm under two names? drop one of them"
            )
        fingerprints[runs] = name


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
