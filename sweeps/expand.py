"""A loaded sweep -> its runs. Pure: the same file gives the same design, whatever else is going on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from graphlib import CycleError
from typing import Any

from jobs import runners
from jobs.identity import canonical_json
from jobs.spec import InputRef, RunSpec
from sweeps import crossing, pack, references
from sweeps.cells import CellChecker, settings_of
from sweeps.crossing import Point
from sweeps.design import Cell, Design, PlannedRun, Skipped, StagePlan, cell_name
from sweeps.errors import Problem, SweepError
from sweeps.inputs import Lookup, Producer
from sweeps.labels import agrees, contains
from sweeps.load import Sweep
from sweeps.metric_check import check_metric
from sweeps.pilots import planned_analysis
from sweeps.processes import check_processes
from sweeps.schema import Exclusion, Need, Stage
from sweeps.tree import origin_of

_ALONE: tuple[tuple[dict[str, Any], dict[str, InputRef]], ...] = (({}, {}),)
"""What ``_inputs`` finds for a cell that consumes nothing; one for all of its runs."""


def expand(sweep: Sweep) -> Design:
    """Cross factors and seeds, check every cell, find every run's inputs, pack.

    Raises:
        SweepError: names that mean nothing and configs their runner refuses, all of them at once.
    """
    work = _Expansion(sweep)
    work.problems += references.check(sweep)
    try:
        names = references.ordered_stages(sweep)
    except CycleError:
        raise SweepError(work.problems) from None
    for name in names:
        work.cross(name)
    if not (spoilt := work.checker.problems()) and (wrong := check_metric(sweep, work.cells)) is not None:
        work.problems.append(wrong)
    work.problems += spoilt
    if work.problems:
        raise SweepError(work.problems)
    for name in names:
        work.runs_of(name)
    work.problems += work.checker.problems()
    if work.problems:
        raise SweepError(work.problems)
    return work.design(names)


@dataclass
class _Expansion:
    sweep: Sweep
    problems: list[Problem] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    runs: list[PlannedRun] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    by_stage: dict[str, list[Cell]] = field(default_factory=dict)
    producers: dict[str, list[Producer]] = field(default_factory=dict)
    by_id: dict[str, int] = field(default_factory=dict)
    misfits: dict[tuple[int, str, int], bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.checker = CellChecker(self.sweep)
        self.stages = self.sweep.file.all_stages()

    def cross(self, name: str) -> None:
        """The cells of a stage, checked; those that are excluded become skipped ones."""
        stage = self.stages[name]
        cells = self.by_stage[name] = []
        if stage.runner not in references.RUNNERS:
            return
        for point in crossing.points(self.sweep, name, stage):
            labels = {"stage": name, **point.labels}
            if (exclusion := self._excluded(labels)) is not None:
                self.skipped.append(Skipped(labels, exclusion.reason))
                continue
            checked = self.checker.check(name, stage.runner, point)
            if checked is None:
                continue
            own = self._retyped(point.labels, checked.texts)
            resources, execution = settings_of(self.sweep, name, stage, own)
            cell = Cell(len(self.cells), name, stage.runner, checked.config, own, checked.shape, resources, execution)
            self._check_consumed(cell, point, stage)
            check_processes(self.sweep, cell, self.checker)
            self.cells.append(cell)
            cells.append(cell)

    def runs_of(self, name: str) -> None:
        """The runs of a stage, seed-major; ``producers`` of earlier stages are complete."""
        stage = self.stages[name]
        seeds = references.seeds_of(self.sweep, stage)
        lookups = self._lookups(name, stage, seeds.name)
        late = [rule for rule in self.sweep.file.exclude if not rule.when.keys() <= self._cell_labels(name)]
        only = self.sweep.file.only
        kept = [seed for seed in seeds.values if seeds.name not in only or contains(only[seeds.name], seed)]
        inherited = {label: choices for label, choices in only.items() if label not in self._cell_labels(name)}
        inherited.pop(seeds.name, None)
        cells = self._different(name, stage, lookups)
        consumed = any(need.stage == name for other in self.stages.values() for n in other.needs.values() for need in n)
        made = self.producers[name] = []
        doubled: dict[tuple[int, int], int] = {}
        for seed in kept:
            seed_label = {seeds.name: seed}  # one for all runs of the seed: there can be a hundred thousand
            for cell in cells:
                base = {**cell.labels, seeds.name: seed}
                found = self._inputs(cell, stage, lookups, base) if cell.shape.consumes else _ALONE
                for nested, inputs in found:
                    if inherited and not all(
                        contains(choices, nested[k]) for k, choices in inherited.items() if k in nested
                    ):
                        continue
                    labels = {**base, **nested} if nested else base
                    if late and (exclusion := self._excluded({"stage": name, **labels}, late)) is not None:
                        self.skipped.append(Skipped({"stage": name, **labels}, exclusion.reason))
                        continue
                    spec = RunSpec(cell.runner, cell.config, seed, inputs)
                    first = self.by_id.setdefault(spec.id, cell.index)
                    if consumed:
                        made.append((labels, spec.id, cell.shape))
                    if len(self.by_id) == len(self.runs):
                        doubled[first, cell.index] = doubled.get((first, cell.index), 0) + 1
                        continue
                    own = {**seed_label, **nested} if nested else seed_label
                    self.runs.append(PlannedRun(spec, cell.index, own))
        for (first, second), count in doubled.items():
            one, other = self.cells[first].name, self.cells[second].name
            self.notices.append(f"{count} runs of {other} are runs of {one} already: equal runs are one run")

    def design(self, names: list[str]) -> Design:
        file = self.sweep.file
        stages = tuple(self._stage_plan(name) for name in names)
        if not self.runs:
            raise SweepError([Problem("", "no run is left: only and exclude leave nothing", self.sweep.source["file"])])
        self._drop_empty_cells()
        packs, notices = pack.packed(file, self.stages, self.cells, self.runs)
        told = [text for text in file.notices.values() if text]
        return Design(
            name=file.name,
            source=self.sweep.source,
            settings=self.sweep.settings,
            analysis=planned_analysis(file),
            stages=stages,
            cells=tuple(self.cells),
            runs=tuple(self.runs),
            packs=packs,
            skipped=tuple(self.skipped),
            notices=(*told, *crossing.repeated(self.sweep), *self.notices, *notices),
            assumed=self.sweep.assumed,
        )

    def _retyped(self, labels: Mapping[str, Any], texts: Mapping[Any, str]) -> Mapping[str, Any]:
        """Labels of values that the runner's schema says are text, as they were written."""
        if not texts:
            return labels
        factors = self.sweep.file.factors
        paths = {name: tuple((factors[name].path or name).split(".")) for name in labels if factors[name].values}
        return {name: texts.get(paths.get(name), value) for name, value in labels.items()}

    def _drop_empty_cells(self) -> None:
        """Cells whose runs were all left out are among the skipped ones, not among the cells."""
        kept = {run.cell for run in self.runs}
        if len(kept) == len(self.cells):
            return
        place = {index: new for new, index in enumerate(sorted(kept))}
        self.cells = [replace(cell, index=place[cell.index]) for cell in self.cells if cell.index in kept]
        self.runs = [run._replace(cell=place[run.cell]) for run in self.runs]

    def _stage_plan(self, name: str) -> StagePlan:
        stage = self.stages[name]
        seeds = references.seeds_of(self.sweep, stage)
        needs = tuple(dict.fromkeys(need.stage for group in stage.needs.values() for need in group))
        return StagePlan(name, stage.runner, crossing.factor_names(self.sweep, stage), seeds.name, seeds.values, needs)

    def _cell_labels(self, name: str) -> set[str]:
        return {"stage", *crossing.factor_names(self.sweep, self.stages[name])}

    def _excluded(self, labels: Mapping[str, Any], rules: list[Exclusion] | None = None) -> Exclusion | None:
        candidates = self.sweep.file.exclude if rules is None else rules
        return next((rule for rule in candidates if agrees(rule.when, labels)), None)

    def _lookups(self, name: str, stage: Stage, seed: str) -> dict[str, list[Lookup]]:
        """Input -> one lookup for each of its rules. Labels inherited through an earlier input count as ours."""
        ours = {*crossing.factor_names(self.sweep, stage), seed}
        found: dict[str, list[Lookup]] = {}
        for label, needs in stage.needs.items():
            found[label] = [Lookup(need, self.producers[need.stage], ours) for need in needs]
            ours |= {name for lookup in found[label] for name in lookup.nested}
        return found

    def _rule(self, cell: Cell, needs: tuple[Need, ...]) -> int | None:
        labels = {"stage": cell.stage, **cell.labels}
        return next((index for index, need in enumerate(needs) if agrees(need.when, labels)), None)

    def _check_consumed(self, cell: Cell, point: Point, stage: Stage) -> None:
        """Inputs the config asks for have a rule, and rules made for this cell have a config that asks."""
        root = ("stages", cell.stage)
        for label in cell.shape.consumes:
            if label not in stage.needs or self._rule(cell, stage.needs[label]) is None:
                message = f"its config asks for the input {label!r}, and no `needs` of the stage gives it"
                self._cell_problem(root, message, cell)
        for label, needs in stage.needs.items():
            index = self._rule(cell, needs)
            if index is not None and needs[index].when and label not in cell.shape.consumes:
                message = f"`needs` gives it the input {label!r}, and its config has no use for it"
                self._cell_problem((*root, "needs", label), message, cell)

    def _cell_problem(self, path: tuple[str | int, ...], message: str, cell: Cell) -> None:
        _, origin = origin_of(self.sweep.origins, path)
        self.checker.add(Problem(".".join(map(str, path)), message, origin.file, origin.line), cell.name)

    def _different(self, name: str, stage: Stage, lookups: Mapping[str, list[Lookup]]) -> list[Cell]:
        """Cells of a stage, without those that ask for exactly the runs of an earlier one under other labels."""
        seen: dict[Any, Cell] = {}
        for cell in self.by_stage[name]:
            asked = []
            for label in cell.shape.consumes:
                index = self._rule(cell, stage.needs[label])
                assert index is not None
                lookup = lookups[label][index]
                asked.append((label, index, [str(cell.labels.get(ours)) for _, ours in lookup.pairs]))
            twin = seen.setdefault(canonical_json([cell.config, asked]), cell)
            if twin is not cell:
                reason = f"the same runs as {twin.name}: nothing in their configs differs"
                self.skipped.append(Skipped({"stage": name, **cell.labels}, reason))
                self.notices.append(f"{cell.name} is left out, it asks for {reason}")
        return list(seen.values())

    def _inputs(
        self, cell: Cell, stage: Stage, lookups: Mapping[str, list[Lookup]], labels: Mapping[str, Any]
    ) -> Iterator[tuple[dict[str, Any], dict[str, InputRef]]]:
        """(inherited labels, inputs) of each run that this cell and seed stand for."""
        partial: list[tuple[dict[str, Any], dict[str, InputRef]]] = [({}, {})]
        for label in cell.shape.consumes:
            index = self._rule(cell, stage.needs[label])
            assert index is not None
            lookup = lookups[label][index]
            if not all(lookup.need.product in shape.products for shape in lookup.shapes.values()):
                self._wrong_product(cell, label, lookup)
                return
            grown = []
            for nested, inputs in partial:
                found = lookup.find({**labels, **nested})
                if not found:
                    self._no_producer(cell, lookup, {**labels, **nested})
                    return
                if any(self._misfit(cell, label, self.by_id[ref.run]) for _, ref in found):
                    return
                grown += [({**nested, **theirs}, {**inputs, label: ref}) for theirs, ref in found]
            partial = grown
        yield from partial

    def _misfit(self, cell: Cell, label: str, producer: int) -> bool:
        """Whether the product of a producer's cell cannot be used; said once for each pair of cells."""
        key = (cell.index, label, producer)
        if key not in self.misfits:
            made = self.cells[producer]
            reason = runners.misfit(cell.runner, cell.config, label, made.runner, made.config)
            self.misfits[key] = bool(reason)
            if reason:
                self._cell_problem(("stages", cell.stage, "needs", label), f"{reason} (made by {made.name})", cell)
        return self.misfits[key]

    def _wrong_product(self, cell: Cell, label: str, lookup: Lookup) -> None:
        products = sorted({name for shape in lookup.shapes.values() for name in shape.products})
        path = ("stages", cell.stage, "needs", label, "product")
        written, origin = origin_of(self.sweep.origins, path)
        message = f"stage {lookup.need.stage} leaves no such product"
        problem = Problem(
            ".".join(map(str, written)), message, origin.file, origin.line, lookup.need.product, tuple(products)
        )
        if problem not in self.problems:
            self.problems.append(problem)

    def _no_producer(self, cell: Cell, lookup: Lookup, labels: Mapping[str, Any]) -> None:
        """Producers that were left out on purpose skip the consumer; ones that never existed are a mistake."""
        need, wanted = lookup.need, lookup.wanted(labels)
        asked = cell_name(need.stage, wanted)
        when = {name: (value,) for name, value in {"stage": need.stage, **wanted}.items()}
        reasons = [skipped.reason for skipped in self.skipped if agrees(when, skipped.labels)]
        known = all(
            label not in self.sweep.file.factors
            or contains([level.value for level in crossing.levels(self.sweep, label)], value)
            for label, value in wanted.items()
        )
        if reasons or (known and self.sweep.file.only):
            why = f"needs {asked}, which is left out" + (f": {reasons[0]}" if reasons else " by `only`")
            skipped = Skipped({"stage": cell.stage, **cell.labels}, why)
            if skipped not in self.skipped[-64:]:
                self.skipped.append(skipped)
            return
        self._cell_problem(("stages", cell.stage, "needs"), f"it needs a run of {asked}, and there is none", cell)
