"""Which runs of another stage a run consumes: producers looked up by their labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jobs.runners import RunShape
from jobs.spec import InputRef
from sweeps.labels import agrees, key
from sweeps.schema import Need

Producer = tuple[Mapping[str, Any], str, RunShape]
"""(all labels, run id, shape) of a run of an earlier stage."""


class Lookup:
    """The producers that one ``Need`` of one stage can name, indexed by the labels that must agree."""

    def __init__(self, need: Need, producers: Iterable[Producer], ours: set[str]) -> None:
        candidates = [producer for producer in producers if agrees(need.where, producer[0])]
        names = list(dict.fromkeys(name for labels, _, _ in candidates for name in labels))
        fixed = {name for name, choices in need.where.items() if len(choices) == 1}
        shared = [name for name in names if name in ours and name not in need.match and name not in need.where]
        self.need = need
        self.pairs = [*need.match.items(), *((name, name) for name in shared)]
        """(producer's label, consumer's label) that must be equal."""
        paired = {theirs for theirs, _ in self.pairs}
        self.nested = [name for name in names if name not in paired and name not in fixed]
        """Labels that a consumer gets from its producer."""
        self.shapes = {id(shape): shape for _, _, shape in candidates}
        self._index: dict[tuple[Any, ...], list[Producer]] = {}
        for producer in candidates:
            where = tuple(key(producer[0].get(theirs)) for theirs, _ in self.pairs)
            self._index.setdefault(where, []).append(producer)

    def find(self, labels: Mapping[str, Any]) -> list[tuple[dict[str, Any], InputRef]]:
        """(labels to inherit, reference) of each producer that agrees with a consumer's labels."""
        wanted = tuple(key(labels.get(ours)) for _, ours in self.pairs)
        return [
            ({name: theirs[name] for name in self.nested if name in theirs}, InputRef(run, self.need.product))
            for theirs, run, _ in self._index.get(wanted, ())
        ]

    def wanted(self, labels: Mapping[str, Any]) -> dict[str, Any]:
        """The producer's labels that a consumer asks for, to say what was not found."""
        fixed = {name: choices[0] for name, choices in self.need.where.items() if len(choices) == 1}
        return {**{theirs: labels.get(ours) for theirs, ours in self.pairs}, **fixed}
