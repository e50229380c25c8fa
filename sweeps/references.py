"""Does every name in a sweep file mean something: stages, factors, levels, labels, runners?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from jobs.runners import RUNNERS
from sweeps.crossing import factor_names, levels
from sweeps.errors import Problem
from sweeps.labels import contains
from sweeps.load import Sweep
from sweeps.schema import Need, Seeds, Stage
from sweeps.tree import Path, dotted, origin_of


def check(sweep: Sweep) -> list[Problem]:
    """Every name that means nothing, with its line and the valid choices."""
    checker = _Checker(sweep)
    checker.factors()
    for name, stage in sweep.file.all_stages().items():
        checker.stage(name, stage)
    checker.stage_order()
    checker.whole_file()
    return checker.problems


def seeds_of(sweep: Sweep, stage: Stage) -> Seeds:
    return stage.seeds or sweep.file.seeds


def ordered_stages(sweep: Sweep) -> list[str]:
    """Producers before consumers, otherwise in the order of the file. Raises CycleError."""
    stages = sweep.file.all_stages()
    order = TopologicalSorter({name: _producers(stage) & stages.keys() for name, stage in stages.items()})
    order.prepare()
    names: list[str] = []
    while order.is_active():
        ready = sorted(order.get_ready(), key=list(stages).index)
        names += ready
        order.done(*ready)
    return names


def labels_of(sweep: Sweep, name: str, inside: tuple[str, ...] = ()) -> set[str]:
    """Names of all labels that runs of a stage can have: factors, its seeds, and those its producers hand on."""
    stage = sweep.file.all_stages()[name]
    found = {*factor_names(sweep, stage), seeds_of(sweep, stage).name}
    for needs in stage.needs.values():
        for need in needs:
            if need.stage in sweep.file.all_stages() and need.stage not in (*inside, name):
                handed = labels_of(sweep, need.stage, (*inside, name))
                fixed = {label for label, choices in need.where.items() if len(choices) == 1}
                found |= handed - fixed - need.match.keys()
    return found


def _producers(stage: Stage) -> set[str]:
    return {need.stage for needs in stage.needs.values() for need in needs}


class _Checker:
    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        self.file = sweep.file
        self.stages = sweep.file.all_stages()
        self.levels = {name: [level.value for level in levels(sweep, name)] for name in sweep.file.factors}
        self.labels = set().union(*(labels_of(sweep, name) for name in self.stages))
        self.problems: list[Problem] = []

    def problem(self, path: Path, message: str, value: Any, choices: Iterable[Any] = ()) -> None:
        _, origin = origin_of(self.sweep.origins, path)
        found = Problem(dotted(path), message, origin.file, origin.line, value, tuple(str(c) for c in choices))
        self.problems.append(found)

    def known(self, path: Path, what: str, name: str, choices: Iterable[str]) -> bool:
        choices = list(choices)
        if name not in choices:
            self.problem(path, f"no such {what}", name, choices)
        return name in choices

    def factors(self) -> None:
        grouped: set[str] = set()
        for index, group in enumerate(self.file.zip):
            for position, name in enumerate(group):
                self.known(("zip", index, position), "factor", name, self.levels)
                if name in grouped:
                    self.problem(("zip", index, position), "a factor stands in one zip group only", name)
                grouped.add(name)
            sizes = {name: len(self.levels[name]) for name in group if name in self.levels}
            if len(set(sizes.values())) > 1:
                listed = ", ".join(f"{name} has {size}" for name, size in sizes.items())
                self.problem(
                    ("zip", index),
                    f"factors that walk together need as many levels as each other: {listed}",
                    list(group),
                )

    def stage(self, name: str, stage: Stage) -> None:
        root: Path = () if self.file.runner is not None else ("stages", name)
        self.known((*root, "runner"), "runner", stage.runner, RUNNERS)
        for index, factor in enumerate(stage.factors or ()):
            self.known((*root, "factors", index), "factor", factor, self.levels)
        seeds = seeds_of(self.sweep, stage)
        if seeds.name in self.levels or seeds.name == "stage":
            path: Path = (*root, "seeds") if stage.seeds else ("seeds",)
            self.problem(path, "these seeds need a label of their own: a factor has this name", seeds.name)
        for label, needs in stage.needs.items():
            for index, need in enumerate(needs):
                written = self.sweep.settings["stages"][name]["needs"][label]
                at: Path = (*root, "needs", label, index) if isinstance(written, list) else (*root, "needs", label)
                self.need(at, name, stage, need)
        if stage.pack is not None:
            self.pack((*root, "pack"), stage.pack.by)

    def need(self, root: Path, name: str, stage: Stage, need: Need) -> None:
        self.when((*root, "when"), need.when, {*factor_names(self.sweep, stage), "stage"})
        if not self.known((*root, "stage"), "stage", need.stage, [other for other in self.stages if other != name]):
            return
        theirs, ours = labels_of(self.sweep, need.stage), labels_of(self.sweep, name)
        self.when((*root, "where"), need.where, theirs)
        for producer, consumer in need.match.items():
            self.known((*root, "match", producer), f"label of stage {need.stage}", producer, sorted(theirs))
            self.known((*root, "match", producer), f"label of stage {name}", consumer, sorted(ours))

    def when(self, path: Path, when: Mapping[str, Iterable[Any]], labels: Iterable[str] | None = None) -> None:
        for label, choices in when.items():
            valid = self.labels | {"stage"} if labels is None else set(labels)
            if not self.known((*path, label), "label", label, sorted(valid)):
                continue
            for choice in choices:
                known = [*self.stages] if label == "stage" else self.levels.get(label)
                if known is not None and not contains(known, choice):
                    self.problem((*path, label), f"no such level of {label}", choice, known)

    def pack(self, path: Path, by: Iterable[str]) -> None:
        for index, label in enumerate(by):
            self.known((*path, "by", index), "label", label, sorted(self.labels))

    def stage_order(self) -> None:
        try:
            ordered_stages(self.sweep)
        except CycleError as error:
            circle = " needs ".join(reversed(error.args[1]))
            self.problem(("stages",), f"stages wait for each other: {circle}", error.args[1][0])

    def whole_file(self) -> None:
        self.pack(("pack",), self.file.pack.by)
        self.when(("only",), self.file.only)
        for index, exclusion in enumerate(self.file.exclude):
            self.when(("exclude", index, "when"), exclusion.when)
        for index, rule in enumerate(self.file.cells):
            self.when(("cells", index, "when"), rule.when, {*self.levels, "stage"})
        analysis = self.file.analysis
        self.when(("analysis", "baseline"), {label: (value,) for label, value in analysis.baseline.items()})
        self.when(("analysis", "primary"), analysis.primary)
        for key in ("arm", "column"):
            if (label := getattr(analysis, key)) is not None:
                self.known(("analysis", key), "factor", label, self.levels)
        if isinstance(analysis.step, dict) and analysis.column in self.levels:
            names = [str(level) for level in self.levels[analysis.column]]
            for level in analysis.step:
                self.known(("analysis", "step", level), f"level of {analysis.column}", level, names)
